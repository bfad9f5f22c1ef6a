"""A database that refuses: what is told of it, and what becomes of the runs."""

from __future__ import annotations

import logging
import sqlite3
import traceback
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from dbos import DBOS
from dbos import error as dbos_errors

from skills_core.run.durable.engine import Engine, open_engine
from skills_core.run.durable.errors import StoreError
from skills_core.run.durable.runs import RunState
from skills_core.run.durable.store import store_of
from skills_core.run.durable.terms import Terms
from tests.core.run.durable.conftest import CALM, QUICK
from tests.core.run.durable.test_engine import echo, endless, until

TEXT = "what-was-said"


def change(path: str, statement: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(statement)


def refuse(path: str, table: str) -> None:
    change(path, f"CREATE TRIGGER {table}_full BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'disk full'); END")


def accept(path: str, table: str) -> None:
    change(path, f"DROP TRIGGER {table}_full")


def all_of(error: BaseException, caplog: pytest.LogCaptureFixture) -> str:
    return caplog.text + "".join(traceback.format_exception(error))


async def careless(journal: Any, given: Any) -> Any:
    """Make an outcome of whatever happens."""

    async def work() -> Any:
        return {"answer": TEXT, **given}

    try:
        return await journal.step("answer", work)
    except Exception as error:
        logging.getLogger("job").exception("it failed")
        return {"problem": type(error).__name__}


async def test_a_run_that_cannot_be_recorded_is_refused_without_its_text(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_engine(store_of(sqlite_url), {"echo": echo}, Terms(**CALM)) as engine:
        refuse(sqlite_url, "workflow_status")
        for here in (True, False):
            with pytest.raises(StoreError, match="IntegrityError") as caught:
                await engine.start("echo", "one", {"message": TEXT}, here=here)
            assert TEXT not in all_of(caught.value, caplog)


@pytest.mark.parametrize("kind", ["careless", "outer"])
async def test_a_run_whose_step_cannot_be_recorded_is_told_and_continued_when_it_can(
    sqlite_url: str, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    caplog.set_level(logging.INFO)
    engine: Engine

    async def outer(journal: Any, given: Any) -> Any:
        async def work() -> Any:
            return await engine.run_inside(journal.run_id, "0", "careless", given)

        return await journal.step("outer", work)

    kinds = {"careless": careless, "outer": outer}
    async with open_engine(store_of(sqlite_url), kinds, Terms(**QUICK)) as engine:
        refuse(sqlite_url, "operation_outputs")
        with pytest.raises(StoreError, match=r"IntegrityError\. It is continued later") as caught:
            await engine.run(kind, "one", {"number": 1}, here=True)
        assert TEXT not in all_of(caught.value, caplog)
        assert all(run.state in {RunState.RUNNING, RunState.WAITING} for run in await engine.runs())
        accept(sqlite_url, "operation_outputs")

        async def done() -> bool:
            return (await engine.look("one")).state is RunState.DONE

        await until(done)
        assert await engine.wait("one") == {"answer": TEXT, "number": 1}


async def test_a_record_that_cannot_be_read_is_told_by_whatever_reads_it(sqlite_url: str) -> None:
    async with open_engine(store_of(sqlite_url), {"endless": endless}, Terms(**CALM)) as engine:
        await engine.start("endless", "one", {}, here=True)
        change(sqlite_url, "ALTER TABLE workflow_status RENAME TO elsewhere")
        for work in (
            lambda: engine.look("one"),
            lambda: engine.wait("one"),
            lambda: engine.cancel("one"),
            lambda: engine.start("endless", "two", {}),
            engine.runs,
            engine.recover,
            lambda: engine.forget(timedelta(0)),
        ):
            with pytest.raises(StoreError, match="cannot be used: OperationalError"):
                await work()
        change(sqlite_url, "ALTER TABLE elsewhere RENAME TO workflow_status")
        assert (await engine.cancel("one")).state is RunState.CANCELLED


async def test_an_error_that_nobody_foresaw_ends_no_engine_and_is_logged_once(
    sqlite_url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    list_workflows = DBOS.list_workflows_async

    async def fail(**wanted: Any) -> Any:
        nonlocal asked
        if wanted.get("status") == "PENDING":
            asked += 1
            raise dbos_errors.DBOSException(TEXT)
        return await list_workflows(**wanted)

    async def asked_often() -> bool:
        return asked > 4

    async with open_engine(store_of(sqlite_url), {"echo": echo}, Terms(**CALM)) as engine:
        monkeypatch.setattr(DBOS, "list_workflows_async", fail)
        await until(asked_often)
        monkeypatch.undo()
        assert await engine.run("echo", "one", {}) == {"back": {}}
    assert [record.message for record in caplog.records] == ["the runs cannot be looked at: DBOSException"]
