"""A server without schedules and daemons share one record of runs; each performs the runs of its own kinds alone."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from server.capabilities.runs.after_run import no_follow_up
from server.capabilities.runs.factory import create_service, recording
from server.capabilities.schedules.background import ScheduledRuns
from server.capabilities.schedules.keeper import TimeKeeper
from server.capabilities.schedules.store import ScheduleStore
from server.config.machine import current_environment
from skills_core.disk.sources import explicit_sources
from skills_core.live.library import Library
from skills_core.runs.durable.engine import Engine
from skills_core.runs.durable.recorded_run import UnknownRunError
from tests.capabilities.schedules.conftest import Clock, Make
from tests.model_endpoint import Hang, ModelEndpoint
from tests.server.settings import make_settings


async def test_a_firing_that_a_daemon_left_waits_for_another_daemon(
    make: Make,
    store: ScheduleStore,
    clock: Clock,
    skills: Path,
    tmp_path: Path,
    endpoint: ModelEndpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("server.capabilities.schedules.store.state_home", lambda: store.root.parents[1])
    settings = make_settings(model=endpoint.model)
    library = Library(explicit_sources([skills]), current_environment)
    endpoint.script = [Hang(), "done"]
    name = make()

    @asynccontextmanager
    async def process(*, keeps_time: bool) -> AsyncGenerator[Engine]:
        jobs = ScheduledRuns(library, settings).jobs(no_follow_up) if keeps_time else {}
        service = create_service(library, settings)
        async with recording(service, library, settings, unattended=True, more_jobs=jobs) as engine:
            yield engine

    async with process(keeps_time=True) as daemon:
        clock.forward(hours=1)
        await TimeKeeper(store, daemon, settings, clock).tick()
        await anyio.to_thread.run_sync(endpoint.asked.wait, 60)
    running = store.read(name).running
    assert running is not None
    async with process(keeps_time=False) as server:
        assert await server.recover() == 0
        with pytest.raises(UnknownRunError):
            await server.get(running.id)
    assert len(endpoint.requests) == 1
    async with process(keeps_time=True) as daemon:
        await daemon.recover()
        assert (await daemon.wait(running.id))["output"] == "done"
        await TimeKeeper(store, daemon, settings, clock).tick()
    assert [run.status for run in store.read(name).runs] == ["completed"]
