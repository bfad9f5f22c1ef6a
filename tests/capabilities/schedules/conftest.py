from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dbos", reason="the extra `run` is not installed")

from server.capabilities.schedules.allowances import RunRights
from server.capabilities.schedules.binding import new_binding
from server.capabilities.schedules.firing import KIND
from server.capabilities.schedules.keeper import TimeKeeper
from server.capabilities.schedules.store import ScheduleStore
from skills_core.runs.durable.engine import open_engine
from skills_core.runs.durable.recorded_run import WorkerConfig
from skills_core.runs.durable.store import SqliteStore
from skills_core.schedules.when import Every, When
from tests.server.settings import make_settings

START = datetime(2026, 11, 23, 9, 0, tzinfo=UTC)


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def forward(self, **span: float) -> datetime:
        self.now += timedelta(**span)
        return self.now


Make = Callable[..., str]
Keep = Callable[..., contextlib.AbstractAsyncContextManager[TimeKeeper]]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path) -> ScheduleStore:
    return ScheduleStore(tmp_path / "state")


@pytest.fixture
def make(store: ScheduleStore, clock: Clock) -> Make:
    def made(when: When | None = None, short: str = "hello", task: str = "Say hello.", **more: Any) -> str:
        given: dict[str, Any] = {"zone": "UTC", "rights": RunRights(), "creator": "test", **more}
        binding = new_binding(when or Every(timedelta(hours=1), clock.now), now=clock.now, **given)
        return store.add(short, task, binding)

    return made


@pytest.fixture
def keep(store: ScheduleStore, clock: Clock, tmp_path: Path) -> Keep:
    """Open an engine whose job is a function of the test, and a time keeper on it."""

    @contextlib.asynccontextmanager
    async def opened(job: Any, **settings: Any) -> AsyncGenerator[TimeKeeper]:
        config = WorkerConfig(pool="schedule-tests")
        async with open_engine(SqliteStore(tmp_path / "runs.sqlite"), {KIND: job}, config) as engine:
            yield TimeKeeper(store, engine, make_settings(**settings), clock)

    return opened
