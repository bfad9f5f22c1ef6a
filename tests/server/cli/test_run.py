"""`skillserve run` and `skillserve runs`, with a model endpoint over HTTP."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MakeSkill
from tests.model_endpoint import Hang, ModelEndpoint, Raw
from tests.server.cli.test_cli import REPOSITORY, run


@pytest.fixture
def state(tmp_path: Path) -> str:
    return str(tmp_path / "state")


def run_skill(endpoint: ModelEndpoint, state: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return run("run", *arguments, "--model", endpoint.model, XDG_STATE_HOME=state)


def test_the_output_goes_to_stdout_and_the_trace_can_be_read_afterwards(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, state: str
) -> None:
    make_skill("greeter", body="Greet in {{language}}.")
    endpoint.script = ["Bonjour"]
    done = run_skill(endpoint, state, "greeter", "politely", skills, "--param", "language=French")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Bonjour\n", "")
    assert "Greet in French." in endpoint.requests[0]["messages"][0]["content"]
    listed = json.loads(run("runs", "list", "--json", XDG_STATE_HOME=state).stdout)["runs"]
    assert [(each["skill"], each["status"]) for each in listed] == [("greeter", "completed")]
    trace = json.loads(run("runs", "show", listed[0]["run_id"], XDG_STATE_HOME=state).stdout)
    assert (trace["output"], trace["request"], trace["parameters"]) == ("Bonjour", "politely", {"language": "French"})
    assert trace["events"][0]["kind"] == "model"


def test_json_output_is_the_documented_object(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, state: str
) -> None:
    make_skill("greeter")
    endpoint.script = ["hello"]
    outcome: dict[str, Any] = json.loads(run_skill(endpoint, state, "greeter", "hi", skills, "--json").stdout)
    assert outcome.keys() == {
        "run_id",
        "skill",
        "digest",
        "status",
        "output",
        "problem",
        "message",
        "score",
        "attempts",
        "usage",
        "tool_calls",
        "activated_skills",
        "trigger_reason",
        "improvements",
    }
    assert outcome["usage"] == {"requests": 1, "input_tokens": 100, "output_tokens": 10}
    assert outcome["trigger_reason"] == "command: run"


def test_a_failed_run_reports_the_cause_on_stderr_and_exits_with_1(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, state: str
) -> None:
    make_skill("greeter")
    endpoint.script = [Raw(b'{"error": {"message": "no such model"}}', 404)]
    done = run_skill(endpoint, state, "greeter", "hi", skills)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no such model" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_openai_address_without_the_responses_api_is_reported_with_an_alternative(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, state: str
) -> None:
    make_skill("greeter")
    endpoint.script = ["hello"]
    given = {"OPENAI_BASE_URL": endpoint.address, "OPENAI_API_KEY": "sk-1", "XDG_STATE_HOME": state}
    done = run("run", "greeter", "hi", skills, "--model", "openai:gpt-x", **given)
    assert (done.returncode, done.stdout) == (1, "")
    assert "OPENAI_BASE_URL may speak chat completions only; try openai-chat:gpt-x" in done.stderr
    done = run("run", "greeter", "hi", skills, "--model", "openai-chat:gpt-x", **given)
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello\n", "")
    endpoint.script = [Raw(b'{"error": {"message": "no such model"}}', 404)]
    done = run("run", "greeter", "hi", skills, "--model", "openai-chat:gpt-x", **given)
    assert "no such model" in done.stderr
    assert "openai-chat:" not in done.stderr


def test_a_score_below_the_minimum_exits_with_1_and_prints_the_best_attempt(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, state: str
) -> None:
    make_skill("greeter", fields="evaluation: {enabled: true, minScore: 0.9, maxRetries: 0}")
    endpoint.script = ["hello", json.dumps({"overall": 0.4, "finding": "too short"})]
    done = run_skill(endpoint, state, "greeter", "hi", skills)
    assert (done.returncode, done.stdout) == (1, "hello\n")
    assert "0.4" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["greeter"], 2, "no model is set"),
        (["greeter", "--model", "client"], 2, "needs a connected client"),
        (["greeter", "--model", "nonsense"], 2, "names no model"),
        (["greeter", "--model", "nosuch:model"], 2, "nosuch:model"),
        (["nobody", "--model", "http://127.0.0.1:9/v1#x"], 1, "no active skill"),
        (["greeter", "--model", "http://127.0.0.1:9/v1#x", "--param", "x"], 2, "NAME=VALUE"),
    ],
)
def test_invalid_arguments_are_reported_before_the_run(
    make_skill: MakeSkill, skills: Path, state: str, arguments: list[str], code: int, says: str
) -> None:
    make_skill("greeter")
    name, *flags = arguments
    done = run("run", name, "hi", skills, *flags, XDG_STATE_HOME=state)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_in_place_of_the_message_is_reported_if_the_skill_is_unknown(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, state: str
) -> None:
    make_skill("only-there")
    endpoint.script = ["hello"]
    done = run_skill(endpoint, state, "only-there", skills)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"'{skills}' was taken as the message; give a message (or \"\") before folders" in done.stderr
    assert "as the message" not in run_skill(endpoint, state, "only-there", "no folder").stderr
    assert "as the message" not in run_skill(endpoint, state, "nobody", skills, skills).stderr
    assert (done := run_skill(endpoint, state, "only-there", "", skills)).returncode == 0, done.stderr
    assert "/only-there" in endpoint.requests[0]["messages"][1]["content"]


def test_an_attempt_below_the_minimum_exits_with_1_even_if_the_next_one_fails(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, state: str
) -> None:
    make_skill("greeter", fields="evaluation: {enabled: true, minScore: 0.7, maxRetries: 1}")
    low = json.dumps({"overall": 0.1, "finding": "too short"})
    for last in ([Raw(b'{"error": {"message": "no more"}}', 404)], ["hello again", "no score"]):
        endpoint.requests.clear()
        endpoint.script = ["hello", low, *last]
        done = run_skill(endpoint, state, "greeter", "hi", skills, "--json")
        outcome = json.loads(done.stdout)
        assert (outcome["status"], outcome["score"]["overall"]) == ("completed", 0.1)
        assert outcome["problem"] in {"model_error", "not_scored"}
        assert done.returncode == 1


def test_an_output_that_could_not_be_scored_is_printed_and_exits_with_1(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, state: str
) -> None:
    make_skill("greeter", fields="evaluation: {enabled: true, minScore: 0.7}")
    endpoint.script = ["hello", *["no score"] * 5]
    done = run_skill(endpoint, state, "greeter", "hi", skills)
    assert (done.returncode, done.stdout) == (1, "hello\n")
    assert "score" in done.stderr


def test_a_provider_error_is_printed_on_one_line_with_control_characters_escaped(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, state: str
) -> None:
    make_skill("greeter")
    endpoint.script = [
        Raw(json.dumps({"error": {"message": "no\x1b]0;owned\x07\nskillserve: all is well"}}).encode(), 404)
    ]
    done = run_skill(endpoint, state, "greeter", "hi", skills)
    assert done.returncode == 1
    assert "\x1b" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_unreadable_trace_does_not_hide_other_runs(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, state: str
) -> None:
    make_skill("greeter")
    endpoint.script = ["hello"]
    run_skill(endpoint, state, "greeter", "hi", skills)
    folder = Path(state, "skillserve", "runs")
    for name, text in (("empty", ""), ("half", '{"run_id": "ha'), ("list", "[]")):
        (folder / f"{name}.json").write_text(text)
    done = run("runs", "list", "--json", XDG_STATE_HOME=state)
    assert done.returncode == 0
    assert [each["skill"] for each in json.loads(done.stdout)["runs"]] == ["greeter"]
    lines = sorted(done.stderr.splitlines())
    assert [name in line for name, line in zip(("empty", "half", "list"), lines, strict=True)] == [True] * 3


def test_an_unknown_run_exits_with_1(state: str) -> None:
    for name in ("none", "../../etc/passwd"):
        done = run("runs", "show", name, XDG_STATE_HOME=state)
        assert (done.returncode, done.stdout) == (1, "")
        assert "runs list" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signal")
def test_ctrl_c_cancels_a_run_and_its_trace_records_it(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, state: str
) -> None:
    make_skill("greeter")
    endpoint.script = [Hang()]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SKILLSERVE_")}
    command = [sys.executable, "-m", "server", "run", "greeter", "hi", str(skills), "--model", endpoint.model]
    with subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env={**environment, "XDG_STATE_HOME": state},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell ignores SIGINT for background jobs, and child processes inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as process:
        assert endpoint.asked.wait(120)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert endpoint.gone.wait(60)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    listed = json.loads(run("runs", "list", "--json", XDG_STATE_HOME=state).stdout)["runs"]
    assert [each["status"] for each in listed] == ["cancelled"]
