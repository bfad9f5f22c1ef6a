"""Records and traces that cannot be written, and names that stand for something else: what a user is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import MakeSkill
from tests.model_endpoint import ModelEndpoint
from tests.server.sessions import Connect
from tests.server.test_cli import run

FLOW = "steps: [{kind: skill, name: A, target: greeter}]\n"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    (folder / "skillserve").mkdir(parents=True, mode=0o700)
    return folder


def test_a_trace_that_cannot_be_written_ends_neither_run_nor_workflow(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, state: Path, tmp_path: Path
) -> None:
    make_skill("greeter")
    (tmp_path / "flow.yaml").write_text(FLOW)
    (state / "skillserve/runs").write_text("no folder")
    endpoint.script = ["hello"]
    for command in (("run", "greeter", "hi", skills), ("workflow", "run", tmp_path / "flow.yaml", skills)):
        done = run(*command, "--model", endpoint.model, XDG_STATE_HOME=str(state))
        assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
        assert "Traceback" not in done.stderr


async def test_a_record_that_cannot_be_kept_costs_the_runs_and_not_the_server(
    make_skill: MakeSkill, connect: Connect, endpoint: ModelEndpoint, state: Path
) -> None:
    make_skill("greeter")
    (state / "skillserve/runs.sqlite.workers").write_text("no folder")
    settings = {"SKILLSERVE_TOOLS": "run_skill", "SKILLSERVE_MODEL": endpoint.model, "XDG_STATE_HOME": str(state)}
    async with connect(**settings) as session:
        refused = await session.client.call_tool("run_skill", {"name": "greeter"})
        assert refused.is_error
        assert "runs.sqlite" in refused.content[0].text
        assert "Do the thing." in await session.activate("greeter")


def test_a_name_whose_skill_has_changed_says_so(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, state: Path
) -> None:
    make_skill("greeter")
    endpoint.script = ["hello"]
    command = ("run", "greeter", "hi", skills, "--model", endpoint.model, "--id", "daily")
    assert run(*command, XDG_STATE_HOME=str(state)).stdout == "hello\n"
    make_skill("greeter", body="Greet otherwise.")
    done = run(*command, XDG_STATE_HOME=str(state))
    assert (done.returncode, "the skill has changed since" in done.stderr) == (2, True)


def test_a_name_of_another_pool_is_not_said_to_be_nobodys(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, state: Path
) -> None:
    make_skill("greeter")
    endpoint.script = ["hello"]
    command = ("run", "greeter", "hi", skills, "--id", "daily", "--model")
    assert run(*command, endpoint.model, XDG_STATE_HOME=str(state)).returncode == 0
    done = run(*command, f"{endpoint.address}#other", XDG_STATE_HOME=str(state))
    assert (done.returncode, "another model" in done.stderr) == (2, True)
