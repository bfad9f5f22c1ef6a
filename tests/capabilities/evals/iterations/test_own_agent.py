"""`skillserve eval` with our own executor and a judge, both models over HTTP."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skills_core.testing import Call
from tests.capabilities.evals.conftest import HELLO, Lab
from tests.model_endpoint import Answer, Hang, ModelEndpoint, Raw

CASES = (
    {"prompt": "greet Ada", "assertions": [HELLO, "it names Ada"], "expected_output": "A greeting of Ada."},
    {"prompt": "greet Bob", "assertions": [HELLO]},
)


def text_of(asked: dict[str, Any]) -> str:
    return json.dumps(asked["messages"], ensure_ascii=False)


def judges(asked: dict[str, Any]) -> bool:
    return "You grade the work" in asked["messages"][0]["content"]


def has_skill(asked: dict[str, Any]) -> bool:
    return "Copy the template." in asked["messages"][0]["content"]


def graded(*entries: tuple[bool, str]) -> str:
    return json.dumps({"results": [{"passed": passed, "quote": quote, "reason": "So."} for passed, quote in entries]})


def model(asked: dict[str, Any]) -> Answer:
    """Write a file with the skill, and answer in words without it; find Ada where she is."""
    if judges(asked):
        return graded((True, "hello Ada" if "hello Ada" in text_of(asked) else "Ada, good day"))
    spoken = sum(message["role"] == "assistant" for message in asked["messages"])
    if has_skill(asked) and not spoken:
        name = "Ada" if "greet Ada" in text_of(asked) else "Bob"
        return Call("write_file", {"path": "outputs/out.txt", "content": f"hello {name}\n"})
    return "done" if spoken else "good day"


@pytest.fixture
def own(lab: Lab, endpoint: ModelEndpoint) -> Callable[..., dict[str, Any]]:
    """Run `eval --json` with our own executor."""
    lab.write_evals(*CASES)
    endpoint.reply = model

    def report(*flags: object) -> dict[str, Any]:
        return lab.report("--model", endpoint.model, *flags, agent="")

    return report


Own = Callable[..., dict[str, Any]]


def test_the_model_performs_each_case_with_and_without_the_skill_and_a_judge_grades(own: Own, lab: Lab) -> None:
    report = own()
    assert report["errors"] == 0, report["notes"]
    place = lab.workspace / "iteration-1" / "eval-1"
    assert (place / "with_skill/run-1/outputs/out.txt").read_text() == "hello Ada\n"
    assert (place / "without_skill/run-1/answer.txt").read_text() == "good day"
    results = lab.file("eval-1/with_skill/run-1/grading.json")["assertion_results"]
    assert results[0] == {"text": "says hello", "passed": True, "evidence": "hello Ada"}
    assert results[1]["evidence"] == '"hello Ada" (outputs/out.txt). So.'
    failed = lab.file("eval-1/without_skill/run-1/grading.json")["assertion_results"][1]
    assert not failed["passed"]
    assert "which is neither in the outputs nor said by the agent" in failed["evidence"]
    assert lab.file("eval-1/with_skill/run-1/timing.json")["total_tokens"] == 220
    assert report["run_summary"]["delta"]["tokens"] == 110.0
    assert report["run_summary"]["delta"]["pass_rate"] == 1.0
    kinds = [
        json.loads(line)["kind"] for line in (place / "with_skill/run-1/transcript.jsonl").read_text().splitlines()
    ]
    assert kinds == ["model", "tool", "model", "result"]
    assert report["runs"][0]["result"]["tool_calls"] == 1
    assert any("judges itself" in note for note in report["notes"])
    assert lab.left_over() == []


def test_the_executor_never_sees_assertions_and_the_baseline_never_the_skill(own: Own, endpoint: ModelEndpoint) -> None:
    own()
    performed = [asked for asked in endpoint.requests if not judges(asked)]
    plain = [asked for asked in performed if not has_skill(asked)]
    assert len(plain) == 2
    for asked in performed:
        for secret in ("names Ada", "A greeting of Ada.", "says hello", "read -r said", "evals"):
            assert secret not in json.dumps(asked)
    for asked in plain:
        assert "greeter" not in json.dumps(asked)
        assert "template" not in json.dumps(asked)
    tools = [{tool["function"]["name"] for tool in asked["tools"]} for asked in performed]
    assert {frozenset(each - {"read_skill_file"}) for each in tools} == {
        frozenset({"read_file", "write_file", "list_directory", "grep", "ask_user"})
    }


def test_a_model_cannot_read_eval_files_of_the_skill(own: Own, lab: Lab, endpoint: ModelEndpoint) -> None:
    lab.write_evals({"prompt": "greet Ada", "assertions": [HELLO]})

    def nosy(asked: dict[str, Any]) -> Answer:
        spoken = sum(message["role"] == "assistant" for message in asked["messages"])
        wanted = [Call("read_skill_file", {"skill": "greeter", "path": "evals/evals.json"})]
        wanted += [Call("read_file", {"path": f"{'../' * depth}evals/evals.json"}) for depth in range(4)]
        return wanted if has_skill(asked) and not spoken else "done"

    endpoint.reply = nosy
    own()
    transcript = (lab.workspace / "iteration-1/eval-1/with_skill/run-1/transcript.jsonl").read_text()
    assert "read -r said" not in transcript
    assert [json.loads(line)["call"]["decision"] for line in transcript.splitlines() if '"tool"' in line] == [
        "failed"
    ] * 5


@pytest.mark.skipif(sys.platform == "win32", reason="Windows ends processes in another way")
async def test_a_killed_eval_continues_each_run_answer_by_answer(own: Own, lab: Lab, endpoint: ModelEndpoint) -> None:
    hang = Hang(then="done")

    def slow(asked: dict[str, Any]) -> Answer:
        spoken = sum(message["role"] == "assistant" for message in asked["messages"])
        return hang if has_skill(asked) and spoken and "greet Bob" in text_of(asked) else model(asked)

    endpoint.reply = slow
    with lab.start("--model", endpoint.model, "--jobs", 1, agent="") as process:
        assert endpoint.gone.wait(0) is False
        while not any(slow(asked) is hang for asked in endpoint.requests):
            assert endpoint.asked.wait(60)
            endpoint.asked.clear()
        process.kill()
        process.wait(60)
    assert endpoint.gone.wait(60)
    ended = {path.parents[2].name for path in (lab.workspace / "iteration-1").glob("*/*/*/outcome.json")}
    assert ended == {"eval-1"}
    before = len(endpoint.requests)
    endpoint.reply = model
    report = own("--jobs", 1)
    assert (report["iteration"], report["resumed"], report["errors"]) == (1, True, 0)
    assert (lab.workspace / "iteration-1/eval-2/with_skill/run-1/outputs/out.txt").read_text() == "hello Bob\n"
    asked = endpoint.requests[before:]
    assert [has_skill(each) for each in asked] == [True, False]
    # The first answer and its tool call are not repeated.
    assert sum(message["role"] == "assistant" for message in asked[0]["messages"]) == 1
    assert lab.file("eval-2/with_skill/run-1/timing.json")["total_tokens"] == 220


def test_a_model_that_fails_is_an_error_and_is_asked_again_in_a_new_attempt(
    own: Own, lab: Lab, endpoint: ModelEndpoint
) -> None:
    lab.write_evals({"prompt": "greet Bob", "assertions": [HELLO]})
    endpoint.reply = lambda _: Raw(b'{"error": {"message": "no quota"}}', 400)
    report = own()
    assert report["errors"] == 2
    assert "no quota" in lab.file("eval-1/with_skill/run-1/outcome.json")["error"]
    endpoint.reply = model
    assert own()["errors"] == 0
    assert lab.file("eval-1/with_skill/run-1/outcome.json")["attempt"] == 2


def test_a_run_that_takes_too_long_is_a_timeout(own: Own, lab: Lab, endpoint: ModelEndpoint) -> None:
    lab.write_evals({"prompt": "greet Bob", "assertions": [HELLO]})
    # No run can finish, however slow the machine is.
    endpoint.reply = lambda _: Hang()
    report = own("--timeout", 1)
    assert report["errors"] == 2
    assert lab.file("eval-1/with_skill/run-1/outcome.json")["status"] == "timeout"


def test_a_judge_that_fails_leaves_the_run_ungraded_and_it_is_graded_later(
    own: Own, lab: Lab, endpoint: ModelEndpoint
) -> None:
    endpoint.reply = lambda asked: "PASS, all of it" if judges(asked) else model(asked)
    assert own()["errors"] == 2
    assert "no grading in 3 answers" in lab.file("eval-1/with_skill/run-1/outcome.json")["grading_error"]
    endpoint.reply = model
    endpoint.requests.clear()
    assert own()["errors"] == 0
    assert len(endpoint.requests) == 2
    assert all(map(judges, endpoint.requests))


@pytest.mark.usefixtures("own")
def test_the_judge_is_a_model_of_its_own_and_gets_no_key_of_the_other(
    lab: Lab, endpoint: ModelEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKILLSERVE_MODEL_KEY", "secret-of-the-agent")
    environment = {name: value for name, value in os.environ.items() if name.startswith("SKILLSERVE_")}
    flags = ("--model", endpoint.model, "--judge-model", f"{endpoint.address}#judge", "--json")
    done = lab.run(*flags, agent="", **environment)
    report = json.loads(done.stdout)
    assert report["errors"] == 0
    asked = list(zip(endpoint.requests, endpoint.headers, strict=True))
    assert {(each["model"], headers["authorization"]) for each, headers in asked} == {
        ("scripted", "Bearer secret-of-the-agent"),
        ("judge", "Bearer none"),
    }
    assert lab.file("benchmark.json")["metadata"]["analyzer_model"] == f"{endpoint.address}#judge"


def test_outputs_are_compared_blindly_in_both_orders(own: Own, lab: Lab, endpoint: ModelEndpoint) -> None:
    def compares(asked: dict[str, Any]) -> Answer:
        if "Two agents worked" not in asked["messages"][0]["content"]:
            return model(asked)
        shown = text_of(asked)
        better = "A" if shown.index("hello") < shown.index("good day") else "B"
        return json.dumps({"winner": better, "reasoning": "Warm.", "rubric": [{"criterion": "tone", "A": 4, "B": 2}]})

    endpoint.reply = compares
    assert own("--compare")["errors"] == 0
    found = lab.file("eval-1/comparison.json")
    assert (found["winner"], found["A"], found["B"]) == ("A", "with_skill", "without_skill")
    assert [each["winner"] for each in found["orders"]] == ["A", "A"]
    assert found["length_ratio"] > 0
    asked = [each for each in endpoint.requests if "Two agents" in each["messages"][0]["content"]]
    assert len(asked) == 4
    assert not any("with_skill" in text_of(each) or "write_file" in text_of(each) for each in asked)


def test_a_finished_eval_can_be_compared_later(own: Own, lab: Lab, endpoint: ModelEndpoint) -> None:
    assert own()["iteration"] == 1
    tie = json.dumps({"winner": "TIE", "reasoning": "Alike.", "rubric": [{"criterion": "tone", "A": 3, "B": 3}]})
    endpoint.reply = lambda asked: tie if "Two agents" in asked["messages"][0]["content"] else model(asked)
    report = own("--compare")
    assert (report["iteration"], report["plan"]["runs_to_do"]) == (1, 0)
    assert lab.file("eval-2/comparison.json")["winner"] == "TIE"


def test_a_change_is_proposed_from_the_iteration_that_was_run(own: Own, lab: Lab, endpoint: ModelEndpoint) -> None:
    own()
    changed = (lab.skill / "SKILL.md").read_text().replace("Copy the template.", "Copy the template, warmly.")
    endpoint.reply = lambda _: json.dumps({"summary": "Warmer.", "files": [{"path": "SKILL.md", "content": changed}]})
    done = lab.run("--propose", "--dry-run", "--model", endpoint.model, agent="")
    assert (done.returncode, done.stdout) == (0, "")
    assert "2 cases of" in done.stderr


def test_runs_of_evals_do_not_mix_with_the_users_runs(own: Own, lab: Lab) -> None:
    own()
    assert not Path(lab.state, "skillserve", "runs.sqlite").exists()
    assert not Path(lab.state, "skillserve", "runs").exists()
