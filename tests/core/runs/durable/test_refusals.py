"""Errors of the database: their messages, and their effect on runs."""

from __future__ import annotations

import logging
import re
import sqlite3
import traceback
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from dbos import DBOS
from dbos import error as dbos_errors
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skills_core.runs.durable.engine import Engine, open_engine
from skills_core.runs.durable.postgres import PostgresLease
from skills_core.runs.durable.recorded_run import RunState, StoreError, WorkerConfig
from skills_core.runs.durable.store import require_private, store_of
from tests.core.runs.durable.conftest import CALM, QUICK
from tests.core.runs.durable.postgres import PrivateCluster
from tests.core.runs.durable.test_engine import echo, endless, until
from tests.thoroughness import examples

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
    async with open_engine(store_of(sqlite_url), {"echo": echo}, WorkerConfig(**CALM)) as engine:
        refuse(sqlite_url, "workflow_status")
        for here in (True, False):
            with pytest.raises(StoreError, match="IntegrityError") as caught:
                await engine.start("echo", "one", {"message": TEXT}, here=here)
            assert TEXT not in all_of(caught.value, caplog)


@pytest.mark.parametrize("kind", ["careless", "outer"])
async def test_a_run_whose_step_cannot_be_recorded_raises_and_is_continued_later(
    sqlite_url: str, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    caplog.set_level(logging.INFO)
    engine: Engine

    async def outer(journal: Any, given: Any) -> Any:
        async def work() -> Any:
            return await engine.run_nested(journal.run_id, "0", "careless", given)

        return await journal.step("outer", work)

    kinds = {"careless": careless, "outer": outer}
    async with open_engine(store_of(sqlite_url), kinds, WorkerConfig(**QUICK)) as engine:
        refuse(sqlite_url, "operation_outputs")
        with pytest.raises(StoreError, match=r"IntegrityError\. The run is continued later") as caught:
            await engine.run(kind, "one", {"number": 1}, here=True)
        assert TEXT not in all_of(caught.value, caplog)
        assert all(run.state in {RunState.RUNNING, RunState.WAITING} for run in await engine.runs())
        accept(sqlite_url, "operation_outputs")

        async def done() -> bool:
            return (await engine.get("one")).state is RunState.DONE

        await until(done)
        assert await engine.wait("one") == {"answer": TEXT, "number": 1}


async def test_an_unreadable_record_raises_in_every_reader(sqlite_url: str) -> None:
    async with open_engine(store_of(sqlite_url), {"endless": endless}, WorkerConfig(**CALM)) as engine:
        await engine.start("endless", "one", {}, here=True)
        change(sqlite_url, "ALTER TABLE workflow_status RENAME TO elsewhere")
        for work in (
            lambda: engine.get("one"),
            lambda: engine.wait("one"),
            lambda: engine.cancel("one"),
            lambda: engine.start("endless", "two", {}),
            engine.runs,
            engine.recover,
            lambda: engine.delete_finished(timedelta(0)),
        ):
            with pytest.raises(StoreError, match="cannot be used: OperationalError"):
                await work()
        change(sqlite_url, "ALTER TABLE elsewhere RENAME TO workflow_status")
        assert (await engine.cancel("one")).state is RunState.CANCELLED


def make_folder(path: Path) -> None:
    path.mkdir(parents=True)


def write_prose(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text("my notes\n" * 200)


def lose_a_table(path: Path) -> None:
    require_private(path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE dbos_migrations (version INTEGER NOT NULL PRIMARY KEY)")
        database.execute("INSERT INTO dbos_migrations VALUES (1000)")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [(make_folder, "directory"), (write_prose, "not a SQLite database"), (lose_a_table, "lacks a table")],
)
async def test_a_file_that_cannot_be_used_is_named_with_the_reason(
    sqlite_url: str, damage: Callable[[Path], None], reason: str
) -> None:
    damage(Path(sqlite_url))
    with pytest.raises(StoreError) as caught:
        async with open_engine(store_of(sqlite_url), {"echo": echo}, WorkerConfig(**CALM)) as engine:
            await engine.run("echo", "one", {})
    assert sqlite_url in str(caught.value)
    assert reason in str(caught.value).lower() or reason in str(caught.value)


PASSWORD = st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S"]), min_size=8, max_size=20)


@settings(max_examples=examples(30), deadline=None)
@given(PASSWORD, st.booleans())
@example("se%zzcret-word", False)
@example("sec/ret-word-9", False)
@example("secret:5@h/55555", False)
@example("0000000?", False)
@example("00000%80", False)
def test_a_postgresql_that_cannot_be_reached_is_named_without_its_password(password: str, escaped: bool) -> None:  # noqa: FBT001
    written = quote(password, safe="") if escaped else password
    with pytest.raises(StoreError) as caught:
        PostgresLease(f"postgresql://me:{written}@127.0.0.1:1/runs", 15)
    said = str(caught.value)
    assert "127.0.0.1" in said or "cannot be read" in said
    assert not [part for part in (password, *re.split(r"[/:@?#%]", password)) if len(part) > 6 and part in said]


async def test_a_database_that_is_not_there_is_named_with_the_reason(cluster: PrivateCluster) -> None:
    url = cluster.url("nowhere").replace("postgres@", "postgres:secret-word@")
    with pytest.raises(StoreError) as caught:
        async with open_engine(store_of(url), {"echo": echo}, WorkerConfig(**CALM)):
            pass
    assert 'database "nowhere" does not exist' in str(caught.value)
    assert "/nowhere (host=/tmp/" in str(caught.value)
    assert "secret-word" not in str(caught.value)


async def test_an_unexpected_error_does_not_end_the_engine_and_is_logged_once(
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

    async with open_engine(store_of(sqlite_url), {"echo": echo}, WorkerConfig(**CALM)) as engine:
        monkeypatch.setattr(DBOS, "list_workflows_async", fail)
        await until(asked_often)
        monkeypatch.undo()
        assert await engine.run("echo", "one", {}) == {"back": {}}
    assert [record.message for record in caplog.records] == ["the recorded runs cannot be checked: DBOSException"]
