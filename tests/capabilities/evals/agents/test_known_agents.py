"""`skillserve eval --agent`: a known agent performs the cases with the skill installed its way, and without it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.capabilities.evals.conftest import HELLO, Lab
from tests.processes import becomes, sleepers, unique_seconds

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the program in place of the agent is run by sh")

PROGRAM = Path(__file__).with_name("fake_claude.py")


class Agents:
    """The lab with a `claude` on the PATH that is our program."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.seen = lab.folder / "seen.jsonl"
        program = lab.folder / "bin/claude"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{PROGRAM}" "$@"\n')
        program.chmod(0o755)
        self.path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"

    def run(self, *flags: object, **fake: object) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": self.path, "SEEN": str(self.seen), "FAKE": json.dumps(fake)}
        return self.lab.run("--agent", "claude", "--json", *flags, agent="", **environment)

    def report(self, *flags: object, **fake: object) -> dict[str, Any]:
        done = self.run(*flags, **fake)
        assert done.stdout, done.stderr
        return dict(json.loads(done.stdout))

    def runs(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.seen.read_text().splitlines()]

    def outcome(self, arm: str, case: str = "eval-1") -> dict[str, Any]:
        return dict(self.lab.file(f"{case}/{arm}/run-1/outcome.json"))


@pytest.fixture
def agents(lab: Lab) -> Agents:
    lab.write_evals({"prompt": "greet Ada", "assertions": [HELLO]})
    return Agents(lab)


def test_the_agent_has_the_skill_in_its_own_folder_and_nothing_in_the_baseline(agents: Agents) -> None:
    report = agents.report()
    assert report["errors"] == 0, report["notes"]
    assert report["run_summary"]["delta"]["pass_rate"] == 1.0
    with_skill, without = sorted(agents.runs(), key=lambda run: not run["files"])
    assert with_skill["files"] == [".claude/skills/greeter/SKILL.md", ".claude/skills/greeter/assets/template.txt"]
    assert without["files"] == []
    assert with_skill["home_files"] == without["home_files"] == []
    assert len({run["folder"] for run in agents.runs()} | {run["home"] for run in agents.runs()}) == 4
    assert not any(Path(run["folder"]).exists() for run in agents.runs())
    # Both arms have the same prompt, rights and command.
    assert with_skill["arguments"] == without["arguments"]
    assert with_skill["prompt"].startswith("greet Ada\n")
    assert "folder outputs" in with_skill["prompt"]
    assert agents.lab.left_over() == []


def test_its_record_tells_tokens_money_calls_the_answer_and_the_load(agents: Agents) -> None:
    report = agents.report()
    place = agents.lab.workspace / "iteration-1/eval-1/with_skill/run-1"
    timing = agents.lab.file("eval-1/with_skill/run-1/timing.json")
    assert (timing["total_tokens"], timing["cost_usd"]) == (35, 0.25)
    assert (place / "answer.txt").read_text() == "done"
    outcome = agents.outcome("with_skill")
    assert (outcome["skill_loaded"], outcome["tool_calls"], outcome["notes"]) == (True, 1, [])
    assert agents.outcome("without_skill")["skill_loaded"] is None
    benchmark = agents.lab.file("benchmark.json")
    assert benchmark["metadata"]["model"] == "Claude Code 1.0"
    assert report["run_summary"]["with_skill"]["tokens"]["mean"] == 35


def test_the_agent_may_write_files_and_run_commands(agents: Agents) -> None:
    agents.report()
    arguments = agents.runs()[0]["arguments"]
    allowed = arguments[arguments.index("--allowedTools") + 1].split(",")
    assert {"Skill", "Bash", "Edit", "Write"} <= set(allowed)


def test_this_server_can_bring_the_skill_and_there_is_none_in_the_baseline(agents: Agents) -> None:
    report = agents.report("--via", "server")
    assert report["errors"] == 0, report["notes"]
    assert report["run_summary"]["delta"]["pass_rate"] == 1.0
    assert sorted(bool(run["servers"]) for run in agents.runs()) == [False, True]
    assert all(run["files"] == [] for run in agents.runs())


def test_a_run_that_never_loaded_the_skill_has_a_note(agents: Agents) -> None:
    report = agents.report(loads=[])
    assert report["errors"] == 0
    note = "greeter was never loaded: this run measures nothing of it"
    assert agents.outcome("with_skill")["notes"] == [note]
    assert [note in run["notes"] for run in report["runs"]] == [True, False]
    assert any("1 of 1 run never loaded the skill" in each for each in report["notes"])


