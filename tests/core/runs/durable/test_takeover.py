"""Which interrupted runs a worker continues, and which it leaves.

A job knows whether its worker still owns the run, and which attempt it is.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest
from dbos import _migration, _sys_db_sqlite
from dbos._sys_db import SystemDatabase

from skills_core.runs.durable import client as client_module
from skills_core.runs.durable.client import Activity, open_client
from skills_core.runs.durable.engine import Engine, open_engine
from skills_core.runs.durable.heartbeat import InterruptedRun
from skills_core.runs.durable.lifecycle import create_tables
from skills_core.runs.durable.recorded_run import RunState, StoreError, UnknownRunError, WorkerConfig
from skills_core.runs.durable.store import require_private, store_of
from skills_core.runs.durable.worker import Worker
from skills_core.runs.journal import Epoch
from tests.core.runs.durable.conftest import CALM, QUICK
from tests.core.runs.durable.test_engine import until
from tests.thoroughness import EVERY_CASE

pytestmark = pytest.mark.slow

LIMIT = 600.0
CAREFUL = WorkerConfig(**QUICK, resume_seconds=LIMIT)


class Job:
    """A job that stands still in its second step until it may go on."""

    def __init__(self) -> None:
        self.reached = anyio.Event()
        self.is_valid = anyio.Event()

    async def __call__(self, journal: Any, given: Any) -> Any:
        async def first() -> Any:
            return 1

        async def second() -> Any:
            self.reached.set()
            await self.is_valid.wait()
            return 2

        await journal.step("first", first)
        return {"value": await journal.step("second", second), **given}


def change(url: str, *statements: str) -> None:
    """Execute statements in which {0} stands before the names of tables."""
    if url.startswith("postgresql"):
        with psycopg.connect(url) as server:
            for statement in statements:
                server.execute(statement.format("skillserve.").encode())
        return
    with closing(sqlite3.connect(url)) as file, file:
        for statement in statements:
            file.execute(statement.format(""))


def grow_older(url: str, seconds: float) -> None:
    """Let all that is recorded be so much longer ago."""
    by = round(seconds * 1000)
    columns = {"workflow_status": ("created_at", "updated_at"), "operation_outputs": ("completed_at_epoch_ms",)}
    for table, names in columns.items():
        change(url, f"UPDATE {{0}}{table} SET {', '.join(f'{name} = {name} - {by}' for name in names)}")  # noqa: S608


async def interrupt(url: str, run_id: str = "one") -> None:
    """Begin a run and end its worker."""
    job = Job()
    async with open_engine(store_of(url), {"job": job}, CAREFUL) as engine:
        await engine.start("job", run_id, {"n": 1}, here=True)
        await job.reached.wait()


def put_into_queue(url: str) -> None:
    """Leave the run as a worker leaves it that ended between taking it over and performing it."""
    to = f"status = 'ENQUEUED', owner_xid = NULL, queue_name = '{CAREFUL.pool}'"
    change(url, f"UPDATE {{0}}workflow_status SET {to}")  # noqa: S608


async def test_a_file_that_another_program_keeps_locked_is_an_error_after_a_bounded_wait(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await interrupt(sqlite_url)
    monkeypatch.setattr(client_module, "LOCKED_SECONDS", 0.05)
    with closing(sqlite3.connect(sqlite_url, isolation_level=None)) as other:
        for lock, is_readable in (("IMMEDIATE", True), ("EXCLUSIVE", False)):
            other.execute(f"BEGIN {lock}")
            with open_client(store_of(sqlite_url)) as client:
                assert client is not None
                if is_readable:
                    assert len(client.runs(9)) == 1
                else:
                    with pytest.raises(StoreError, match="another program holds the file locked"):
                        client.runs(9)
                with pytest.raises(StoreError, match="another program holds the file locked"):
                    client.cancel("one")
            other.execute("ROLLBACK")
    with open_client(store_of(sqlite_url)) as client:
        assert client is not None
        assert client.cancel("one")[0].state is RunState.CANCELLED


@pytest.mark.parametrize("migrations", [1, 20])
async def test_a_worker_completes_half_created_tables_before_it_reads_them(
    url: str, migrations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not url.startswith("postgresql"):
        require_private(Path(url))
    with monkeypatch.context() as patch:
        every = _migration.get_dbos_migrations
        patch.setattr(_migration, "get_dbos_migrations", lambda *given: every(*given)[:migrations])
        patch.setattr(_sys_db_sqlite, "sqlite_migrations", _migration.sqlite_migrations[:migrations])
        create_tables(store_of(url))
    job = Job()
    job.is_valid.set()
    async with open_engine(store_of(url), {"job": job}, CAREFUL) as engine:
        assert await engine.run("job", "one", {}) == {"value": 2}


@pytest.mark.parametrize(
    ("age", "continued", "queued"),
    [
        (LIMIT / 2, True, True),
        (LIMIT * 2, False, False),
        *([(LIMIT / 2, True, False), (LIMIT * 2, False, True)] if EVERY_CASE else []),
    ],
)
async def test_an_interrupted_run_is_continued_only_while_it_is_recent(
    url: str,
    age: float,
    continued: bool,  # noqa: FBT001
    queued: bool,  # noqa: FBT001
) -> None:
    await interrupt(url)
    grow_older(url, age)
    if queued:
        put_into_queue(url)
    job, told = Job(), list[InterruptedRun]()
    job.is_valid.set()
    async with open_engine(store_of(url), {"job": job}, CAREFUL, told.append) as engine:
        if continued:
            assert await engine.wait("one") == {"value": 2, "n": 1}
        else:

            async def is_told() -> bool:
                return bool(told)

            await until(is_told)
            # What it was asked for since is performed before it looks round for the next time.
            assert await engine.run("job", "two", {}) == {"value": 2}
            assert (await engine.get("one")).state is RunState.RUNNING
            with open_client(store_of(url)) as client:
                assert client is not None
                assert client.activity(client.get("one")) is Activity.INTERRUPTED
    if not (queued and continued):
        assert [(each.run.run_id, each.continued) for each in told] == [("one", continued)]
        assert age <= told[0].seconds < age + LIMIT / 4
        assert told[0].run.given == {"n": 1}
    if not continued:
        # A worker that was asked to does so, however old the run is.
        async with open_engine(store_of(url), {"job": job}, WorkerConfig(**QUICK)) as engine:
            assert await engine.wait("one") == {"value": 2, "n": 1}


async def test_a_long_step_does_not_make_an_orderly_interrupted_run_stale(url: str) -> None:
    job = Job()
    async with open_engine(store_of(url), {"job": job}, CAREFUL) as engine:
        await engine.start("job", "one", {}, here=True)
        await job.reached.wait()
        grow_older(url, LIMIT * 2)
    job.is_valid.set()
    async with open_engine(store_of(url), {"job": job}, CAREFUL) as engine:
        assert await engine.wait("one") == {"value": 2}


async def test_a_short_lived_worker_leaves_queued_runs_of_a_dead_one(url: str) -> None:
    await interrupt(url)
    put_into_queue(url)
    job = Job()
    job.is_valid.set()
    async with open_engine(store_of(url), {"job": job}, WorkerConfig(**QUICK, only=frozenset())) as engine:
        assert await engine.run("job", "two", {}) == {"value": 2}
        assert (await engine.get("one")).outcome is None


def takers() -> list[threading.Thread]:
    """Return the threads that take runs from queues."""
    return [each for each in threading.enumerate() if each.name.startswith("queue-worker-")]


async def test_a_closing_worker_leaves_a_run_waiting_that_has_not_begun(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    look, mark = SystemDatabase.dequeue_scopes, Worker.mark_interrupted

    def counted(database: SystemDatabase, queue: str) -> Any:
        looks.append(queue)
        return look(database, queue)

    async def mark_late(worker: Worker, claims: Any) -> None:
        """The slot is free now: give the worker the time to look into its whole queue once more, if it still does."""
        before = len(looks)

        async def has_looked() -> bool:
            return not takers() or looks[before:].count(alone.pool) > 1

        await until(has_looked)
        await mark(worker, claims)

    monkeypatch.setattr(SystemDatabase, "dequeue_scopes", counted)
    monkeypatch.setattr(Worker, "mark_interrupted", mark_late)
    job, alone = Job(), WorkerConfig(**CALM, at_once=1)
    async with open_engine(store_of(url), {"job": job}, alone) as engine:
        await engine.start("job", "first", {})
        await job.reached.wait()
        await engine.start("job", "later", {"a": 1})
        assert takers()
    with open_client(store_of(url)) as client:
        assert client is not None
        assert client.activity(client.get("first")) is Activity.INTERRUPTED
        assert client.activity(client.get("later")) is Activity.WAITING
    job.is_valid.set()
    async with open_engine(store_of(url), {"job": job}, alone) as engine:
        assert await engine.wait("later") == {"value": 2, "a": 1}
        assert (await engine.get("later")).attempts == 1
        assert await engine.wait("first") == {"value": 2}


async def test_a_run_is_left_once_its_worker_is_gone_and_no_other_continues_it(url: str) -> None:
    """A worker of another pool sees it too."""
    other = WorkerConfig(pool="others", **QUICK)
    job = Job()
    async with open_engine(store_of(url), {"job": job}, CAREFUL) as engine:
        await engine.start("job", "one", {"n": 1}, here=True)
        await job.reached.wait()
        assert not await engine.is_left("one")
        with pytest.raises(UnknownRunError):
            await engine.is_left("two")
    grow_older(url, LIMIT + 5)
    async with open_engine(store_of(url), {"job": Job()}, other) as engine:
        await until_left(engine, "one")
    async with open_engine(store_of(url), {"job": Job()}, CAREFUL) as engine:
        await until_left(engine, "one")
    put_into_queue(url)
    async with open_engine(store_of(url), {"job": Job()}, other) as engine:
        await until_left(engine, "one")


async def until_left(engine: Engine, run_id: str) -> None:
    with anyio.fail_after(60):
        while not await engine.is_left(run_id):  # noqa: ASYNC110 - a worker that has just connected trusts no silence
            await anyio.sleep(0.05)


TERMS = WorkerConfig(**CALM)


class StandingJob:
    """Stands in a step until it is cancelled, and notes what it knows of itself then."""

    def __init__(self) -> None:
        self.begun, self.ended = anyio.Event(), anyio.Event()
        self.epochs: list[Epoch] = []
        self.fenced = self.interrupted = False
        self.went_on = False

    async def __call__(self, journal: Any, given: Any) -> Any:
        self.epochs.append(journal.epoch)
        del given
        try:
            await journal.step("stand", self.stand)
        finally:
            self.fenced, self.interrupted = journal.fenced, journal.interrupted
            with anyio.CancelScope(shield=True):
                await self.goes_on(journal)
            self.ended.set()
        return {}

    async def stand(self) -> None:
        self.begun.set()
        await anyio.sleep_forever()

    async def goes_on(self, journal: Any) -> None:
        with anyio.CancelScope() as scope:
            try:
                await journal.ensure_owned()
                self.went_on = True
            except anyio.get_cancelled_exc_class():
                scope.cancel()


@pytest.mark.parametrize(
    ("to", "fenced", "interrupted"),
    [
        ("executor_id = 'another', owner_xid = 'another'", True, True),
        ("status = 'ENQUEUED', owner_xid = NULL", True, True),
        ("status = 'CANCELLED', owner_xid = NULL", False, False),
    ],
    ids=["taken", "handed back", "cancelled"],
)
async def test_a_job_is_fenced_once_another_worker_may_own_its_run(
    url: str,
    to: str,
    fenced: bool,  # noqa: FBT001
    interrupted: bool,  # noqa: FBT001
) -> None:
    job = StandingJob()
    async with open_engine(store_of(url), {"job": job}, TERMS) as engine:
        await engine.start("job", "one", {}, here=True)
        await job.begun.wait()
        change(url, f"UPDATE {{0}}workflow_status SET {to}")  # noqa: S608
        with anyio.fail_after(60):
            await job.ended.wait()
    assert (job.fenced, job.interrupted, job.went_on) == (fenced, interrupted, False)


async def test_each_attempt_at_a_run_has_a_higher_token(url: str) -> None:
    job = StandingJob()
    for attempt in (1, 2):
        async with open_engine(store_of(url), {"job": job}, TERMS) as engine:
            if attempt == 1:
                await engine.start("job", "one", {}, here=True)
            with anyio.fail_after(60):
                await job.begun.wait()
        job.begun = anyio.Event()
    first, second = job.epochs
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.recorded == second.recorded
    assert not job.fenced
