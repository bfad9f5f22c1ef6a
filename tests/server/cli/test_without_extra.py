"""skillserve without the extra `run`: it serves skills, and names the extra where a run needs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from skills_core.installation import extra_advice
from tests.conftest import MakeSkill
from tests.server.sessions import REPOSITORY, server_environment

MODEL = "http://127.0.0.1:9/v1#m"
EXTRA = extra_advice("run")

# Modules that are None in `sys.modules` cannot be imported, as if they were not installed.
WITHOUT = """\
import sys
sys.modules.update(dict.fromkeys(("pydantic_ai", "dbos", "jsonschema")))
from server.__main__ import main
main()
"""


def run_without_extra(*arguments: object, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, *map(str, arguments)],
        cwd=REPOSITORY,
        env=server_environment(**settings),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize(
    "command",
    [
        ["run", "fine", "hi"],
        ["workflow", "run", "docs/workflows/review.yaml"],
        ["runs", "resume"],
    ],
    ids=" ".join,
)
def test_a_command_that_runs_skills_says_what_to_install(
    command: list[str], make_skill: MakeSkill, skills: Path
) -> None:
    make_skill("fine")
    done = run_without_extra(*command, skills, "--model", MODEL)
    assert (done.returncode, done.stdout) == (2, "")
    assert EXTRA in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_eval_needs_the_extra_only_for_models(make_skill: MakeSkill) -> None:
    case = {"id": 1, "prompt": "hi", "assertions": [{"text": "x", "check": "true"}]}
    skill = make_skill("fine", files={"evals/evals.json": json.dumps({"evals": [case]}).encode()})
    done = run_without_extra("eval", skill, "--model", MODEL)
    assert (done.returncode, done.stdout) == (2, "")
    assert EXTRA in done.stderr
    done = run_without_extra("eval", skill, "--agent-command", "echo hi", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["errors"] == 0


def test_runs_can_be_listed() -> None:
    done = run_without_extra("runs", "list", "--json")
    assert done.returncode == 0, done.stderr
    assert "runs" in json.loads(done.stdout)


def test_status_says_that_skills_cannot_be_run_and_what_to_install(make_skill: MakeSkill, skills: Path) -> None:
    make_skill("fine")
    done = run_without_extra("status", skills, SKILLSERVE_MODEL=MODEL, SKILLSERVE_TOOLS="run_skill")
    assert done.returncode == 0, done.stderr
    assert "clients cannot run skills or workflows" in done.stdout
    assert EXTRA in done.stdout


async def test_skills_are_served_without_run_tools(make_skill: MakeSkill, skills: Path) -> None:
    make_skill("fine")
    flags = ["--model", MODEL, "--tool", "run_skill", "--tool", "run_workflow", "--workflow", "docs/workflows"]
    arguments = ["-c", WITHOUT, "serve", str(skills), *flags]
    command = StdioServerParameters(
        command=sys.executable, args=arguments, cwd=REPOSITORY, env=server_environment(SKILLSERVE_WATCH="off")
    )
    async with Client(command, mode="legacy") as client:
        assert "activate_skill" in (names := {tool.name for tool in (await client.list_tools()).tools})
        assert not names & {"run_skill", "run_workflow"}
        assert not (await client.call_tool("activate_skill", {"name": "fine"})).is_error


def test_a_history_says_what_to_install(make_skill: MakeSkill, skills: Path, tmp_path: Path) -> None:
    make_skill("fine")
    program = WITHOUT.replace('("pydantic_ai", "dbos", "jsonschema")', '("dulwich",)')
    for command in (["history"], ["history", "fine"], ["rollback", "fine"]):
        done = subprocess.run(
            [sys.executable, "-c", program, *command, skills],
            cwd=REPOSITORY,
            env=server_environment(SKILLSERVE_HISTORY="explicit", XDG_STATE_HOME=str(tmp_path)),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert (done.returncode, done.stdout) == (1, "")
        assert extra_advice("history") in done.stderr
