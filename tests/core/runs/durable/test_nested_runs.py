"""Nested runs: the steps of a run inside a step are recorded too."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from dbos import _core

from skills_core.runs.durable.engine import Engine, open_engine
from skills_core.runs.durable.recorded_run import FINISHED, RunNotDoneError, RunState, WorkerConfig, is_nested
from skills_core.runs.durable.store import store_of
from tests.core.runs.durable.conftest import CALM, QUICK
from tests.core.runs.durable.test_engine import endless, until
from tests.thoroughness import EVERY_CASE

pytestmark = pytest.mark.slow

ONE_AT_A_TIME = WorkerConfig(**CALM, at_once=1)


class Nested:
    """An outer job of three steps, of which each performs an inner one of four; the log names the steps done."""

    def __init__(self, log: Path, hold: str | None = None) -> None:
        self.engine: Engine | None = None
        self._log = log
        self._hold = hold
        self.kinds = {"outer": self.outer, "inner": self.inner}

    async def outer(self, journal: Any, given: Any) -> Any:
        said = []
        for number in range(3):

            async def work(number: int = number) -> Any:
                assert self.engine is not None
                return await self.engine.run_nested(journal.run_id, str(number), "inner", {"number": number})

            said.append((await journal.step(f"outer {number}", work))["sum"])
        return {"said": said, **given}

    async def inner(self, journal: Any, given: Any) -> Any:
        total = 0
        for step in range(4):

            async def work(step: int = step) -> int:
                if self._hold == f"{given['number']}.{step}":
                    self._log.with_name("held").touch()
                    await anyio.sleep_forever()
                with self._log.open("a") as log:
                    log.write(f"{journal.run_id} {step}\n")
                return int(given["number"]) * 10 + step

            total += await journal.step(f"inner {step}", work)
        return {"sum": total}


def done(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


STOPS = [f"{number}.{step}" for number in range(3) for step in range(4)]


# Without every case: each number and each step, the first and the last of all among them.
@pytest.mark.parametrize("stopped_at", STOPS if EVERY_CASE else ["0.0", "0.3", "1.1", "2.2", "2.3"])
async def test_a_run_interrupted_in_a_nested_run_continues_where_it_was(
    sqlite_url: str, tmp_path: Path, stopped_at: str
) -> None:
    log = tmp_path / "log"
    first = Nested(log, stopped_at)
    async with open_engine(store_of(sqlite_url), first.kinds, ONE_AT_A_TIME) as first.engine:
        await first.engine.start("outer", "run", {})

        async def came_there() -> bool:
            return log.with_name("held").exists()

        await until(came_there)
    second = Nested(log)
    async with open_engine(store_of(sqlite_url), second.kinds, ONE_AT_A_TIME) as second.engine:
        assert await second.engine.wait("run") == {"said": [6, 46, 86]}
    assert done(log) == [f"run.{number} {step}" for number in range(3) for step in range(4)]


async def test_outer_runs_in_all_slots_do_not_deadlock(sqlite_url: str, tmp_path: Path) -> None:
    jobs = Nested(tmp_path / "log")
    async with open_engine(store_of(sqlite_url), jobs.kinds, ONE_AT_A_TIME) as jobs.engine:
        outcomes = await asyncio.gather(*(jobs.engine.run("outer", f"run-{number}", {}) for number in range(4)))
    assert outcomes == [{"said": [6, 46, 86]}] * 4


async def test_cancelling_a_run_cancels_its_nested_runs(sqlite_url: str) -> None:
    engine: Engine

    async def outer(journal: Any, _: Any) -> Any:
        async def work() -> Any:
            return await engine.run_nested(journal.run_id, "0", "endless", {})

        return await journal.step("outer", work)

    async with open_engine(store_of(sqlite_url), {"outer": outer, "endless": endless}, ONE_AT_A_TIME) as engine:
        await engine.start("outer", "run", {}, here=True)

        async def inside() -> bool:
            return any(run.run_id == "run.0" for run in await engine.runs([RunState.RUNNING]))

        await until(inside)
        await engine.cancel("run")
        assert (await engine.get("run.0")).state is RunState.CANCELLED
        with pytest.raises(RunNotDoneError):
            await engine.wait("run")


async def test_a_nested_run_is_told_of_the_cancellation_when_its_outer_run_is(sqlite_url: str) -> None:
    """Another process cancels the outer run first, and this one may notice before the nested run is cancelled too."""
    engine: Engine
    began, interrupted = anyio.Event(), []

    async def outer(journal: Any, _: Any) -> Any:
        async def work() -> Any:
            return await engine.run_nested(journal.run_id, "0", "inner", {})

        return await journal.step("outer", work)

    async def inner(journal: Any, _: Any) -> Any:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            interrupted.append(journal.interrupted)

    async with open_engine(store_of(sqlite_url), {"outer": outer, "inner": inner}, ONE_AT_A_TIME) as engine:
        await engine.start("outer", "run", {}, here=True)
        await began.wait()
        with closing(sqlite3.connect(sqlite_url)) as database, database:
            database.execute("UPDATE workflow_status SET status = 'CANCELLED' WHERE workflow_uuid = 'run'")
        with pytest.raises(RunNotDoneError):
            await engine.wait("run")
    assert interrupted == [False]


async def test_a_nested_run_recorded_after_the_cancellation_is_cancelled_too(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine: Engine
    performed: list[str] = []
    asked, answers = threading.Event(), threading.Event()
    record = _core._init_workflow

    def record_late(dbos: Any, context: Any, **more: Any) -> Any:
        if is_nested(context.id_assigned_for_next_workflow):
            asked.set()
            assert answers.wait(20)
        return record(dbos, context, **more)

    monkeypatch.setattr(_core, "_init_workflow", record_late)

    async def outer(journal: Any, _: Any) -> Any:
        async def work() -> Any:
            return await engine.run_nested(journal.run_id, "0", "inner", {})

        return await journal.step("outer", work)

    async def inner(journal: Any, given: Any) -> Any:
        performed.append(journal.run_id)
        return given

    async with open_engine(store_of(sqlite_url), {"outer": outer, "inner": inner}, ONE_AT_A_TIME) as engine:
        await engine.start("outer", "run", {}, here=True)
        assert await anyio.to_thread.run_sync(asked.wait, 60)
        await engine.cancel("run")
        answers.set()

        async def recorded() -> bool:
            return len(await engine.runs(FINISHED)) == 2

        await until(recorded)
        assert {run.state for run in await engine.runs()} == {RunState.CANCELLED}
    assert performed == []


@pytest.mark.parametrize("whose", ["dead", "own"])
async def test_nested_runs_left_by_a_cancelled_run_are_cancelled_and_not_continued(
    sqlite_url: str, tmp_path: Path, whose: str
) -> None:
    first = Nested(tmp_path / "log", "0.2")
    async with open_engine(store_of(sqlite_url), first.kinds, replace(ONE_AT_A_TIME, **QUICK)) as first.engine:
        await first.engine.start("outer", "run", {}, here=True)

        async def came_there() -> bool:
            return (tmp_path / "held").exists()

        await until(came_there)
    before = done(tmp_path / "log")
    with closing(sqlite3.connect(sqlite_url)) as database, database:
        database.execute("UPDATE workflow_status SET status = 'CANCELLED' WHERE workflow_uuid = 'run'")
    second = Nested(tmp_path / "log")
    async with open_engine(store_of(sqlite_url), second.kinds, replace(ONE_AT_A_TIME, **QUICK)) as second.engine:
        if whose == "own":
            mine = await second.engine.start("inner", "mine", {"number": 7}, here=True)
            with closing(sqlite3.connect(sqlite_url)) as database, database:
                sql = "UPDATE workflow_status SET status = 'PENDING', executor_id = ? WHERE workflow_uuid = 'run.0'"
                database.execute(sql, (mine.worker,))

        async def settled() -> bool:
            assert second.engine is not None
            return (await second.engine.get("run.0")).state in FINISHED

        await until(settled)
        assert (await second.engine.get("run.0")).state is RunState.CANCELLED
        if whose == "own":
            await second.engine.wait("mine")
    assert [line for line in done(tmp_path / "log") if line.startswith("run")] == before


async def test_a_run_id_has_no_dot(sqlite_url: str) -> None:
    async with open_engine(store_of(sqlite_url), {"endless": endless}, ONE_AT_A_TIME) as engine:
        with pytest.raises(ValueError, match="no dots"):
            await engine.start("endless", "a.b", {})


async def test_a_worker_opened_for_one_run_takes_over_only_that_run(sqlite_url: str, tmp_path: Path) -> None:
    first = Nested(tmp_path / "log", "0.2")
    async with open_engine(store_of(sqlite_url), first.kinds, ONE_AT_A_TIME) as first.engine:
        await first.engine.start("outer", "left", {}, here=True)

        async def came_there() -> bool:
            return (tmp_path / "held").exists()

        await until(came_there)
    for only, state in ((frozenset[str](), RunState.RUNNING), (frozenset({"left"}), RunState.DONE)):
        jobs = Nested(tmp_path / "log")
        async with open_engine(store_of(sqlite_url), jobs.kinds, replace(ONE_AT_A_TIME, only=only)) as jobs.engine:
            await jobs.engine.run("outer", f"own-{len(only)}", {}, here=True)
            with anyio.move_on_after(2 if not only else 20):
                await jobs.engine.wait("left")
            assert (await jobs.engine.get("left")).state is state
