"""However the process of a run ends, its record, its trace and the list of runs agree on its status."""

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

from tests.thoroughness import EVERY_CASE

pytest.importorskip("dbos", reason="the extra `run` is not installed")

from server.capabilities.runs.run_list import RunList
from skills_core.runs.durable.client import open_client
from skills_core.runs.durable.store import store_of
from skills_core.runs.trace import TraceStore
from skills_core.testing import Call
from tests.conftest import MakeSkill
from tests.core.runs.durable.conftest import cluster
from tests.model_endpoint import ModelEndpoint
from tests.server.cli.test_cli import run
from tests.server.sessions import REPOSITORY, server_environment

__all__ = ["cluster"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals"),
]

FLOW = "name: flow\nsteps:\n  - {kind: skill, name: Stay, target: stayer}\n"

# Appends to the file `begun`, then waits for the file `go`.
STAY = """\
import os, time
open("begun", "a").write("x")
while not os.path.exists("go"):
    time.sleep(0.05)
"""


class Stage:
    """Commands on one store, with a skill whose tool call waits until `go` is called."""

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

    def start_run(self, kind: str) -> subprocess.Popen[str]:
        """Start the run `one` of a skill, or of a workflow with that skill as its only step."""
        what = ("run", "stayer", "hi") if kind == "skill" else ("workflow", "run", self.folder / "flow.yaml")
        return self.start(*what, self.skills, *self.flags, "--id", "one")

    def resume(self) -> subprocess.Popen[str]:
        return self.start("runs", "resume", self.skills, *self.flags)

    def runs(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        return run("runs", *arguments, **self.environment)

    def listed_statuses(self) -> dict[str, str]:
        """Return the statuses that `runs list` prints."""
        return statuses(json.loads(self.runs("list", "--json").stdout)["runs"])

    def statuses_in_process(self) -> dict[str, str]:
        """Return the same statuses without starting a process."""
        with open_client(store_of(self.store)) as client:
            run_list = RunList(TraceStore(self.folder / "state/skillserve/runs"), client)
            return statuses(run_list.all(pytest.fail))

    def show(self, run_id: str) -> Any:
        return json.loads(self.runs("show", run_id).stdout)

    def statuses_in_traces(self) -> dict[str, str]:
        """Return the statuses in the trace files."""
        files = (self.folder / "state/skillserve/runs").glob("*.json")
        return {path.stem: json.loads(path.read_text())["status"] for path in files}

    def trace_contents(self) -> dict[str, str]:
        """Return the content of the trace files."""
        files = (self.folder / "state/skillserve/runs").iterdir()
        return {path.name: path.read_text() for path in files}

    def recorded_states(self) -> dict[str, str]:
        with open_client(store_of(self.store)) as client:
            assert client is not None
            return {each.run_id: each.state.value for each in client.runs(100)}

    async def begins(self, times: int = 1) -> None:
        """Wait until the tool was started this many times."""
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


def assert_all_agree(stage: Stage, kind: str, status: str, recorded: str) -> None:
    """Assert that the list, the shown run and the record have the same status."""
    expected = dict.fromkeys(names(kind), status)
    assert stage.listed_statuses() == expected
    assert stage.show(names(kind)[-1])["status"] == status
    assert stage.recorded_states() == dict.fromkeys(names(kind), recorded)


ON_FILE = pytest.mark.parametrize("stage", ["sqlite"], indirect=True)
ON_SERVER = pytest.mark.parametrize("stage", ["postgres"], indirect=True)
ENDS = {
    "SIGTERM": ("interrupted", "running"),
    "SIGHUP": ("interrupted", "running"),
    "SIGKILL": ("interrupted", "running"),
    "SIGINT": ("cancelled", "cancelled"),
}


ENDINGS = [
    ("sqlite", "skill", "SIGHUP"),
    ("sqlite", "workflow", "SIGKILL"),
    ("sqlite", "workflow", "SIGINT"),
    ("postgres", "workflow", "SIGTERM"),
    ("postgres", "skill", "SIGKILL"),
]
FURTHER_ENDINGS = [("sqlite", "skill", how) for how in ENDS if how != "SIGHUP"]


@pytest.mark.parametrize(
    ("stage", "kind", "how"), [*ENDINGS, *(FURTHER_ENDINGS if EVERY_CASE else [])], indirect=["stage"]
)
async def test_record_trace_and_list_agree_after_a_signal_ends_the_process(stage: Stage, kind: str, how: str) -> None:
    status, recorded = ENDS[how]
    process = stage.start_run(kind)
    await stage.begins()
    assert stage.statuses_in_process() == dict.fromkeys(names(kind), "running")
    process.send_signal(getattr(signal, how))
    await anyio.to_thread.run_sync(process.communicate)
    # On PostgreSQL, a silent worker counts as dead when its lease has expired.
    await stage.until(lambda: stage.statuses_in_process() == dict.fromkeys(names(kind), status))
    assert_all_agree(stage, kind, status, recorded)
    if status == "interrupted":
        stage.go()
        resumed = stage.resume()
        out, err = await anyio.to_thread.run_sync(resumed.communicate)
        assert out.split() == ["one", kind, "completed"], err
        assert_all_agree(stage, kind, "completed", "done")
        assert stage.statuses_in_traces() == dict.fromkeys(names(kind), "completed")


@ON_FILE
@pytest.mark.parametrize(("kind", "how"), [("skill", "SIGTERM"), ("workflow", "SIGKILL")])
async def test_a_cancelled_interrupted_run_is_not_continued(stage: Stage, kind: str, how: str) -> None:
    process = stage.start_run(kind)
    await stage.begins()
    process.send_signal(getattr(signal, how))
    await anyio.to_thread.run_sync(process.communicate)
    await stage.until(lambda: stage.statuses_in_process() == dict.fromkeys(names(kind), "interrupted"))
    done = stage.runs("cancel", "one", "--json")
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["runs"]
    assert (result["run_id"], result["cancelled"], result["status"]) == ("one", True, "cancelled")
    assert_all_agree(stage, kind, "cancelled", "cancelled")
    assert stage.statuses_in_traces() == dict.fromkeys(names(kind), "cancelled")
    asked = len(stage.endpoint.requests)
    out, err = await anyio.to_thread.run_sync(stage.resume().communicate)
    assert (out, err) == ("", "")
    assert len(stage.endpoint.requests) == asked
    assert stage.runs("cancel", "one").returncode == 0


@pytest.mark.parametrize(("stage", "kind"), [("sqlite", "workflow"), ("postgres", "skill")], indirect=["stage"])
async def test_cancelling_a_run_stops_it_in_another_process(stage: Stage, kind: str) -> None:
    process = stage.start_run(kind)
    await stage.begins()
    done = stage.runs("cancel", "one")
    assert done.returncode == 0, done.stderr
    out, err = await anyio.to_thread.run_sync(process.communicate)
    assert (process.returncode, out) == (1, ""), err
    assert_all_agree(stage, kind, "cancelled", "cancelled")
    assert stage.statuses_in_traces() == dict.fromkeys(names(kind), "cancelled")


@ON_FILE
async def test_a_run_of_a_suspended_process_is_cancelled_when_the_process_continues(stage: Stage) -> None:
    process = stage.start_run("skill")
    await stage.begins()
    process.send_signal(signal.SIGSTOP)
    assert stage.listed_statuses() == {"one": "running"}
    assert stage.runs("cancel", "one").returncode == 0
    assert_all_agree(stage, "skill", "cancelled", "cancelled")
    stage.go()
    process.send_signal(signal.SIGCONT)
    out, err = await anyio.to_thread.run_sync(process.communicate)
    assert (process.returncode, out) == (1, ""), err
    assert_all_agree(stage, "skill", "cancelled", "cancelled")
    assert stage.statuses_in_traces() == {"one": "cancelled"}
    assert len(stage.endpoint.requests) == 1


@ON_SERVER
async def test_a_suspended_worker_writes_nothing_for_a_run_that_another_completed(stage: Stage) -> None:
    # A workflow holds the run of a skill.
    kind = "workflow"
    stopped = stage.start_run(kind)
    await stage.begins()
    stopped.send_signal(signal.SIGSTOP)
    await stage.until(lambda: stage.statuses_in_process() == dict.fromkeys(names(kind), "interrupted"))
    stage.go()
    out, err = await anyio.to_thread.run_sync(stage.resume().communicate)
    assert out.split() == ["one", kind, "completed"], err
    files = stage.trace_contents()
    stopped.send_signal(signal.SIGCONT)
    # It joins the run that the other process took over, and prints the recorded outcome.
    out, err = await anyio.to_thread.run_sync(stopped.communicate)
    assert out == "the end\n", err
    assert stage.trace_contents() == files
    assert_all_agree(stage, kind, "completed", "done")
    assert stage.statuses_in_traces() == dict.fromkeys(names(kind), "completed")


@ON_FILE
def test_a_run_that_cannot_be_cancelled_exits_with_1(stage: Stage) -> None:
    stage.go()
    performed = ("run", "stayer", "hi", stage.skills, *stage.flags, "--id", "done")
    none = stage.runs("cancel", "done")
    assert (none.returncode, "no run of this name is recorded" in none.stdout) == (1, True)
    assert run(*performed, **stage.environment).returncode == 0
    results = json.loads(stage.runs("cancel", "done", "nowhere", "done.1", "--json").stdout)["runs"]
    assert [(each["run_id"], each["cancelled"], each["status"]) for each in results] == [
        ("done", False, "completed"),
        ("nowhere", False, None),
        ("done.1", False, None),
    ]
    assert stage.runs("cancel", "done").returncode == 1
    assert stage.runs("cancel").returncode == 2
    Path(stage.store).write_text("no database" * 100)
    damaged = stage.runs("cancel", "done")
    assert (damaged.returncode, damaged.stdout, stage.store in damaged.stderr) == (2, "", True)
    # The list still shows the traces, and reports the damaged record.
    listed = stage.runs("list", "--json")
    assert [each["status"] for each in json.loads(listed.stdout)["runs"]] == ["completed"]
    assert stage.store in listed.stderr


@ON_FILE
async def test_a_server_logs_the_runs_it_continues_and_skips_old_ones(stage: Stage) -> None:
    process = stage.start_run("skill")
    await stage.begins()
    process.send_signal(signal.SIGTERM)
    await anyio.to_thread.run_sync(process.communicate)
    stage.go()
    serve = ("serve", stage.skills, *stage.flags, "--tool", "run_skill", "--transport", "http", "--port", "0")
    stage.environment["SKILLSERVE_RUN_RESUME_SECONDS"] = "0"
    careful = stage.start(*serve)
    assert careful.stderr is not None
    logged = await anyio.to_thread.run_sync(lambda: line_with("run one of skill stayer", careful))
    assert re.search(r"is not continued: it was interrupted \d+ s ago, .*run_resume_seconds.*runs cancel one", logged)
    assert stage.listed_statuses() == {"one": "interrupted"}
    careful.terminate()
    await anyio.to_thread.run_sync(careful.communicate)
    assert len(stage.endpoint.requests) == 1
    del stage.environment["SKILLSERVE_RUN_RESUME_SECONDS"]
    server = stage.start(*serve)
    logged = await anyio.to_thread.run_sync(lambda: line_with("run one of skill stayer", server))
    assert re.search(r"is continued: it was interrupted \d+ s ago", logged)
    await stage.until(lambda: stage.statuses_in_process() == {"one": "completed"})


def line_with(text: str, process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return next(line for line in process.stderr if text in line)


# It runs one run at a time; the first never ends, so the other one waits.
ENQUEUE = """
import asyncio, sys
from skills_core.runs.durable.engine import open_engine
from skills_core.runs.durable.store import store_of
from skills_core.runs.durable.recorded_run import WorkerConfig
async def main():
    begun = asyncio.Event()
    async def job(journal, given):
        begun.set()
        await asyncio.sleep(3600)
    async with open_engine(store_of(sys.argv[1]), {"skill": job}, WorkerConfig(at_once=1)) as engine:
        for name in ("first", "later"):
            await engine.start("skill", name, {"skill": "stayer", "digest": None, "parameters": {}, "message": None})
            await begun.wait()
asyncio.run(main())
"""


@ON_FILE
def test_a_waiting_run_is_listed_shown_and_cancelled(stage: Stage) -> None:
    command = [sys.executable, "-c", ENQUEUE, stage.store]
    subprocess.run(command, cwd=REPOSITORY, env=stage.environment, check=True, timeout=120)
    assert stage.listed_statuses() == {"first": "interrupted", "later": "waiting"}
    assert (stage.show("later")["skill"], stage.show("later")["status"]) == ("stayer", "waiting")
    assert stage.runs("cancel", "later", "first").returncode == 0
    assert stage.listed_statuses() == {"first": "cancelled", "later": "cancelled"}
    assert stage.recorded_states() == {"first": "cancelled", "later": "cancelled"}
