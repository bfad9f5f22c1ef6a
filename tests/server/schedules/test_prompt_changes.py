"""Clients are notified of changed prompts `sched-NAME`, whichever process changes them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import anyio
import pytest

from server.config.machine import current_environment
from server.hosting.host import Host
from server.protocol.schedule_prompts import announce_schedules
from server.protocol.server import SkillServer
from server.schedules.store import ScheduleStore
from server.schedules.transitions import paused
from skills_core.library import Library
from skills_core.sources import explicit_sources
from skills_core.watch_options import WatchOptions
from skills_core.watcher import watch
from tests.conftest import MakeSkill
from tests.server.schedules.conftest import Make
from tests.server.sessions import Era, Session, open_session
from tests.server.settings import make_settings


async def prompts(session: Session) -> list[str]:
    return [each.name for each in (await session.client.list_prompts()).prompts]


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_clients_are_notified_of_schedules_that_other_processes_change(
    era: Era,
    store: ScheduleStore,
    make: Make,
    make_skill: MakeSkill,
    skills: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("server.schedules.store.state_home", lambda: store.root.parents[1])
    make_skill("zebra")
    watching = anyio.Event()

    async def noted(roots: Sequence[Path], options: WatchOptions) -> AsyncGenerator[frozenset[Path] | None]:
        async for changed in watch(roots, options):
            watching.set()
            yield changed

    monkeypatch.setattr("server.protocol.schedule_prompts.watch", noted)
    host = Host(Library(explicit_sources([skills]), current_environment), make_settings(schedules=True))
    async with anyio.create_task_group() as tasks, open_session(SkillServer(host, local=True), era) as session:
        tasks.start_soon(announce_schedules, host)
        await watching.wait()
        name = make()
        await session.until_told("prompts")
        assert (await prompts(session))[-1] == f"sched-{name}"
        # A paused schedule keeps its prompt, so this is not announced.
        store.update(name, paused)
        store.remove(name)
        await session.until_all_told(["prompts"], 2)
        assert not any(each.startswith("sched-") for each in await prompts(session))
        assert session.told == ["prompts", "prompts"]
        tasks.cancel_scope.cancel()
