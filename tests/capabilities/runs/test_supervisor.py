"""The server keeps serving skills if the run service fails to start."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from dbos import _serialization

from server.capabilities.runs import supervisor as supervision
from server.capabilities.runs.supervisor import RunsUnavailableError, RunSupervisor
from server.config.machine import current_environment
from server.config.settings.tools import OptionalTool
from server.hosting.host import Host
from skills_core.disk.sources import explicit_sources
from skills_core.errors import SkillsError
from skills_core.live.library import Library
from skills_core.runs.durable.recorded_run import StoreError
from tests.core.runs.durable.conftest import cluster
from tests.core.runs.durable.postgres import PrivateCluster
from tests.server.settings import make_settings

__all__ = ["cluster"]


@pytest.fixture
def supervisor(skills: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunSupervisor:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    settings = make_settings(model="http://127.0.0.1:9/v1#m", tools=(OptionalTool("run_skill"),))
    return RunSupervisor(Host(Library(explicit_sources([skills]), current_environment), settings))


async def error_of(supervisor: RunSupervisor) -> SkillsError:
    with anyio.fail_after(30):
        await supervisor.run()
        with pytest.raises(SkillsError) as caught:
            await supervisor.service()
    return caught.value


async def test_a_failed_import_disables_runs_only(supervisor: RunSupervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "server.capabilities.runs.factory", None)
    assert isinstance(await error_of(supervisor), RunsUnavailableError)


async def test_an_incompatible_dbos_disables_runs_only(
    supervisor: RunSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(_serialization, "DefaultSerializer")
    fault = await error_of(supervisor)
    assert isinstance(fault, StoreError)
    assert "Install dbos" in str(fault)


async def test_runs_begin_once_a_database_can_be_reached_that_was_away_at_the_start(
    cluster: PrivateCluster, skills: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(supervision, "_RETRY_SECONDS", 0.1)
    caplog.set_level(logging.INFO)
    store = cluster.new_database()
    settings = make_settings(model="http://127.0.0.1:9/v1#m", tools=(OptionalTool("run_skill"),), run_store=store)
    supervisor = RunSupervisor(Host(Library(explicit_sources([skills]), current_environment), settings))
    cluster.stop("fast")
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(supervisor.run)
            with anyio.fail_after(60), pytest.raises(RunsUnavailableError) as caught:
                await supervisor.service()
            # Clients learn what to do, and not where the database is.
            assert str(caught.value).startswith(
                "This server cannot run skills (its record of runs cannot be reached now;"
            )
            await anyio.to_thread.run_sync(cluster.start)
            with anyio.fail_after(60):
                while (service := await opened(supervisor)) is None:  # noqa: ASYNC110 - it tries again by itself
                    await anyio.sleep(0.05)
            assert service is not None
            tasks.cancel_scope.cancel()
    finally:
        if supervisor._problem:
            cluster.start()
    said = [record.getMessage() for record in caplog.records if "skills can" in record.getMessage()]
    assert [line.partition(":")[0] for line in said] == ["skills cannot be run", "skills can be run"]


async def opened(supervisor: RunSupervisor) -> object:
    try:
        return await supervisor.service()
    except RunsUnavailableError:
        return None
