"""A reload that changes many skills notifies like one that changes few, and requests are answered meanwhile."""

from __future__ import annotations

import os
import shutil
import threading
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest
from mcp.server.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)

from server.config.machine import current_environment
from server.hosting import host as hosting
from server.hosting import views
from server.hosting.host import Host
from server.hosting.views import COMMON_VIEW
from server.listing.snapshot import Snapshot
from skills_core import Library, explicit_sources
from skills_core.live.library import Change
from tests.server.settings import make_settings

if TYPE_CHECKING:
    from pathlib import Path

    from server.listing.layout import ListingLayout
    from skills_core.catalog.catalog import Catalog
    from tests.conftest import MakeSkill


def host_of(skills: Path) -> Host:
    return Host(Library(explicit_sources([skills]), current_environment), make_settings())


@pytest.mark.parametrize("count", [1, 50, 51, 120])
async def test_each_changed_skill_is_told_once(skills: Path, make_skill: MakeSkill, count: int) -> None:
    names = [f"skill-{number}" for number in range(count)]
    for name in (*names, "other"):
        make_skill(name, "old")
    host = host_of(skills)
    told: list[ServerEvent] = []
    host.feed(COMMON_VIEW).subscribe(told.append)
    for name in names:
        make_skill(name, "new")
    change = await host.reload()
    assert change.size == count
    updated = sorted(event.uri for event in told if isinstance(event, ResourceUpdated) and "://skill-" in event.uri)
    assert updated == sorted(f"skill://{name}/SKILL.md" for name in names)
    for kind in (ToolsListChanged, PromptsListChanged, ResourcesListChanged):
        assert sum(isinstance(event, kind) for event in told) == 1
    assert {skill.description for skill in host.view_called(COMMON_VIEW).catalog.active} == {"old", "new"}


async def test_a_skill_that_comes_or_goes_is_told_before_any_list_is_built(skills: Path, make_skill: MakeSkill) -> None:
    for name in ("other", "another"):
        make_skill(name)
    host = host_of(skills)
    told: list[ServerEvent] = []
    host.feed(COMMON_VIEW).subscribe(told.append)
    for change in (lambda: make_skill("new"), lambda: shutil.rmtree(skills / "another")):
        view = host.view_called(COMMON_VIEW)
        view.tools(view.default_layout)
        change()
        await host.reload()
        assert ToolsListChanged() in told
        assert not host.view_called(COMMON_VIEW).built_layouts
        told.clear()


async def test_requests_are_answered_while_lists_of_many_skills_are_compared(
    skills: Path, make_skill: MakeSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("some", "other"):
        make_skill(name, "old")
    host = host_of(skills)
    told: list[ServerEvent] = []
    host.feed(COMMON_VIEW).subscribe(told.append)
    monkeypatch.setattr(views, "_SMALL", 1)
    threads: list[int] = []
    build = Snapshot.tools

    def noted(snapshot: Snapshot, layout: ListingLayout) -> dict[str, Any]:
        threads.append(threading.get_ident())
        return build(snapshot, layout)

    monkeypatch.setattr(Snapshot, "tools", noted)
    make_skill("other", "new")
    await host.reload()
    assert ToolsListChanged() in told
    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("count", [0, 1, 5, 40])
@pytest.mark.parametrize("length", [5, 64])
def test_the_list_for_unknown_clients_differs_with_the_number_of_skills(
    skills: Path, make_skill: MakeSkill, count: int, length: int
) -> None:
    for number in range(count):
        make_skill(f"s{number}".ljust(length, "x"))
    # The smallest budget has no room for most of them.
    settings = make_settings(catalog_budget=500)
    library = Library(explicit_sources([skills]), current_environment)
    before = Snapshot(library.catalog, settings)
    make_skill("z".ljust(length, "z"))
    library.reload()
    after = Snapshot(library.catalog, settings)
    assert before.tools(before.default_layout) != after.tools(after.default_layout)


async def test_requests_are_answered_until_a_change_is_loaded(
    skills: Path, make_skill: MakeSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go = threading.Event(), threading.Event()
    make_skill("one", "old")
    host = host_of(skills)
    reload = host.library.reload

    def slow(*args: Any) -> Change:
        change = reload(*args)
        began.set()
        assert go.wait(60)
        return change

    monkeypatch.setattr(host.library, "reload", slow)
    before = host.view_called(COMMON_VIEW)
    make_skill("one", "new")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.reload)
        await anyio.to_thread.run_sync(began.wait, 60)
        assert host.view_called(COMMON_VIEW) is before
        go.set()
    (skill,) = host.view_called(COMMON_VIEW).catalog.active
    assert skill.description == "new"


async def test_clients_are_told_of_a_change_before_it_is_logged(
    skills: Path, make_skill: MakeSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go = threading.Event(), threading.Event()

    def log(_: Change) -> None:
        began.set()
        assert go.wait(60)

    monkeypatch.setattr(hosting, "log_change", log)
    make_skill("one", "old")
    host, told = host_of(skills), list[ServerEvent]()
    host.feed(COMMON_VIEW).subscribe(told.append)
    make_skill("one", "new")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.reload)
        await anyio.to_thread.run_sync(began.wait, 60)
        assert ResourceUpdated("skill://one/SKILL.md") in told
        go.set()


@pytest.mark.parametrize("count", [49, 60, 230])
async def test_people_see_how_many_skills_changed(skills: Path, make_skill: MakeSkill, count: int) -> None:
    host = host_of(skills)
    for number in range(count):
        make_skill(f"skill-{number}")
    await host.reload()
    texts = [event.text for event in host.activity.events]
    shown = [text for text in texts if text.endswith(" added")]
    rest = [text for text in texts if text.endswith(" more changes of skills")]
    assert len(shown) == min(count, 50)
    assert rest == ([f"and {count - 50} more changes of skills"] if count > 50 else [])


async def test_catalogs_of_touched_files_are_not_compared_on_the_event_loop(
    skills: Path, make_skill: MakeSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill("one", "as it was")
    host = host_of(skills)
    host.feed(COMMON_VIEW).subscribe(lambda _: None)
    before, threads = host.everything, set[int]()

    def compared(before: Catalog, after: Catalog) -> Change:
        threads.add(threading.get_ident())
        return between(before, after)

    between = Change.between
    monkeypatch.setattr(Change, "between", compared)
    os.utime(skills / "one" / "SKILL.md", (1, 1))
    assert not await host.reload()
    # Equal, and yet another catalog: the fingerprints of files are newer.
    assert host.everything is not before
    assert host.view_called(COMMON_VIEW).catalog is host.everything
    assert threads - {threading.get_ident()}
    assert threading.get_ident() not in threads
