"""However the process of a run ends, its record, its trace and the list agree on what became of it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

pytest.importorskip("dbos", reason="the extra `run` is not installed")

from server.run.run_list import RunList
from skills_core.run.durable.client import open_client
from skills_core.run.durable.store import store_of
from skills_core.run.trace.store import TraceStore
from skills_core.testing.script import Call
from tests.conftest import MakeSkill
from tests.core.run.durable.conftest import cluster
from tests.model_endpoint import ModelEndpoint
from tests.server.cli.test_cli import run
from tests.server.sessions import REPOSITORY, server_environment

__all__ = ["cluster"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals"),
]

FLOW = "name: flow\nsteps:\n  - {kind: skill, name: Stay, target: stayer}\n"

# It says that it has begun, and stays unless it was told to go.
STAY = """\
import os, time
open("begun", "a").write("x")
while not os.path.exists("go"):
    time.sleep(0.05)
"""


class Stage:
    """Commands on one store, with a skill whose run stands still where a test wants it."""

    def __init__(self, folder: Path, skills: Path, endpoint: ModelEndpoint, store: str) -> None:
        self.folder, self.skills, self.endpoint, self.store = folder, skills, endpoint, store
        settings = {"SKILLSERVE_RUN_STORE": store, "SKILLSERVE_RUN_LEASE_SECONDS": "4"}
        self.environment = server_environment(XDG_STATE_HOME=str(folder / "state"), **settings)
        self.flags = ("--model", endpoint.model, "--run-tool", "run_command", "--workspace", str(folder / "work"))
        self.processes: list[subprocess.Popen[str]] = []
        (folder / "work").mkdir()
        (folder / "flow.yaml").write_text(FLOW)

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "server", *map(str, arguments)],
            cwd=REPOSITORY,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def perform(self, kind: str) -> subprocess.Popen[str]:
        """Begin the run `one`, of a skill or of a workflow with that one skill."""
        what = ("run", "stayer", "hi") if kind == "skill" else ("workflow", "run", self.folder / "flow.yaml")
        return self.start(*what, self.skills, *self.flags, "--id", "one")

    def resume(self) -> subprocess.Popen[str]:
        return self.start("runs", "resume", self.skills, *self.flags)

    def runs(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        return run("runs", *arguments, **self.environment)

    def listed(self) -> dict[str, str]:
        """Return what the command prints."""
        return statuses(json.loads(self.runs("list", "--json").stdout)["runs"])

    def seen(self) -> dict[str, str]:
        """Return the same without a process for it."""
        with open_client(store_of(self.store)) as client:
            run_list = RunList(TraceStore(self.folder / "state/skillserve/runs"), client)
            return statuses(run_list.all(pytest.fail))

    def shown(self, run_id: str) -> Any:
        return json.loads(self.runs("show", run_id).stdout)

    def written(self) -> dict[str, str]:
        """Return what the files of traces say by themselves."""
        files = (self.folder / "state/skillserve/runs").glob("*.json")
        return {path.stem: json.loads(path.read_text())["status"] for path in files}

    def contents(self) -> dict[str, str]:
        """Return the files of traces."""
        files = (self.folder / "state/skillserve/runs").iterdir()
        return {path.name: path.read_text() for path in files}

    def recorded(self) -> dict[str, str]:
        with open_client(store_of(self.store)) as client:
            assert client is not None
            return {each.run_id: each.state.value for each in client.runs(100)}

    async def begins(self, times: int = 1) -> None:
        """Wait until the tool has begun so often, in a process that goes on."""
        begun = self.folder / "work/begun"
        await self.until(lambda: begun.exists() and len(begun.read_text()) >= times)

    async def until(self, true: Callable[[], bool]) -> None:
        with anyio.fail_after(90):
            while not await anyio.to_thread.run_sync(true):  # noqa: ASYNC110 - another process makes it true
                await anyio.sleep(0.1)

    def go(self) -> None:
        (self.folder / "work/go").touch()


@pytest.fixture
def stage(
    request: pytest.FixtureRequest, tmp_path: Path, make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint
) -> Iterator[Stage]:
    store = str(tmp_path / "record/runs.sqlite")
    if request.param == "postgres":
        store = request.getfixturevalue("cluster").new_database()
    make_skill("stayer")
    endpoint.script = [Call("run_command", {"command": [sys.executable, "-c", STAY]}), "the end"]
    endpoint.reply = lambda asked: endpoint.script[sum(each["role"] == "assistant" for each in asked["messages"])]
    stage = Stage(tmp_path, skills, endpoint, store)
    yield stage
    for process in stage.processes:
        process.kill()
        process.communicate()


def statuses(runs: list[Any]) -> dict[str, str]:
    return {each["run_id"]: each["status"] for each in runs}


def names(kind: str) -> list[str]:
    return ["one"] if kind == "skill" else ["one", "one.1"]


def agree(stage: Stage, kind: str, status: str, recorded: str) -> None:
    """See that list, each shown run and the record say the same."""
    expected = dict.fromkeys(names(kind), status)
    assert stage.listed() == expected
    assert stage.shown(names(kind)[-1])["status"] == status
    assert stage.recorded() == dict.fromkeys(names(kind), recorded)


ON_FILE = pytest.mark.parametrize("stage", ["sqlite"], indirect=True)
ON_SERVER = pytest.mark.parametrize("stage", ["postgres"], indirect=True)
KINDS = pytest.mark.parametrize("kind", ["skill", "workflow"])
ENDS = {
    "SIGTERM": ("interrupted", "running"),
    "SIGHUP": ("interrupted", "running"),
    "SIGKILL": ("interrupted", "running"),
    "SIGINT": ("cancelled", "cancelled"),
}


@pytest.mark.parametrize(
    ("stage", "kind", "how"),
    [
        *(("sqlite", "skill", how) for how in ENDS),
        *(("sqlite", "workflow", how) for how in ("SIGKILL", "SIGINT")),
        ("postgres", "workflow", "SIGTERM"),
        ("postgres", "skill", "SIGKILL"),
    ],
    indirect=["stage"],
)
async def test_a_run_whose_process_a_signal_ends_is_told_alike_by_record_trace_and_list(
    stage: Stage, kind: str, how: str
) -> None:
    status, recorded = ENDS[how]
    process = stage.perform(kind)
    await stage.begins()
    assert stage.seen() == dict.fromkeys(names(kind), "running")
    process.send_signal(getattr(signal, how))
    await anyio.to_thread.run_sync(process.communicate)
    # On PostgreSQL a worker that said nothing is dead when its lease has expired.
    await stage.until(lambda: stage.seen() == dict.fromkeys(names(kind), status))
    agree(stage, kind, status, recorded)
    if status == "interrupted":
        stage.go()
        resumed = stage.resume()
        out, err = await anyio.to_thread.run_sync(resumed.communicate)
        assert out.split() == ["one", kind, "completed"], err
        agree(stage, kind, "completed", "done")
        assert stage.written() == dict.fromkeys(names(kind), "completed")


@ON_FILE
@pytest.mark.parametrize(("kind", "how"), [("skill", "SIGTERM"), ("workflow", "SIGKILL")])
async def test_an_interrupted_run_that_is_cancelled_is_not_continued(stage: Stage, kind: str, how: str) -> None:
    process = stage.perform(kind)
    await stage.begins()
    process.send_signal(getattr(signal, how))
    await anyio.to_thread.run_sync(process.communicate)
    await stage.until(lambda: stage.seen() == dict.fromkeys(names(kind), "interrupted"))
    done = stage.runs("cancel", "one", "--json")
    assert done.returncode == 0, done.stderr
    (told,) = json.loads(done.stdout)["runs"]
    assert (told["run_id"], told["cancelled"], told["status"]) == ("one", True, "cancelled")
    agree(stage, kind, "cancelled", "cancelled")
    assert stage.written() == dict.fromkeys(names(kind), "cancelled")
    asked = len(stage.endpoint.requests)
    out, err = await anyio.to_thread.run_sync(stage.resume().communicate)
    assert (out, err) == ("", "")
    assert len(stage.endpoint.requests) == asked
    assert stage.runs("cancel", "one").returncode == 0


@pytest.mark.parametrize(("stage", "kind"), [("sqlite", "workflow"), ("postgres", "skill")], indirect=["stage"])
async def test_a_run_of_another_process_that_is_cancelled_ends_there(stage: Stage, kind: str) -> None:
    process = stage.perform(kind)
    await stage.begins()
    done = stage.runs("cancel", "one")
    assert done.returncode == 0, done.stderr
    out, err = await anyio.to_thread.run_sync(process.communicate)
    assert (process.returncode, out) == (1, ""), err
    agree(stage, kind, "cancelled", "cancelled")
    assert stage.written() == dict.fromkeys(names(kind), "cancelled")


@ON_FILE
async def test_a_run_of_a_process_that_is_stopped_is_cancelled_when_the_process_goes_on(stage: Stage) -> None:
    process = stage.perform("skill")
    await stage.begins()
    process.send_signal(signal.SIGSTOP)
    assert stage.listed() == {"one": "running"}
    assert stage.runs("cancel", "one").returncode == 0
    agree(stage, "skill", "cancelled", "cancelled")
    stage.go()
    process.send_signal(signal.SIGCONT)
    out, err = await anyio.to_thread.run_sync(process.communicate)
    assert (process.returncode, out) == (1, ""), err
    agree(stage, "skill", "cancelled", "cancelled")
    assert stage.written() == {"one": "cancelled"}
    assert len(stage.endpoint.requests) == 1


@ON_SERVER
@KINDS
async def test_a_worker_that_was_stopped_writes_nothing_for_a_run_that_another_completed(
    stage: Stage, kind: str
) -> None:
    stopped = stage.perform(kind)
    await stage.begins()
    stopped.send_signal(signal.SIGSTOP)
    await stage.until(lambda: stage.seen() == dict.fromkeys(names(kind), "interrupted"))
    stage.go()
    out, err = await anyio.to_thread.run_sync(stage.resume().communicate)
    assert out.split() == ["one", kind, "completed"], err
    files = stage.contents()
    stopped.send_signal(signal.SIGCONT)
    # It joins the run that is another's by now, and gives the outcome that this one recorded.
    out, err = await anyio.to_thread.run_sync(stopped.communicate)
    assert out == "the end\n", err
    assert stage.contents() == files
    agree(stage, kind, "completed", "done")
    assert stage.written() == dict.fromkeys(names(kind), "completed")


@ON_FILE
def test_what_cannot_be_cancelled_is_said_with_the_exit_code_for_no(stage: Stage) -> None:
    stage.go()
    performed = ("run", "stayer", "hi", stage.skills, *stage.flags, "--id", "done")
    none = stage.runs("cancel", "done")
    assert (none.returncode, "no run of this name is recorded" in none.stdout) == (1, True)
    assert run(*performed, **stage.environment).returncode == 0
    told = json.loads(stage.runs("cancel", "done", "nowhere", "done.1", "--json").stdout)["runs"]
    assert [(each["run_id"], each["cancelled"], each["status"]) for each in told] == [
        ("done", False, "completed"),
        ("nowhere", False, None),
        ("done.1", False, None),
    ]
    assert stage.runs("cancel", "done").returncode == 1
    assert stage.runs("cancel").returncode == 2
    Path(stage.store).write_text("no database" * 100)
    damaged = stage.runs("cancel", "done")
    assert (damaged.returncode, damaged.stdout, stage.store in damaged.stderr) == (2, "", True)
    # What traces say is shown all the same, with what is wrong with the record.
    listed = stage.runs("list", "--json")
    assert [each["status"] for each in json.loads(listed.stdout)["runs"]] == ["completed"]
    assert stage.store in listed.stderr


@ON_FILE
async def test_a_server_says_what_it_continues_and_leaves_alone_what_was_interrupted_long_ago(stage: Stage) -> None:
    process = stage.perform("skill")
    await stage.begins()
    process.send_signal(signal.SIGTERM)
    await anyio.to_thread.run_sync(process.communicate)
    stage.go()
    serve = ("serve", stage.skills, *stage.flags, "--tool", "run_skill", "--transport", "http", "--port", "0")
    stage.environment["SKILLSERVE_RUN_RESUME_SECONDS"] = "0"
    careful = stage.start(*serve)
    assert careful.stderr is not None
    said = await anyio.to_thread.run_sync(lambda: line_with("run one of skill stayer", careful))
    assert re.search(r"is not continued: it was interrupted \d+ s ago, .*run_resume_seconds.*runs cancel one", said)
    assert stage.listed() == {"one": "interrupted"}
    careful.terminate()
    await anyio.to_thread.run_sync(careful.communicate)
    assert len(stage.endpoint.requests) == 1
    del stage.environment["SKILLSERVE_RUN_RESUME_SECONDS"]
    server = stage.start(*serve)
    said = await anyio.to_thread.run_sync(lambda: line_with("run one of skill stayer", server))
    assert re.search(r"is continued: it was interrupted \d+ s ago", said)
    await stage.until(lambda: stage.seen() == {"one": "completed"})


def line_with(text: str, process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return next(line for line in process.stderr if text in line)


# The one run that it performs at a time does not end, so the other one waits.
ENQUEUE = """
import asyncio, sys
from skills_core.run.durable.engine import open_engine
from skills_core.run.durable.store import store_of
from skills_core.run.durable.worker_config import Terms
async def main():
    begun = asyncio.Event()
    async def job(journal, given):
        begun.set()
        await asyncio.sleep(3600)
    async with open_engine(store_of(sys.argv[1]), {"skill": job}, Terms(at_once=1)) as engine:
        for name in ("first", "later"):
            await engine.start("skill", name, {"skill": "stayer", "digest": None, "parameters": {}, "message": None})
            await begun.wait()
asyncio.run(main())
"""


@ON_FILE
def test_a_run_that_waits_is_listed_shown_and_cancelled(stage: Stage) -> None:
    command = [sys.executable, "-c", ENQUEUE, stage.store]
    subprocess.run(command, cwd=REPOSITORY, env=stage.environment, check=True, timeout=120)
    assert stage.listed() == {"first": "interrupted", "later": "waiting"}
    assert (stage.shown("later")["skill"], stage.shown("later")["status"]) == ("stayer", "waiting")
    assert stage.runs("cancel", "later", "first").returncode == 0
    assert stage.listed() == {"first": "cancelled", "later": "cancelled"}
    assert stage.recorded() == {"first": "cancelled", "later": "cancelled"}
