from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from skills_core.runs.durable.engine import open_engine
from skills_core.runs.durable.recorded_run import (
    RunConflictError,
    RunNotDoneError,
    RunState,
    StoreError,
    UnknownRunError,
    WorkerConfig,
)
from skills_core.runs.durable.store import store_of
from skills_core.scripts.process import Command, ProcessLimits, run_process
from tests.core.runs.durable.conftest import CALM, QUICK, REPOSITORY, StartWorker
from tests.core.runs.durable.jobs import KINDS, lines, outcome_of
from tests.processes import becomes

pytestmark = pytest.mark.slow

TERMS = WorkerConfig(**CALM)


def remove_at_once(folder: Path) -> None:
    """Remove a folder so that no one sees it half removed."""
    shutil.rmtree(folder.rename(folder.with_name(f"{folder.name}-removed")))


async def echo(journal: Any, given: Any) -> Any:
    async def work() -> Any:
        return given

    return {"back": await journal.step("only", work)}


async def endless(journal: Any, given: Any) -> Any:
    await journal.step("for ever", anyio.sleep_forever)
    return given


async def until(condition: Any) -> None:
    with anyio.fail_after(120):
        while not await condition():  # noqa: ASYNC110 - what is waited for happens in a database
            await anyio.sleep(0.02)


@pytest.mark.parametrize("here", [True, False])
async def test_a_run_returns_the_outcome_of_its_job(url: str, effects: Path, here: bool) -> None:  # noqa: FBT001
    async with open_engine(store_of(url), KINDS, TERMS) as engine:
        outcome = await engine.run("chain", "one", {"folder": str(effects), "seed": 7, "pause": 0}, here=here)
        run = await engine.get("one")
    assert outcome == {"value": outcome_of(7)} == run.outcome
    assert (run.kind, run.state, run.attempts) == ("chain", RunState.DONE, 1)


async def test_a_known_run_is_joined_and_not_performed_again(sqlite_url: str, effects: Path) -> None:
    given: Any = {"folder": str(effects), "seed": 7, "steps": 3}
    async with open_engine(store_of(sqlite_url), KINDS, TERMS) as engine:
        both = await asyncio.gather(engine.run("chain", "one", given, here=True), engine.run("chain", "one", given))
    async with open_engine(store_of(sqlite_url), KINDS, TERMS) as engine:
        again = await engine.run("chain", "one", given)
    assert list(both) == [again, again]
    assert len(lines(effects)) == 3


async def test_a_run_id_belongs_to_one_kind_and_one_input(sqlite_url: str) -> None:
    async with open_engine(store_of(sqlite_url), {"echo": echo, "other": echo}, TERMS) as engine:
        await engine.run("echo", "one", {"a": 1}, here=True)
        with pytest.raises(RunConflictError, match="another input"):
            await engine.start("echo", "one", {"a": 2})
        with pytest.raises(RunConflictError):
            await engine.start("other", "one", {"a": 1}, here=True)


async def test_an_invalid_run_is_refused(sqlite_url: str) -> None:
    async with open_engine(store_of(sqlite_url), {"echo": echo}, TERMS) as engine:
        with pytest.raises(ValueError, match="unknown kind of run 'sing'; expected one of echo"):
            await engine.start("sing", "one", {})
        for name in ("", " ", "a\nb", "x" * 201):
            with pytest.raises(ValueError, match="printable characters"):
                await engine.start("echo", name, {})
        with pytest.raises((TypeError, ValueError)):
            await engine.start("echo", "one", {"a": float("nan")})
        with pytest.raises(UnknownRunError):
            await engine.wait("one")
        with pytest.raises(UnknownRunError):
            await engine.cancel("one")


async def test_any_json_text_survives_recording(url: str) -> None:
    given: Any = {"zero": "a\0b", "half": "\ud800", "sign": "…🂡", "deep": [[[{"": None}]]], "big": 2**70, "small": -0.1}
    async with open_engine(store_of(url), {"echo": echo}, TERMS) as engine:
        assert await engine.run("echo", "one", given, here=True) == {"back": given}
        assert (await engine.runs())[0].given == given


