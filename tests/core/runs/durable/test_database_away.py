"""While the database is away, every call of an engine fails soon and says why, and nothing is started unnoticed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest

from skills_core.runs.durable import engine as engines
from skills_core.runs.durable.engine import Engine, open_engine
from skills_core.runs.durable.postgres import BoundedConnection, connect
from skills_core.runs.durable.recorded_run import RunState, StoreError, StoreUnreachableError, WorkerConfig
from skills_core.runs.durable.store import PostgresStore, store_of
from tests.core.runs.durable.conftest import CALM, QUICK
from tests.core.runs.durable.jobs import KINDS, lines
from tests.core.runs.durable.postgres import Away, PrivateCluster

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")]

PATIENCE = 60.0
MAX_THREADS = 32
AWAY = ["stopped", "suspended"]

Calls = dict[str, Callable[[Engine], Any]]
CALLS: Calls = {
    "start": lambda engine: engine.start("chain", "late", {"folder": "", "seed": 0}, here=True),
    "enqueue": lambda engine: engine.start("chain", "queued", {"folder": "", "seed": 0}),
    "wait": lambda engine: engine.wait("held"),
    "get": lambda engine: engine.get("held"),
    "runs": lambda engine: engine.runs(),
    "cancel": lambda engine: engine.cancel("held"),
    "foreign": lambda engine: engine.foreign_runs(),
}


def test_a_connection_gives_up_a_server_that_accepts_and_does_not_answer(
    own_cluster: PrivateCluster, away: Away
) -> None:
    store = PostgresStore(own_cluster.new_database())
    with connect(store, "skillserve test", 0.3) as connection:
        away.go("suspended")
        with pytest.raises(psycopg.OperationalError, match="no answer within"):
            connection.execute("SELECT 1")
        assert connection.closed
        with pytest.raises(psycopg.OperationalError):
            connect(store, "skillserve test", 0.3)


def test_a_connection_waits_longer_for_notifications_than_for_answers(own_cluster: PrivateCluster) -> None:
    url = own_cluster.new_database()
    listener: BoundedConnection = connect(PostgresStore(url), "skillserve test", 0.2)
    with listener, psycopg.connect(url, autocommit=True) as other:
        listener.execute("LISTEN news")
        timer = threading.Timer(1.0, lambda: other.execute("NOTIFY news, 'here'"))
        timer.start()
        assert next(iter(listener.notifies())).payload == "here"
        timer.join()


@pytest.mark.parametrize("how", AWAY)
async def test_every_call_fails_at_once_while_the_heartbeat_knows_that_the_database_is_away(
    own_cluster: PrivateCluster, away: Away, effects: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(engines, "ANSWER_SECONDS", PATIENCE)
    store = store_of(own_cluster.new_database())
    async with open_engine(store, KINDS, WorkerConfig(**QUICK)) as engine:
        await engine.start("chain", "held", {"folder": str(effects), "seed": 0, "hold_at": 0}, here=True)
        away.go(how)
        await until_known(engine)
        # Its claim is gone by then or soon, so that not even a caller who waits is kept.
        for name, call in CALLS.items():
            with pytest.raises(StoreError) as caught, anyio.fail_after(PATIENCE / 4):
                await call(engine)
            assert store.place in str(caught.value), name
            assert "PostgreSQL runs there" in str(caught.value), name
        away.back()
        await until_back(engine)
        (effects / "go").touch()
        with anyio.fail_after(PATIENCE):
            await outcome_of_continued(engine, "held")
        assert {run.run_id for run in await engine.runs()} == {"held"}


@pytest.mark.parametrize("how", AWAY)
async def test_a_call_under_way_when_the_database_goes_away_is_bounded(
    own_cluster: PrivateCluster, away: Away, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(engines, "ANSWER_SECONDS", 0.2)
    store = store_of(own_cluster.new_database())
    async with open_engine(store, KINDS, WorkerConfig(**CALM | {"beat_seconds": 40.0})) as engine:
        before = threading.active_count()
        away.go(how)
        for _ in range(50):
            with pytest.raises(StoreUnreachableError, match="cannot be"):
                await engine.runs()
        # Each abandoned call may hold a thread for a while, but not without limit.
        assert threading.active_count() - before <= MAX_THREADS + 2
        away.back()


async def test_a_run_whose_caller_was_told_that_it_does_not_start_is_cancelled_when_its_record_appears(
    own_cluster: PrivateCluster, away: Away, effects: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(own_cluster.new_database())
    async with open_engine(store, KINDS, WorkerConfig(**CALM)) as engine:
        monkeypatch.setattr(engines, "ANSWER_SECONDS", 0.3)
        away.go("suspended")
        with pytest.raises(StoreUnreachableError):
            await engine.start("chain", "late", {"folder": str(effects), "seed": 0}, here=True)
        monkeypatch.setattr(engines, "ANSWER_SECONDS", PATIENCE)
        away.back()  # the statement that the server received before is carried out now
        await until_back(engine)
        with anyio.fail_after(PATIENCE):
            while not (found := await engine.runs()) or found[0].state is not RunState.CANCELLED:  # noqa: ASYNC110
                await anyio.sleep(0.05)
        # Asked for again, it is a run that was cancelled, and nothing of it was done.
        assert lines(effects) == []


async def until_known(engine: Engine) -> None:
    with anyio.fail_after(PATIENCE):
        while True:
            try:
                engine._heartbeat.ensure_reachable()
            except StoreUnreachableError:
                return
            await anyio.sleep(0.05)


async def until_back(engine: Engine) -> None:
    with anyio.fail_after(PATIENCE):
        while True:
            try:
                engine._heartbeat.ensure_reachable()
                await engine.runs()
            except StoreError:
                await anyio.sleep(0.05)
            else:
                return


async def outcome_of_continued(engine: Engine, run_id: str) -> object:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            return await engine.wait(run_id)
        except StoreError:
            await anyio.sleep(0.05)
    raise AssertionError("the run is not continued")
