"""Errors for records and traces that cannot be written, and for run IDs that belong to other runs."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from skills_core.testing import Call
from tests.conftest import MakeSkill
from tests.model_endpoint import Hang, ModelEndpoint
from tests.server.cli.test_cli import run
from tests.server.sessions import REPOSITORY, Connect, server_environment

FULL = """
CREATE TRIGGER full_disk BEFORE INSERT ON operation_outputs WHEN NEW.function_name LIKE 'model %'
BEGIN SELECT RAISE(ABORT, 'disk full'); END
"""
FLOW = "steps: [{kind: skill, name: A, target: greeter}]\n"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    (folder / "skillserve").mkdir(parents=True, mode=0o700)
    return folder


def test_runs_and_workflows_complete_without_a_writable_trace(
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


STAY = """\
import pathlib, time
pathlib.Path("begun").touch()
while not pathlib.Path("go").exists():
    time.sleep(0.05)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows removes no file that is open")
@pytest.mark.parametrize("what", ["folder", "file"])
async def test_removing_the_record_ends_the_command_that_writes_it(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, tmp_path: Path, what: str
) -> None:
    make_skill("stayer")
    (tmp_path / "work").mkdir()
    endpoint.script = [Call("run_command", {"command": [sys.executable, "-c", STAY]}), "the end"]
    record = tmp_path / "record/runs.sqlite"
    flags = ("--model", endpoint.model, "--run-tool", "run_command", "--workspace", str(tmp_path / "work"))
    environment = server_environment(SKILLSERVE_RUN_STORE=str(record), XDG_STATE_HOME=str(tmp_path / "state"))
    async with await anyio.open_process(
        [sys.executable, "-m", "server", "run", "stayer", "hi", str(skills), *flags],
        cwd=REPOSITORY,
        env=environment,
    ) as process:
        with anyio.fail_after(60):
            while not (tmp_path / "work/begun").exists():  # noqa: ASYNC110 - another process makes it
                await anyio.sleep(0.05)
            await anyio.to_thread.run_sync(shutil.rmtree, record.parent) if what == "folder" else record.unlink()
            (tmp_path / "work/go").touch()
            assert process.stderr is not None
            errors = b"".join([chunk async for chunk in process.stderr]).decode()
            assert await process.wait() == 2
    # SQLite may come first, and find the new file empty that it has made in its place.
    assert f"{record}: the record of runs was removed" in errors or f"{record} cannot be used" in errors
    assert "Traceback" not in errors


@pytest.mark.skipif(sys.platform == "win32", reason="Windows removes no file that is open")
async def test_removing_the_record_ends_the_runs_but_not_the_server(
    make_skill: MakeSkill, connect: Connect, endpoint: ModelEndpoint, state: Path, tmp_path: Path
) -> None:
    make_skill("greeter")
    endpoint.script = [Hang()]
    record = tmp_path / "record/runs.sqlite"
    settings = {
        "SKILLSERVE_TOOLS": "run_skill",
        "SKILLSERVE_MODEL": endpoint.model,
        "SKILLSERVE_RUN_STORE": str(record),
        "XDG_STATE_HOME": str(state),
    }
    async with connect(**settings) as session:
        messages: list[str] = []

        async def call() -> None:
            result = await session.client.call_tool("run_skill", {"name": "greeter"})
            assert result.is_error
            messages.append(result.content[0].text)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            assert await anyio.to_thread.run_sync(endpoint.asked.wait, 60)
            await anyio.to_thread.run_sync(shutil.rmtree, record.parent)
        await call()
        assert "Do the thing." in await session.activate("greeter")
    assert ["the record of runs was removed" in text for text in messages] == [True, True], messages


def test_an_unrecorded_answer_is_not_an_outcome_and_the_run_can_be_resumed(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, tmp_path: Path
) -> None:
    make_skill("greeter")
    (tmp_path / "flow.yaml").write_text(FLOW)
    endpoint.script = ["first", "lost", "second"]
    record = tmp_path / "record/runs.sqlite"
    environment = {"SKILLSERVE_RUN_STORE": str(record), "XDG_STATE_HOME": str(tmp_path / "state")}
    model = ("--model", endpoint.model)
    assert run("run", "greeter", "hi", skills, *model, **environment).returncode == 0
    with closing(sqlite3.connect(record)) as database, database:
        database.execute(FULL)
    refused = run("workflow", "run", tmp_path / "flow.yaml", skills, "--id", "one", *model, **environment)
    assert (refused.returncode, refused.stdout) == (2, ""), refused.stderr
    assert "IntegrityError. The run is continued later" in refused.stderr
    assert "lost" not in refused.stderr
    assert "Traceback" not in refused.stderr
    assert '"interrupted"' in run("runs", "show", "one", **environment).stdout
    with closing(sqlite3.connect(record)) as database, database:
        database.execute("DROP TRIGGER full_disk")
    resumed = run("runs", "resume", skills, *model, **environment)
    assert resumed.returncode == 0, resumed.stderr
    assert "completed" in resumed.stdout


async def test_an_unusable_record_disables_the_runs_but_not_the_server(
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


def test_reusing_a_run_id_after_the_skill_changed_reports_the_change(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, state: Path
) -> None:
    make_skill("greeter")
    endpoint.script = ["hello"]
    command = ("run", "greeter", "hi", skills, "--model", endpoint.model, "--id", "daily")
    assert run(*command, XDG_STATE_HOME=str(state)).stdout == "hello\n"
    make_skill("greeter", body="Greet otherwise.")
    done = run(*command, XDG_STATE_HOME=str(state))
    assert (done.returncode, "the skill has changed since" in done.stderr) == (2, True)


def test_reusing_a_run_id_of_another_pool_reports_the_conflict(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, state: Path
) -> None:
    make_skill("greeter")
    endpoint.script = ["hello"]
    command = ("run", "greeter", "hi", skills, "--id", "daily", "--model")
    assert run(*command, endpoint.model, XDG_STATE_HOME=str(state)).returncode == 0
    done = run(*command, f"{endpoint.address}#other", XDG_STATE_HOME=str(state))
    assert (done.returncode, "another model" in done.stderr) == (2, True)