async def test_a_first_execution_returns_the_same_values_as_a_replay(sqlite_url: str) -> None:
    seen: list[Any] = []

    async def job(journal: Any, given: Any) -> Any:
        async def work() -> Any:
            return {"pair": (1, 2)}

        seen.append(await journal.step("pair", work))
        return given

    async with open_engine(store_of(sqlite_url), {"job": job}, TERMS) as engine:
        await engine.run("job", "one", {}, here=True)
    assert seen == [{"pair": [1, 2]}]


async def test_an_error_of_a_job_is_recorded_only_by_its_type(
    sqlite_url: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    async def job(journal: Any, given: Any) -> Any:
        async def work() -> Any:
            raise LookupError("secret-of-the-step")

        try:
            await journal.step("fails", work)
        except LookupError as error:
            raise PermissionError(f"secret-of-the-job, {given['token']}") from error

    caplog.set_level(logging.INFO)
    async with open_engine(store_of(sqlite_url), {"job": job}, TERMS) as engine:
        with pytest.raises(RunNotDoneError, match=r"its job raised an error \(PermissionError\)") as caught:
            await engine.run("job", "one", {"token": "given"}, here=True)
    assert caught.value.run.state is RunState.FAILED
    told = caplog.text + "".join(capfd.readouterr())
    for path in Path(sqlite_url).parent.rglob("*"):
        told += path.read_bytes().decode("latin-1") if path.is_file() else ""
    assert "PermissionError" in told
    assert "secret" not in told


async def test_after_work_that_raised_a_run_takes_no_further_step(sqlite_url: str) -> None:
    taken: list[str] = []

    async def job(journal: Any, given: Any) -> Any:
        async def fails() -> Any:
            raise LookupError

        async def goes() -> Any:
            taken.append("second")

        for work in (fails, goes):
            try:
                await journal.step("step", work)
            except LookupError:
                taken.append("raised")
        return given

    async with open_engine(store_of(sqlite_url), {"job": job}, TERMS) as engine:
        assert await engine.run("job", "one", {"told": "so"}, here=True) == {"told": "so"}
    assert taken == ["raised", "raised"]


async def test_a_job_starts_no_runs(sqlite_url: str) -> None:
    async def job(journal: Any, given: Any) -> Any:
        del journal
        return await engine.run("job", "inner", given)

    async with open_engine(store_of(sqlite_url), {"job": job}, TERMS) as engine:
        with pytest.raises(RunNotDoneError, match="RuntimeError"):
            await engine.run("job", "outer", {}, here=True)


@pytest.mark.parametrize("here", [True, False])
async def test_the_number_of_concurrent_runs_is_limited(sqlite_url: str, here: bool) -> None:  # noqa: FBT001
    now, most, together = 0, 0, asyncio.Event()

    async def job(journal: Any, given: Any) -> Any:
        nonlocal now, most

        async def work() -> None:
            nonlocal now, most
            now += 1
            most = max(most, now)
            if now == 2:
                together.set()
            await together.wait()
            await anyio.sleep(0.05)
            now -= 1

        await journal.step("work", work)
        return given

    async with open_engine(store_of(sqlite_url), {"job": job}, WorkerConfig(**CALM, at_once=2)) as engine:
        await asyncio.gather(*(engine.run("job", f"run {number}", {}, here=here) for number in range(7)))
    assert most == 2


async def test_a_local_run_is_cancelled_at_once(url: str) -> None:
    async with open_engine(store_of(url), {"endless": endless}, WorkerConfig(**CALM, at_once=1)) as engine:
        await engine.start("endless", "one", {}, here=True)
        await engine.start("endless", "two", {})
        for name in ("one", "two"):
            assert (await engine.cancel(name)).state is RunState.CANCELLED
            with pytest.raises(RunNotDoneError, match="it was cancelled"):
                await engine.wait(name)
        assert not await engine.recover()
        assert [run.state for run in await engine.runs()] == [RunState.CANCELLED] * 2
        assert [run.run_id for run in await engine.runs([RunState.RUNNING, RunState.WAITING])] == []


async def test_an_engine_opens_after_the_standard_error_of_an_earlier_one_was_closed(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("dbos"), "handlers", [])
    with (tmp_path / "stderr").open("w") as stderr, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", stderr)
        async with open_engine(store_of(sqlite_url), {"echo": echo}, TERMS) as engine:
            await engine.run("echo", "one", {})
    async with open_engine(store_of(sqlite_url), {"echo": echo}, TERMS) as engine:
        assert (await engine.get("one")).state is RunState.DONE
    assert (tmp_path / "stderr").read_text() == ""


async def test_abandoning_cancels_a_local_run_but_not_one_in_another_process(
    url: str, effects: Path, start_worker: StartWorker
) -> None:
    given = {"folder": str(effects), "seed": 1, "hold_at": 2}
    start_worker(url, terms=CALM, start=[["chain", "theirs", given, True]])
    async with open_engine(store_of(url), {**KINDS, "endless": endless}, TERMS) as engine:
        await engine.start("endless", "ours", {}, here=True)
        for name in ("ours", "theirs", "nobody's"):
            await engine.abandon(name)
        assert (await engine.get("ours")).state is RunState.CANCELLED
        assert (await engine.get("theirs")).state is RunState.RUNNING
        (effects / "go").touch()
        assert await engine.wait("theirs") == {"value": outcome_of(1)}


@pytest.mark.parametrize("how", ["closed", "cancelled", "cancelled by another"])
async def test_a_job_that_is_cancelled_knows_whether_its_run_is_to_be_continued(sqlite_url: str, how: str) -> None:
    told: list[bool] = []
    begun = asyncio.Event()

    async def job(journal: Any, given: Any) -> Any:
        async def work() -> Any:
            begun.set()
            await anyio.sleep_forever()

        try:
            await journal.step("waits", work)
        finally:
            told.append(journal.interrupted)
        return given

    async with open_engine(store_of(sqlite_url), {"job": job}, TERMS) as engine:
        await engine.start("job", "one", {}, here=True)
        await begun.wait()
        if how == "cancelled":
            await engine.cancel("one")
        elif how == "cancelled by another":
            with closing(sqlite3.connect(sqlite_url)) as database, database:
                database.execute("UPDATE workflow_status SET status = 'CANCELLED'")
            with anyio.fail_after(120):
                while not told:  # noqa: ASYNC110 - a job says it
                    await anyio.sleep(0.02)
    assert told == [how == "closed"]


async def test_a_shielded_cleanup_of_a_job_finishes_however_often_the_job_is_cancelled(sqlite_url: str) -> None:
    told: list[str] = []
    begun, go = anyio.Event(), anyio.Event()

    async def job(journal: Any, given: Any) -> Any:
        async def work() -> Any:
            with anyio.CancelScope(shield=True):
                begun.set()
                await go.wait()
                told.append("in order")
            await anyio.sleep_forever()

        try:
            await journal.step("waits", work)
        finally:
            told.append("cancelled")
        return given

    async with open_engine(store_of(sqlite_url), {"job": job}, TERMS) as engine:
        await engine.start("job", "one", {}, here=True)
        await begun.wait()
        await engine.cancel("one")
        for _ in range(3):
            await engine.recover()
        go.set()

        async def cancelled() -> bool:
            return bool(told)

        await until(cancelled)
    assert told == ["in order", "cancelled"]


async def test_a_shielded_step_ends_with_its_run(sqlite_url: str) -> None:
    begun, ended = anyio.Event(), anyio.Event()

    async def job(journal: Any, given: Any) -> Any:
        try:
            begun.set()
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                try:
                    await journal.step("too late", anyio.sleep_forever)
                finally:
                    ended.set()
        return given

    async with open_engine(store_of(sqlite_url), {"job": job}, TERMS) as engine:
        await engine.start("job", "one", {}, here=True)
        await begun.wait()
        await engine.cancel("one")
        with anyio.fail_after(20):
            await ended.wait()


DEAF = """
import os, pathlib, signal, time
signal.signal(signal.SIGTERM, lambda *_: pathlib.Path("asked").touch())
pathlib.Path("process").write_text(str(os.getpid()))
while True:
    time.sleep(1)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
async def test_a_run_cancelled_while_it_ends_a_program_leaves_no_process(sqlite_url: str, effects: Path) -> None:
    async def job(journal: Any, given: Any) -> Any:
        async def work() -> Any:
            command = Command((sys.executable, "-c", DEAF), effects, dict(os.environ))
            await run_process(command, ProcessLimits(seconds=given["seconds"]))

        await journal.step("program", work)
        return {}

    async def asked() -> bool:
        return (effects / "asked").exists()

    async def ended() -> bool:
        try:
            os.kill(int((effects / "process").read_text()), 0)
        except ProcessLookupError:
            return True
        return False

    async with open_engine(store_of(sqlite_url), {"job": job}, TERMS) as engine:
        # The program has ample time to write its number before its limit is reached.
        await engine.start("job", "one", {"seconds": 3}, here=True)
        await until(asked)
        await engine.cancel("one")
        await until(ended)


@pytest.mark.skipif(os.name == "nt", reason="Windows removes no file that is open")
async def test_removal_of_the_store_raises_in_wait_and_in_open_engine(sqlite_url: str) -> None:
    waited: list[str] = []

    async def wait(engine: Any) -> None:
        with pytest.raises(StoreError) as told:
            await engine.wait("one")
        waited.append(str(told.value))

    async def opened(tasks: Any) -> None:
        async with open_engine(store_of(sqlite_url), {"endless": endless}, TERMS) as engine:
            await engine.start("endless", "one", {}, here=True)
            tasks.start_soon(wait, engine)
            await anyio.to_thread.run_sync(remove_at_once, Path(sqlite_url).parent)
            with anyio.fail_after(120):
                await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        with pytest.raises(StoreError, match="was removed"):
            await opened(tasks)
    assert "was removed" in waited[0]


@pytest.mark.skipif(os.name == "nt", reason="Windows removes no file that is open")
async def test_a_query_that_fails_since_the_store_was_removed_says_so(sqlite_url: str) -> None:
    slow = WorkerConfig(beat_seconds=300, grace_seconds=900)  # the heartbeat does not notice it first
    async with open_engine(store_of(sqlite_url), {"echo": echo}, slow) as engine:
        await engine.run("echo", "one", {}, here=True)
        remove_at_once(Path(sqlite_url).parent)

        async def asking() -> None:
            while True:  # until more queries come at once than connections are kept open
                await asyncio.gather(*(engine.get("one") for _ in range(60)))

        with pytest.raises(StoreError, match="was removed"):
            await asyncio.wait_for(asking(), 60)


async def test_cancelling_a_finished_run_changes_nothing(sqlite_url: str) -> None:
    async with open_engine(store_of(sqlite_url), {"echo": echo}, TERMS) as engine:
        outcome = await engine.run("echo", "one", {}, here=True)
        assert (await engine.cancel("one")).state is RunState.DONE
        assert await engine.wait("one") == outcome


async def test_a_run_interrupted_by_closing_the_engine_is_continued_by_the_next_engine(url: str, effects: Path) -> None:
    given: Any = {"folder": str(effects), "seed": 3}

    async def has_begun() -> bool:
        return len(lines(effects)) > 4

    async with open_engine(store_of(url), KINDS, TERMS) as engine:
        await engine.start("chain", "one", given, here=True)
        await until(has_begun)
    interrupted = len(lines(effects))
    async with open_engine(store_of(url), KINDS, TERMS) as engine:
        assert await engine.wait("one") == {"value": outcome_of(3)}
    assert interrupted < 20
    assert len(lines(effects)) in {20, 21}


async def test_a_job_that_swallows_its_cancellation_is_continued_too(sqlite_url: str) -> None:
    begun = asyncio.Event()

    async def stubborn(journal: Any, given: Any) -> Any:
        async def work() -> Any:
            begun.set()
            await anyio.sleep_forever()

        try:
            await journal.step("waits", work)
        except asyncio.CancelledError:
            return {"status": "cancelled"}
        return given

    async with open_engine(store_of(sqlite_url), {"job": stubborn}, TERMS) as engine:
        await engine.start("job", "one", {"a": 1}, here=True)
        await begun.wait()
    async with open_engine(store_of(sqlite_url), {"job": echo}, TERMS) as engine:
        assert await engine.wait("one") == {"back": {"a": 1}}


async def test_listing_finds_runs_behind_those_of_another_format(sqlite_url: str) -> None:
    nothing = replace(TERMS, at_once=1)
    later = replace(nothing, run_format=nothing.run_format + 1)
    async with open_engine(store_of(sqlite_url), {"job": endless}, nothing) as engine:
        await engine.start("job", "mine", {}, here=True)
    async with open_engine(store_of(sqlite_url), {"job": endless}, later) as engine:
        for number in range(120):
            await engine.start("job", f"other {number}", {})
    async with open_engine(store_of(sqlite_url), {"job": endless}, replace(nothing, only=frozenset())) as engine:
        assert [run.run_id for run in await engine.runs([RunState.RUNNING, RunState.WAITING], limit=1)] == ["mine"]
        others = await engine.runs([RunState.OTHER_FORMAT], limit=200)
        assert sorted(run.run_id for run in others) == sorted(f"other {number}" for number in range(120))
        assert len(await engine.runs(limit=3)) == 3


async def test_a_run_released_once_too_often_is_given_up(sqlite_url: str) -> None:
    terms = WorkerConfig(**QUICK, recoveries=1, only=frozenset())
    async with open_engine(store_of(sqlite_url), {"endless": endless}, terms) as engine:
        await engine.start("endless", "one", {}, here=True)
    async with open_engine(store_of(sqlite_url), {"endless": endless}, terms) as engine:
        worker = (await engine.start("endless", "other", {}, here=True)).worker
        with closing(sqlite3.connect(sqlite_url)) as database, database:
            sql = "UPDATE workflow_status SET executor_id = ?, recovery_attempts = 2 WHERE workflow_uuid = 'one'"
            database.execute(sql, (worker,))
        with anyio.fail_after(20), pytest.raises(RunNotDoneError) as caught:
            await engine.wait("one")
    assert caught.value.run.state is RunState.GIVEN_UP


async def test_a_run_of_another_format_is_listed_and_not_continued(sqlite_url: str) -> None:
    async with open_engine(store_of(sqlite_url), {"job": endless}, TERMS) as engine:
        await engine.start("job", "running", {}, here=True)
        await engine.start("job", "waiting", {})
    async with open_engine(
        store_of(sqlite_url), {"job": echo}, WorkerConfig(**CALM, run_format=TERMS.run_format + 1)
    ) as engine:
        assert not await engine.recover()
        for name in ("running", "waiting"):
            with pytest.raises(RunNotDoneError, match="another run format"):
                await engine.wait(name)
        assert {run.run_id for run in await engine.runs([RunState.OTHER_FORMAT])} == {"running", "waiting"}
        assert (await engine.cancel("running")).state is RunState.CANCELLED
        assert await engine.run("job", "new", {}, here=True) == {"back": {}}


async def test_pools_in_one_store_are_independent(sqlite_url: str) -> None:
    async with open_engine(store_of(sqlite_url), {"job": endless}, TERMS) as engine:
        await engine.start("job", "one", {}, here=True)
    async with open_engine(store_of(sqlite_url), {"job": echo}, WorkerConfig(**CALM, pool="others")) as engine:
        assert not await engine.recover()
        assert await engine.runs() == ()
        with pytest.raises(UnknownRunError):
            await engine.wait("one")
        with pytest.raises(RunConflictError, match="by another pool"):
            await engine.start("job", "one", {})


async def test_old_finished_runs_are_deleted_and_others_stay(url: str) -> None:
    async with open_engine(store_of(url), {"echo": echo, "endless": endless}, TERMS) as engine:
        for number in range(5):
            await engine.run("echo", f"done {number}", {}, here=True)
        await engine.start("endless", "running", {}, here=True)
        assert await engine.delete_finished(timedelta(days=1)) == 0
        assert await engine.delete_finished(timedelta(seconds=-5)) == 5
        assert [run.run_id for run in await engine.runs()] == ["running"]


async def test_a_process_has_one_engine_at_a_time(sqlite_url: str, tmp_path: Path) -> None:
    async with open_engine(store_of(sqlite_url), {"echo": echo}, TERMS) as engine:
        with pytest.raises(StoreError, match="open engine for runs"):
            async with open_engine(store_of(str(tmp_path / "other.sqlite")), {}, TERMS):
                pass
        assert await engine.run("echo", "one", {}, here=True)
    for number in range(3):
        async with open_engine(store_of(sqlite_url), {"echo": echo}, TERMS) as engine:
            assert await engine.run("echo", f"again {number}", {}, here=True)
        assert await asyncio.to_thread(len, "the loop's threads are its own again") > 0


async def test_an_error_inside_an_open_engine_propagates_unchanged(sqlite_url: str) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with open_engine(store_of(sqlite_url), {}, TERMS):
            raise KeyError("mine")


async def test_an_invalid_worker_configuration_is_refused(sqlite_url: str) -> None:
    for terms in (
        WorkerConfig(pool="A"),
        WorkerConfig(at_once=0),
        WorkerConfig(recoveries=0),
        WorkerConfig(beat_seconds=5, grace_seconds=6),
    ):
        with pytest.raises(StoreError):
            async with open_engine(store_of(sqlite_url), {}, terms):
                pass


LOADS = """
import sys
import skills_core.runs, skills_core.runs.durable, skills_core.runs.durable.store, skills_core.runs.durable.recorded_run
import skills_core.runs.durable.recorded_run, skills_core.runs.durable.recorded_run, skills_core.runs.durable.store
sys.exit(str(sorted({"dbos", "sqlalchemy", "psycopg", "pydantic_ai"} & sys.modules.keys())))
"""


def test_the_modules_of_values_do_not_import_dbos() -> None:
    done = subprocess.run([sys.executable, "-c", LOADS], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.stderr == "[]\n"


def test_only_the_engine_and_the_client_import_dbos() -> None:
    for path in [*(REPOSITORY / "skills_core").rglob("*.py"), *(REPOSITORY / "server").rglob("*.py")]:
        if "skills_core/runs/durable" not in path.as_posix():
            text = path.read_text(encoding="utf-8")
            assert "import dbos" not in text, path
            assert "from dbos" not in text, path


QUIET = """
import asyncio, sys, pathlib
seen = []
sys.addaudithook(lambda event, arguments: seen.append(event) if event in {"socket.connect", "socket.bind"} else None)
from skills_core.runs.durable.engine import open_engine
from skills_core.runs.durable.store import SqliteStore
async def echo(journal, given):
    return given
async def main():
    async with open_engine(SqliteStore(pathlib.Path(sys.argv[1])), {"echo": echo}) as engine:
        await engine.run("echo", "one", {})
asyncio.run(main())
sys.exit(str(seen))
"""


def test_nothing_is_printed_and_no_network_is_used(sqlite_url: str) -> None:
    command = [sys.executable, "-c", QUIET, sqlite_url]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("", "[]\n")


async def test_foreign_runs_are_the_unfinished_ones_of_other_pools_and_versions(url: str) -> None:
    theirs = WorkerConfig(pool="others", **CALM)
    async with open_engine(store_of(url), {"endless": endless, "echo": echo}, theirs) as engine:
        await engine.run("echo", "done", {})
        await engine.start("endless", "left", {}, here=True)
        await engine.start("endless", "newer", {})
        assert await engine.foreign_runs() == ()
    async with open_engine(store_of(url), {"endless": endless}, TERMS) as engine:
        await engine.start("endless", "ours", {}, here=True)
        assert await engine.foreign_runs() == ("left", "newer")
    later = WorkerConfig(pool=TERMS.pool, run_format=TERMS.run_format + 1, **CALM)
    async with open_engine(store_of(url), {"endless": endless}, later) as engine:
        assert await engine.foreign_runs() == ("left", "newer", "ours")


async def test_a_run_of_an_unknown_kind_waits_for_a_worker_that_knows_it(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with open_engine(store_of(sqlite_url), {"later": endless}, TERMS) as engine:
        await engine.start("later", "theirs", {"word": "x"}, here=True)
    async with open_engine(store_of(sqlite_url), {"other": endless}, TERMS) as engine:
        await engine.recover()
        assert await becomes(lambda: "run theirs waits for a worker that knows runs of kind later" in caplog.text)
        assert (await engine.get("theirs")).state in {RunState.WAITING, RunState.RUNNING}
    async with open_engine(store_of(sqlite_url), {"later": echo}, TERMS) as engine:
        await engine.recover()
        assert await engine.wait("theirs")