@pytest.mark.parametrize("fake", [{"lists": ["greeter"]}, {"loads": ["greeter"]}])
def test_a_baseline_with_the_skill_is_an_error(agents: Agents, fake: dict[str, object]) -> None:
    assert agents.report(**fake)["errors"] == 1
    assert "the baseline is not without the skill" in agents.outcome("without_skill")["error"]


def test_an_agent_that_does_not_list_the_skill_is_an_error(agents: Agents) -> None:
    assert agents.report(lists=[], loads=[])["errors"] == 1
    assert "does not list greeter" in agents.outcome("with_skill")["error"]


def test_what_cannot_be_read_as_the_record_of_the_agent_is_an_error(agents: Agents) -> None:
    assert agents.report(says="Please log in.")["errors"] == 2
    assert "nothing that the agent printed can be read" in agents.outcome("with_skill")["error"]


def test_the_arm_of_an_earlier_version_has_that_version(agents: Agents) -> None:
    old = agents.lab.folder / "old/greeter"
    shutil.copytree(agents.lab.skill, old)
    (old / "SKILL.md").write_text((old / "SKILL.md").read_text() + "\nGreet as of old.\n")
    report = agents.report("--baseline", old)
    assert report["errors"] == 0, report["notes"]
    place = agents.lab.workspace / "iteration-1/eval-1"
    assert (place / "old_skill/run-1/outputs/out.txt").read_text() == "hello, as of old"
    assert (place / "with_skill/run-1/outputs/out.txt").read_text() == "hello"
    assert agents.outcome("old_skill")["skill_loaded"] is True


def test_a_home_of_choice_is_copied_and_a_twin_in_it_is_refused(agents: Agents) -> None:
    home = agents.lab.folder / "agent-home"
    twin = home / ".claude/skills/greeter/SKILL.md"
    twin.parent.mkdir(parents=True)
    twin.write_text("---\nname: greeter\ndescription: A twin.\n---\n")
    done = agents.run("--agent-home", home)
    assert done.returncode == 2
    assert "another skill greeter" in done.stderr
    assert not agents.seen.exists()
    shutil.rmtree(home / ".claude")
    (home / "login.json").write_text("{}")
    assert agents.report("--agent-home", home)["errors"] == 0
    assert [run["home_files"] for run in agents.runs()] == [["login.json"], ["login.json"]]


def test_another_version_of_the_agent_begins_a_new_iteration(agents: Agents) -> None:
    assert agents.report(says="no")["iteration"] == 1
    assert agents.report(says="no")["iteration"] == 1
    assert agents.report(version="2.0")["iteration"] == 2


def test_a_command_of_ones_own_can_start_a_known_agent(agents: Agents) -> None:
    report = agents.report("--agent-command", "claude --mine {prompt}")
    assert report["errors"] == 0, report["notes"]
    assert report["run_summary"]["delta"]["pass_rate"] == 1.0
    assert {tuple(run["arguments"]) for run in agents.runs()} == {("--mine", "greet Ada")}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--agent", "codex"], "Codex is not installed"),
        (["--agent", "skillserve", "--agent-command", "x {prompt}"], "name one of them"),
        (["--agent", "skillserve", "--agent-model", "x"], "--agent-model is for a coding agent"),
        (["--via", "server"], "--via server is for a coding agent"),
        (["--agent-command", "x {prompt}", "--agent-model", "x"], "name the model in the command"),
        (["--agent", "claude", "--agent-home", "nowhere"], "expected a folder with the settings"),
    ],
)
def test_options_that_do_not_fit_are_refused(agents: Agents, flags: list[str], said: str) -> None:
    path = str(agents.lab.folder / "bin") if "codex" in flags else agents.path
    done = agents.lab.run(*flags, agent="", PATH=path)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="the supervisor needs subreapers")
async def test_a_killed_trigger_test_leaves_no_process_of_the_agent(agents: Agents) -> None:
    queries = agents.lab.skill / "evals/eval_queries.json"
    queries.write_text(json.dumps([{"query": "greet", "should_trigger": True}]))
    marker = unique_seconds()
    fake = json.dumps({"sleeps": marker})
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SKILLSERVE_")}
    own = {**agents.lab.environment, "PATH": agents.path, "SEEN": str(agents.seen), "FAKE": fake}
    words = [sys.executable, "-m", "server", "triggers", str(agents.lab.skill), "--agent", "claude"]
    with subprocess.Popen(words, env={**inherited, **own}, stderr=subprocess.DEVNULL) as process:  # noqa: ASYNC220
        assert await becomes(lambda: bool(sleepers(marker)))
        process.kill()
        process.wait(60)
    assert await becomes(lambda: not sleepers(marker))
