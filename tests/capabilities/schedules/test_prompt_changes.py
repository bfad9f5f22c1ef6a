"""Clients are notified of changed prompts `sched-NAME`, whichever process changes them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from server.capabilities.schedules.allowances import ScheduleError
from server.capabilities.schedules.binding import paused
from server.capabilities.schedules.prompts import SchedulePrompts
from server.capabilities.schedules.store import ScheduleStore
from server.config.machine import current_environment
from server.hosting.host import Host
from server.protocol.early_answers import EarlyAnswers
from server.protocol.server import SkillServer
from skills_core.disk.sources import explicit_sources
from skills_core.live.library import Library
from skills_core.live.watch_options import WatchMode, WatchOptions
from skills_core.live.watcher import watch
from tests.capabilities.schedules.conftest import Make
from tests.conftest import MakeSkill
from tests.server.cli.test_cli import run
from tests.server.openings import INITIALIZED, Message, envelope, initialize, line_of, request, served
from tests.server.sessions import Connect, Era, Session, open_session
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
    monkeypatch.setattr("server.capabilities.schedules.store.state_home", lambda: store.root.parents[1])
    make_skill("zebra")
    watching = anyio.Event()

    async def noted(roots: Sequence[Path], options: WatchOptions) -> AsyncGenerator[frozenset[Path] | None]:
        async for changed in watch(roots, options):
            watching.set()
            yield changed

    monkeypatch.setattr("skills_core.live.watcher.watch", noted)
    host = Host(Library(explicit_sources([skills]), current_environment), make_settings(schedules=True))
    server = SkillServer(host, local=True)
    async with anyio.create_task_group() as tasks, open_session(server, era) as session:
        tasks.start_soon(host.service(SchedulePrompts).announce)
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


LISTING: dict[Era, list[Message]] = {
    "handshake": [initialize("any", "2025-11-25", {}), INITIALIZED, request(2, "prompts/list")],
    "modern": [request(2, "prompts/list", {"_meta": envelope("any", {})})],
}


@pytest.fixture
def host(store: ScheduleStore, make_skill: MakeSkill, skills: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """Return the host of three skills and of the schedules in `store`, with pages of two entries."""
    monkeypatch.setattr("server.capabilities.schedules.store.state_home", lambda: store.root.parents[1])
    for name in ("ant", "bee", "cat"):
        make_skill(name)
    return Host(
        Library(explicit_sources([skills]), current_environment),
        make_settings(schedules=True, page_size=2, watch=WatchMode.OFF),
    )


@pytest.mark.parametrize("era", ["handshake", "modern"])
def test_the_first_page_of_the_first_answer_has_the_schedules(era: Era, host: Host, make: Make) -> None:
    name = make()
    answers = EarlyAnswers(host)
    early = [answers.answer(line_of(message)) for message in LISTING[era]][-1]
    assert early is not None
    told = json.loads(early.to_client)
    assert [each["name"] for each in told["result"]["prompts"]] == ["ant", "bee", f"sched-{name}"]
    assert [each for each in served(host, map(line_of, LISTING[era])) if each.get("id") == 2] == [told]


async def test_a_schedule_is_on_the_first_page_alone(host: Host, make: Make) -> None:
    make()
    async with open_session(SkillServer(host, local=True), "modern") as session:
        first = await session.client.list_prompts()
        second = await session.client.list_prompts(cursor=first.next_cursor)
    assert [each.name for each in second.prompts] == ["cat", "with_skills"]


async def test_a_change_since_the_first_answer_is_announced_even_if_skills_are_not_watched(
    host: Host, make: Make
) -> None:
    answers = EarlyAnswers(host)
    assert answers.answer(line_of(LISTING["modern"][0])) is not None
    # Another process makes one before this one watches.
    make()
    server = SkillServer(host, local=True)
    async with anyio.create_task_group() as tasks, open_session(server, "handshake") as session:
        tasks.start_soon(host.service(SchedulePrompts).announce)
        await session.until_told("prompts")
        tasks.cancel_scope.cancel()


async def test_schedules_that_cannot_be_read_now_stay_listed(
    host: Host, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = make()

    def unreadable(_: ScheduleStore) -> tuple[str, ...]:
        raise ScheduleError("schedules cannot be read")

    async with open_session(SkillServer(host, local=True), "modern") as session:
        before = await prompts(session)
        monkeypatch.setattr(ScheduleStore, "names", unreadable)
        assert await prompts(session) == before
    assert before[-1] == f"sched-{name}"


async def test_a_skill_of_the_name_of_such_a_prompt_takes_its_place(
    host: Host, make: Make, make_skill: MakeSkill
) -> None:
    folder = make_skill(f"sched-{make()}")
    await host.reload([folder])
    async with open_session(SkillServer(host, local=True), "modern") as session:
        names = [each.name for each in (await session.client.list_prompts()).prompts]
    assert not any(each.startswith("sched-") for each in names)


@pytest.mark.every_way
async def test_the_first_list_has_a_schedule_and_a_command_that_makes_the_next_one_is_announced(
    connect: Connect, make_skill: MakeSkill, tmp_path: Path
) -> None:
    make_skill("zebra")
    state = {"XDG_STATE_HOME": str(tmp_path / "home")}

    async def add(name: str) -> None:
        options = ("schedule", "add", name, "--every", "2h", "--task", "Say hello.", "--model", "anthropic:x")
        done = await anyio.to_thread.run_sync(partial(run, *options, **state))
        assert done.returncode == 0, done.stderr

    await add("first")
    async with connect(**state, SKILLSERVE_SCHEDULES="true") as session:
        assert (await prompts(session))[-1].startswith("sched-first-")
        await add("second")
        await session.until_told("prompts")
        assert (await prompts(session))[-1].startswith("sched-second-")
