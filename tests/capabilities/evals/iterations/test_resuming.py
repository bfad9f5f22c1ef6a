"""An eval that is killed or interrupted continues; a finished or changed one begins a new iteration."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.capabilities.evals.conftest import AGENT, HELLO, IN_NEW_SESSION, Lab
from tests.processes import becomes, sleepers, unique_seconds

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the agents of these tests are POSIX shell scripts")

HANGS = f"""{AGENT}
case "$1" in
slow) [ -e "{{log}}.go" ] || {{ : > "{{log}}.hangs"; {IN_NEW_SESSION} sleep {{seconds}} & wait; }} ;;
esac
"""
"""An agent that hangs on the prompt `slow` until a file exists."""


def hanging(lab: Lab, seconds: str) -> str:
    """Return the template of the agent that hangs, in a process that is found by `sleepers(seconds)`."""
    lab.write_evals({"assertions": [HELLO]}, {"prompt": "slow", "assertions": [HELLO]})
    return lab.agent(HANGS.replace("{seconds}", seconds))


async def test_a_killed_eval_leaves_no_process_and_continues_without_repeating_a_finished_run(lab: Lab) -> None:
    seconds = unique_seconds()
    agent = hanging(lab, seconds)
    with lab.start("--jobs", 1, agent=agent) as process:
        assert await becomes(lambda: Path(f"{lab.log}.hangs").exists())
        assert await becomes(lambda: len(sleepers(seconds)) > 0)
        process.kill()
        process.wait(60)
    if sys.platform == "linux":
        assert await becomes(lambda: not sleepers(seconds))
    done = (lab.workspace / "iteration-1").glob("*/*/*/outcome.json")
    before = {path: path.stat().st_mtime_ns for path in done}
    assert len(before) == 2
    assert not (lab.workspace / "iteration-1" / "benchmark.json").exists()
    Path(f"{lab.log}.go").touch()
    report = lab.report("--jobs", 1, agent=agent)
    assert (report["iteration"], report["resumed"], report["errors"]) == (1, True, 0)
    assert report["plan"]["runs_to_do"] == 2
    assert all(path.stat().st_mtime_ns == then for path, then in before.items())
    assert len(lab.logged()) == 2 + 1 + 2
    assert report["run_summary"]["delta"]["pass_rate"] == 1.0
    assert lab.left_over() == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_a_signal_ends_the_agents_and_the_eval_says_how_to_go_on(lab: Lab, number: int, code: int) -> None:
    seconds = unique_seconds()
    agent = hanging(lab, seconds)
    with lab.start(agent=agent) as process:
        assert await becomes(lambda: len(sleepers(seconds)) > 0)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert "interrupted; the same command continues the iteration" in err
    assert "Traceback" not in err
    assert await becomes(lambda: not sleepers(seconds))
    Path(f"{lab.log}.go").touch()
    assert lab.report(agent=agent)["resumed"]


def test_a_finished_iteration_is_followed_by_a_new_one(lab: Lab) -> None:
    assert [lab.report()["iteration"] for _ in range(2)] == [1, 2]


def test_new_begins_a_new_iteration_while_the_last_one_is_unfinished(lab: Lab) -> None:
    fails = lab.agent("exit 1")
    assert lab.run(agent=fails).returncode == 1
    assert lab.report("--new", agent=fails)["iteration"] == 2


@pytest.mark.parametrize("changed", ["skill", "prompt", "input", "agent", "runs", "baseline", "timeout"])
def test_an_unfinished_iteration_of_other_arguments_is_not_continued(lab: Lab, changed: str) -> None:
    lab.write_evals({"files": ["evals/files/x"]}, x=b"1")
    fails = lab.agent("exit 1")
    assert lab.run(agent=fails).returncode == 1
    flags: list[object] = []
    match changed:
        case "skill":
            (lab.skill / "assets" / "template.txt").write_text("other")
        case "prompt":
            lab.write_evals({"files": ["evals/files/x"], "prompt": "other"}, x=b"1")
        case "input":
            lab.write_evals({"files": ["evals/files/x"]}, x=b"2")
        case "agent":
            fails += " other"
        case "runs":
            flags = ["--runs", 2]
        case "baseline":
            flags = ["--baseline", lab.skill]
        case "timeout":
            flags = ["--timeout", 7]
    report = lab.report(*flags, agent=fails)
    assert (report["iteration"], report["resumed"]) == (2, False)


def test_an_edit_during_the_eval_changes_no_run(lab: Lab) -> None:
    template = lab.skill / "assets" / "template.txt"
    script = f'echo changed > {template}; [ -z "$2" ] || cat "$2/assets/template.txt" > "$3/out.txt"'
    assert lab.run("--jobs", 1, "--runs", 2, agent=lab.agent(script)).returncode == 0
    outputs = (lab.workspace / "iteration-1").glob("*/with_skill/*/outputs/out.txt")
    assert [path.read_text() for path in outputs] == ["hello\n"] * 4
    snapshot = lab.workspace / "snapshots" / "iteration-1" / "greeter"
    assert (snapshot / "assets" / "template.txt").read_text() == "hello\n"
    assert not (snapshot / "evals").exists()


def test_damaged_files_count_as_missing(lab: Lab) -> None:
    lab.report()
    place = lab.workspace / "iteration-1"
    (place / "eval-1/with_skill/run-1/outcome.json").write_bytes(b"\xff{")
    (place / "eval-2/with_skill/run-1/grading.json").write_text("[" * 100_000)
    report = lab.report()
    assert (report["iteration"], report["plan"]["runs_to_do"], report["errors"]) == (1, 1, 0)
    (place / "config.json").write_text("{}")
    assert lab.report()["iteration"] == 2


async def test_two_evals_in_one_workspace_are_refused(lab: Lab) -> None:
    agent = hanging(lab, unique_seconds())
    with lab.start(agent=agent) as process:
        assert await becomes(lambda: Path(f"{lab.log}.hangs").exists())
        second = lab.run(agent=agent)
        assert (second.returncode, second.stdout) == (2, "")
        assert "another eval works here" in second.stderr
        Path(f"{lab.log}.go").touch()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert (lab.workspace / "iteration-1" / "config.json").exists()
