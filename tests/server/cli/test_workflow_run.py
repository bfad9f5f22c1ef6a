"""`skillserve workflow run` and `runs resume` with processes that are killed and restarted, and a model over HTTP."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from skills_core.testing import Call
from tests.conftest import MakeSkill
from tests.model_endpoint import Hang, ModelEndpoint
from tests.server.cli.test_cli import REPOSITORY, run

STEPS = 20

KILLS = int(os.environ.get("WORKFLOW_KILLS", "3"))

BRANCHING = """
name: review
inputs: {change: {}}
steps:
  - {kind: skill, name: Review It, target: reviewer, message: "Review {{inputs.change}}."}
  - kind: conditional
    name: If Critical
    condition: "{{steps.Review It.output}} contains 'CRITICAL'"
    subSteps:
      - {kind: skill, name: Escalate, target: writer, parameters: {text: "{{steps.Review It.output}}"}}
    else:
      - {kind: skill, name: Praise, target: writer, parameters: {text: nothing}}
"""


@pytest.fixture
def state(tmp_path: Path) -> str:
    return str(tmp_path / "state")


@pytest.fixture
def branching(tmp_path: Path, make_skill: MakeSkill) -> Path:
    make_skill("reviewer", body="Review.")
    make_skill("writer", body="Write about {{text}}.")
    (tmp_path / "flow.yaml").write_text(BRANCHING)
    return tmp_path / "flow.yaml"


def flow(file: Path, skills: Path, state: str, model: str, *more: str) -> subprocess.CompletedProcess[str]:
    return run("workflow", "run", file, skills, "--model", model, *more, XDG_STATE_HOME=state)


@pytest.mark.parametrize(
    ("review", "taken", "left"), [("CRITICAL: x", "Escalate", "Praise"), ("ok", "Praise", "Escalate")]
)
def test_a_workflow_takes_the_branch_of_its_condition(
    branching: Path, skills: Path, state: str, endpoint: ModelEndpoint, review: str, taken: str, left: str
) -> None:
    endpoint.script = [review, "the end"]
    done = flow(branching, skills, state, endpoint.model, "--input", "change=HEAD", "--json")
    assert done.returncode == 0, done.stderr
    outcome: dict[str, Any] = json.loads(done.stdout)
    assert (outcome["status"], outcome["output"]) == ("completed", "the end")
    statuses = {step["name"]: step["status"] for step in outcome["steps"]}
    assert statuses == {"Review It": "done", "If Critical": "done", taken: "done", left: "skipped"}
    assert "Review HEAD." in endpoint.requests[0]["messages"][1]["content"]
    if taken == "Escalate":
        assert "Write about CRITICAL: x." in endpoint.requests[1]["messages"][0]["content"]
    trace = json.loads(run("runs", "show", outcome["run_id"], XDG_STATE_HOME=state).stdout)
    steps = [step["run"] for step in trace["steps"] if step["run"]]
    assert [json.loads(run("runs", "show", each, XDG_STATE_HOME=state).stdout)["output"] for each in steps] == [
        review,
        "the end",
    ]


@pytest.mark.parametrize(
    ("flags", "says"),
    [((), "change"), (("--input", "chnage=x", "--input", "change=x"), "chnage"), (("--input", "x"), "NAME=VALUE")],
)
def test_errors_are_reported_before_the_first_step(
    branching: Path, skills: Path, state: str, endpoint: ModelEndpoint, flags: tuple[str, ...], says: str
) -> None:
    done = flow(branching, skills, state, endpoint.model, *flags)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert endpoint.requests == []


def test_a_failed_step_ends_the_workflow_with_the_results_so_far(
    branching: Path, skills: Path, state: str, endpoint: ModelEndpoint
) -> None:
    endpoint.script = ["CRITICAL", " "]
    done = flow(branching, skills, state, endpoint.model, "--input", "change=x")
    assert (done.returncode, done.stdout) == (1, "CRITICAL\n")
    assert "Escalate" in done.stderr
    assert "no_output" in done.stderr


def test_a_step_with_a_low_score_is_reported_and_the_workflow_continues(
    branching: Path, skills: Path, state: str, endpoint: ModelEndpoint, make_skill: MakeSkill
) -> None:
    make_skill("reviewer", body="Review.", fields="evaluation: {enabled: true, minScore: 0.9, maxRetries: 0}")
    endpoint.script = ["ok", json.dumps({"overall": 0.4, "finding": "too short"}), "the end"]
    done = flow(branching, skills, state, endpoint.model, "--input", "change=x")
    assert (done.returncode, done.stdout) == (0, "the end\n")
    assert "Review It" in done.stderr
    assert "0.4" in done.stderr


def test_the_same_run_id_returns_the_recorded_outcome(
    branching: Path, skills: Path, state: str, endpoint: ModelEndpoint
) -> None:
    endpoint.script = ["ok", "the end"]
    for _ in range(2):
        done = flow(branching, skills, state, endpoint.model, "--input", "change=x", "--id", "nightly-1")
        assert (done.returncode, done.stdout) == (0, "the end\n"), done.stderr
    assert len(endpoint.requests) == 2
    done = flow(branching, skills, state, endpoint.model, "--input", "change=y", "--id", "nightly-1")
    assert done.returncode == 2
    assert "another input" in done.stderr
    assert flow(branching, skills, state, endpoint.model, "--input", "change=x", "--id", "a.b").returncode == 2


RECORD = """\
import json, os, pathlib, sys
given = json.load(sys.stdin)
effects = pathlib.Path(os.environ["EFFECTS"])
key = os.environ["IDEMPOTENCY_KEY"].replace("/", "_")
with open(effects / "begun", "a") as log:
    log.write(f"{given['step']}\\n")
