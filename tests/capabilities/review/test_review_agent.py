"""With an agent, a review compares what both versions of a skill do in its work, and whether it loads them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.capabilities.review.conftest import Branch

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the agents are started by sh")

PROGRAM = Path(__file__).parents[1] / "evals/triggers/agent_program.py"
NAMES = ("harbour", "shore", "island", "sands", "reef", "pier")


def test_tasks_are_compared_with_the_version_at_the_base(branch: Branch, tmp_path: Path) -> None:
    cases = [
        {
            "id": number,
            "prompt": "greet",
            "assertions": [{"text": "says hello", "check": 'read -r said < out.txt; test "$said" = hello'}],
        }
        for number in range(6)
    ]
    evals = {"evals/evals.json": json.dumps({"skill_name": "greeter", "evals": cases}).encode()}
    agent = "cat {skill}/word.txt > {outputs}/out.txt; : {prompt}"
    branch.write("greeter", files={**evals, "word.txt": b"hello\n"})
    new = branch.report("--agent-command", agent, "--workspace", tmp_path / "new", "--runs", 1)
    (greeter,) = new["skills"]
    assert greeter["agent"]["task"]["baseline"] == "no skill"
    branch.commit()
    branch.write("greeter", files={"word.txt": b"goodbye\n"})
    done = branch.run(
        *("--base", "HEAD", "--agent-command", agent, "--workspace", tmp_path / "runs", "--runs", 1, "--json"),
        *("--markdown", tmp_path / "report.md"),
    )
    (greeter,) = json.loads(done.stdout)["skills"]
    effect = greeter["agent"]["task"]["effect"]
    assert (effect["verdict"], effect["mean"], effect["cases"]) == ("worse", -1.0, 6)
    assert greeter["agent"]["triggers"]["note"] == "it has no trigger queries"
    assert (done.returncode, "its tasks come out worse" in (tmp_path / "report.md").read_text()) == (1, True)


def test_triggers_of_both_versions_are_compared_query_by_query(
    branch: Branch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RULES", str(tmp_path / "rules"))
    # The agent loads the skill for these words if its description has them.
    lines = ["loads harbour", *(f"needs {name}" for name in NAMES)]
    (tmp_path / "rules").write_text("".join(f"{line}\n" for line in lines))
    branch.write("tides", f"Works out times of water. Use for {' and '.join(NAMES)}.")
    queries = [{"query": f"when is the {name} dry", "should_trigger": True} for name in NAMES]
    branch.write_queries("tides", [*queries, {"query": "will it rain", "should_trigger": False}])
    branch.commit()
    branch.write("tides", "Works out times of water. Use for water.")
    found = branch.report(
        *("--base", "HEAD", "--agent-command", f"{sys.executable} -I -S {PROGRAM} {{prompt}}"),
        *("--workspace", tmp_path / "runs", "--runs", 1),
    )
    triggers = found["skills"][0]["agent"]["triggers"]
    assert triggers["queries"] == 7, triggers
    assert triggers["recall"]["before"]["count"] > triggers["recall"]["after"]["count"], triggers
    assert triggers["effect"]["mean"] < 0


def test_what_was_asked_for_and_could_not_be_measured_fails(branch: Branch, tmp_path: Path) -> None:
    cases = [{"id": 1, "prompt": "greet", "assertions": [{"text": "t", "check": "true"}]}]
    branch.write("greeter", files={"evals/evals.json": json.dumps({"evals": cases}).encode()})
    found = branch.report(
        "--agent", "claude", "--workspace", tmp_path / "runs", PATH="/nonexistent-programs:/usr/bin:/bin"
    )
    assert [each["kind"] for each in found["failures"]] == ["unmeasured"]
    assert found["skills"][0]["agent"]["task"]["note"]


def test_tasks_that_a_bound_has_stopped_are_not_measured(branch: Branch, tmp_path: Path) -> None:
    cases = [{"id": each, "prompt": "greet", "assertions": [{"text": "t", "check": "true"}]} for each in (1, 2)]
    branch.write("greeter", files={"evals/evals.json": json.dumps({"evals": cases}).encode()})
    flags = ("--agent-command", "true {prompt} {skill}", "--workspace", tmp_path / "runs", "--runs", 1)
    found = branch.report(*flags, SKILLSERVE_EVAL_MAX_REQUESTS="3")
    assert [each["kind"] for each in found["failures"]] == ["unmeasured"]
    assert "Stopped at the bound: 3 of 4 runs" in found["skills"][0]["agent"]["task"]["note"]


def test_tasks_whose_runs_all_fail_are_not_measured(branch: Branch, tmp_path: Path) -> None:
    cases = [{"id": 1, "prompt": "greet", "assertions": [{"text": "t", "check": "true"}]}]
    branch.write("greeter", files={"evals/evals.json": json.dumps({"evals": cases}).encode()})
    flags = ("--agent-command", "exit 3; : {prompt} {skill}", "--workspace", tmp_path / "runs", "--runs", 1)
    found = branch.report(*flags)
    assert [each["kind"] for each in found["failures"]] == ["unmeasured"]
