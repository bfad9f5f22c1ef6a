"""The server keeps serving skills if the run service fails to start."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest
from dbos import _serialization

from server.config.machine import current_environment
from server.config.settings import OptionalTool
from server.hosting.host import Host
from server.run.supervisor import RunsUnavailableError, RunSupervisor
from skills_core.errors import SkillsError
from skills_core.library import Library
from skills_core.run.durable.errors import StoreError
from skills_core.sources import explicit_sources
from tests.server.settings import make_settings


@pytest.fixture
def supervisor(skills: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunSupervisor:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    settings = make_settings(model="http://127.0.0.1:9/v1#m", tools=(OptionalTool.RUN_SKILL,))
    return RunSupervisor(Host(Library(explicit_sources([skills]), current_environment), settings))


async def error_of(supervisor: RunSupervisor) -> SkillsError:
    with anyio.fail_after(30):
        await supervisor.run()
        with pytest.raises(SkillsError) as caught:
            await supervisor.service()
    return caught.value


async def test_a_failed_import_disables_runs_only(supervisor: RunSupervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "server.run.factory", None)
    assert isinstance(await error_of(supervisor), RunsUnavailableError)


async def test_an_incompatible_dbos_disables_runs_only(
    supervisor: RunSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(_serialization, "DefaultSerializer")
    fault = await error_of(supervisor)
    assert isinstance(fault, StoreError)
    assert "Install dbos" in str(fault)
