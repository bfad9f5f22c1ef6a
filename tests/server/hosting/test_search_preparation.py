"""Skills are indexed before anyone searches, and a search does not wait for the politeness of that."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

import anyio
import anyio.to_thread
import pytest

from server.config.machine import current_environment
from server.hosting import background
from server.hosting.background import Background, SearchPreparation
from server.hosting.host import Host
from server.hosting.views import View
from skills_core.disk.sources import explicit_sources
from skills_core.live.library import Library
from skills_core.live.watch_options import WatchMode
from skills_core.selection.ranking import SkillSearch
from tests.server.settings import make_settings


def write(root: Path, name: str) -> None:
    (root / name).mkdir()
    (root / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {name}\n---\nDo it.\n")


@pytest.mark.parametrize("rest", [0, 10**6])
async def test_skills_are_indexed_after_each_change_and_compared_after_a_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rest: int
) -> None:
    monkeypatch.setattr(background, "_FIRST_SECONDS", 0)
    monkeypatch.setattr(background, "_REST", rest)
    prepared: list[tuple[str, int]] = []
    arrived = threading.Semaphore(0)
    prepare = View.prepare_search

    def noted(view: View, pause: Callable[[], None], *, compare: bool) -> None:
        prepare(view, pause, compare=compare)
        prepared.append(("compared" if compare else "indexed", len(view.catalog.offered)))
        arrived.release()

    async def arrive(count: int) -> None:
        for _ in range(count):
            assert await anyio.to_thread.run_sync(arrived.acquire, True, 30)

    monkeypatch.setattr(View, "prepare_search", noted)
    write(tmp_path, "one")
    host = Host(Library(explicit_sources([tmp_path]), current_environment), make_settings(watch=WatchMode.OFF))
    steps = ["indexed"] if rest else ["indexed", "compared"]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.work)
        await arrive(2)
        for name in ("two", "three"):
            write(tmp_path, name)
            await host.reload()
            await arrive(len(steps))
        # Else the search would keep what a touched skill was before in memory.
        os.utime(tmp_path / "one" / "SKILL.md", (1, 1))
        await host.reload()
        await arrive(len(steps))
        tasks.cancel_scope.cancel()
    assert prepared == [("indexed", 1), ("compared", 1), *((step, count) for count in (2, 3, 3) for step in steps)]


class Prepared:
    """Stands in for a view, and notes each preparation."""

    def __init__(self) -> None:
        self.compared: list[bool] = []
        self._arrived = threading.Semaphore(0)

    def prepare_search(self, _: Callable[[], None], *, compare: bool) -> None:
        self.compared.append(compare)
        self._arrived.release()

    async def arrive(self) -> None:
        assert await anyio.to_thread.run_sync(self._arrived.acquire, True, 30)


async def nothing(_: View) -> None: ...


class Loading:
    """Stands in for a load; `asked` is set each time the preparation asks whether it has ended."""

    def __init__(self) -> None:
        self.has_ended = False
        self.asked = anyio.Event()

    def is_whole(self) -> bool:
        self.asked.set()
        return self.has_ended


async def test_skills_are_indexed_and_compared_when_all_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_FIRST_SECONDS", 0)
    view, load = Prepared(), Loading()
    preparation = SearchPreparation(lambda: [cast("View", view)], nothing, Background(), load.is_whole)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(preparation.run)
        for _ in range(3):
            # Of each turn, the next begins only when it is over.
            await load.asked.wait()
            load.asked = anyio.Event()
            preparation.refresh()
        assert view.compared == []
        load.has_ended = True
        preparation.refresh()
        await view.arrive()
        await view.arrive()
        tasks.cancel_scope.cancel()
    assert view.compared == [False, True]


async def test_a_search_that_leaves_out_skills_has_them_indexed_while_others_are_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background, "_FIRST_SECONDS", 0)
    view, load = Prepared(), Loading()
    preparation = SearchPreparation(lambda: [cast("View", view)], nothing, Background(), load.is_whole)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(preparation.run)
        await load.asked.wait()
        preparation.ask()
        await view.arrive()
        preparation.refresh()
        await view.arrive()
        tasks.cancel_scope.cancel()
    assert view.compared == [False, False]


@pytest.mark.parametrize("is_long", [True, False])
async def test_memory_is_given_back_after_a_long_comparison(monkeypatch: pytest.MonkeyPatch, *, is_long: bool) -> None:
    monkeypatch.setattr(background, "_FIRST_SECONDS", 0)
    monkeypatch.setattr(background, "_LONG_SECONDS", -1 if is_long else 10**6)
    monkeypatch.setattr(background, "_REST", 10**6)
    given: list[bool] = []
    monkeypatch.setattr(
        background, "give_back_memory", lambda: given.append(threading.current_thread() is threading.main_thread())
    )
    view = Prepared()
    preparation = SearchPreparation(lambda: [cast("View", view)], nothing, Background(), lambda: True)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(preparation.run)
        await view.arrive()
        await view.arrive()
        # What follows the comparison comes before a change is indexed.
        preparation.refresh()
        await view.arrive()
        tasks.cancel_scope.cancel()
    assert view.compared == [False, True, False]
    assert given == [False] * is_long


def test_a_search_answers_while_the_preparation_pauses(tmp_path: Path) -> None:
    for number in range(20):
        write(tmp_path, f"skill-{number}")
    skills = Library(explicit_sources([tmp_path]), current_environment).catalog.offered
    search, pausing, searched = SkillSearch(), threading.Event(), threading.Event()

    def pause() -> None:
        pausing.set()
        searched.wait(30)

    thread = threading.Thread(target=search.warm, args=(skills, pause))
    thread.start()
    assert pausing.wait(30)
    assert search.select(skills, "skill 7")
    searched.set()
    thread.join()


def test_a_preparation_that_is_stopped_leaves_a_search_that_works(tmp_path: Path) -> None:
    for number in range(20):
        write(tmp_path, f"skill-{number}")
    skills = Library(explicit_sources([tmp_path]), current_environment).catalog.offered
    search = SkillSearch()

    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        search.warm(skills, stop)
    assert search.select(skills, "skill 7")[0].skill.name == "skill-7"