whole = effects / f"half-{os.getpid()}"
whole.write_text(given["step"])
try:
    os.link(whole, effects / key)  # atomic: a killed process leaves the whole file or none
except FileExistsError:
    pass
whole.unlink()
print("recorded", given["step"])
"""


@pytest.fixture
def chain(tmp_path: Path, make_skill: MakeSkill) -> Path:
    """A workflow of twenty steps, each of which has an effect by a tool of its skill, and then an output."""
    declaration = """tools:
- name: record
  description: Records a step.
  script: record.py
  parameters: {type: object, properties: {step: {type: string}}, required: [step]}
"""
    make_skill(
        "recorder", body="Record {{step}} after {{before}}.", fields=declaration, files={"record.py": RECORD.encode()}
    )
    lines = ["name: chain", "steps:"]
    for number in range(STEPS):
        before = f"{{{{steps.S{number - 1}.output}}}}" if number else "nothing"
        values = f'{{step: "{number}", before: "{before}"}}'
        lines.append(f"  - {{kind: skill, name: S{number}, target: recorder, parameters: {values}}}")
    (tmp_path / "chain.yaml").write_text("\n".join(lines))
    (tmp_path / "effects").mkdir()
    return tmp_path / "chain.yaml"


def answer_in_turn(endpoint: ModelEndpoint) -> None:
    """Let the model record the step that it is given, and then say so."""

    def reply(asked: dict[str, Any]) -> Any:
        number = asked["messages"][0]["content"].partition("Record ")[2].split()[0]
        *_, last = asked["messages"]
        if last["role"] != "tool":
            return Call("record", {"step": number})
        return f"done {number}" if f"recorded {number}" in last["content"] else f"not done: {last['content']}"

    endpoint.reply = reply


def chain_process(file: Path, skills: Path, state: str, endpoint: ModelEndpoint, effects: Path) -> Any:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SKILLSERVE_")}
    settings = {
        "SKILLSERVE_SKILL_TOOLS": "recorder/*",
        "SKILLSERVE_SCRIPT_ENVIRONMENT": "EFFECTS",
        "SKILLSERVE_SCRIPT_WORKSPACE": str(effects),
        "EFFECTS": str(effects),
        "XDG_STATE_HOME": state,
    }
    command = [sys.executable, "-m", "server", "workflow", "run", str(file), str(skills)]
    return subprocess.Popen(
        [*command, "--model", endpoint.model, "--id", "chain"],
        cwd=REPOSITORY,
        env={**inherited, **settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signal")
def test_a_repeatedly_killed_workflow_completes_with_each_effect_once(
    chain: Path, skills: Path, state: str, endpoint: ModelEndpoint, tmp_path: Path
) -> None:
    answer_in_turn(endpoint)
    effects, chance = tmp_path / "effects", random.Random(6)  # noqa: S311 - a moment to kill at
    kills, asked = 0, 0
    while True:
        with chain_process(chain, skills, state, endpoint, effects) as process:
            if kills < KILLS:
                # Killed somewhere in the next few steps: each asks the model twice and starts a script between.
                goal = asked + chance.randrange(1, 12)
                while len(endpoint.requests) < goal and process.poll() is None:
                    time.sleep(0.01)
                time.sleep(chance.uniform(0, 0.15))
                if process.poll() is None:
                    process.send_signal(signal.SIGKILL)
                    kills += 1
                asked = len(endpoint.requests)
            out, err = process.communicate(timeout=180)
        if process.returncode != -signal.SIGKILL:
            break
    assert (process.returncode, out) == (0, f"done {STEPS - 1}\n"), err
    begun = (effects / "begun").read_text().split()
    assert [int(step) for step in begun] == sorted(int(step) for step in begun)
    made = [path.read_text() for path in effects.iterdir() if path.name.partition("-")[0] not in {"begun", "half"}]
    assert sorted(map(int, made)) == list(range(STEPS))
    # What was recorded was not asked again: at most one request was in flight at each kill.
    assert len(endpoint.requests) <= 2 * STEPS + kills


def test_resume_completes_an_interrupted_workflow(
    branching: Path, skills: Path, state: str, endpoint: ModelEndpoint
) -> None:
    endpoint.script = ["ok", Hang()]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SKILLSERVE_")}
    command = [sys.executable, "-m", "server", "workflow", "run", str(branching), str(skills)]
    with subprocess.Popen(
        [*command, "--model", endpoint.model, "--input", "change=x", "--id", "left"],
        cwd=REPOSITORY,
        env={**inherited, "XDG_STATE_HOME": state},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        deadline = time.monotonic() + 60
        while len(endpoint.requests) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        process.kill()

    def shown(run_id: str) -> dict[str, Any]:
        trace: dict[str, Any] = json.loads(run("runs", "show", run_id, XDG_STATE_HOME=state).stdout)
        return trace

    began = [shown(each)["started"] for each in ("left", "left.1", "left.3")]
    endpoint.script = ["never again", "never again", "resumed"]
    other = run("runs", "resume", skills, "--model", f"{endpoint.address}#other", "--json", XDG_STATE_HOME=state)
    assert json.loads(other.stdout) == {"runs": []}
    (line,) = other.stderr.splitlines()
    assert line.startswith(
        "skillserve: left is not continued: it was started with other folders, another model, other tools"
    )
    done = run("runs", "resume", skills, "--model", endpoint.model, XDG_STATE_HOME=state)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["left", "workflow", "completed"], "")
    assert shown("left")["output"] == "resumed"
    assert [shown(each)["started"] for each in ("left", "left.1", "left.3")] == began
