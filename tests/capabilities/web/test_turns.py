"""Pages are made in few worker threads and not on the event loop, so that clients do not wait for them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from server.capabilities.web.catalog_page import CatalogChoice, SkillList
from server.html import environment
from tests.capabilities.web.test_catalog import HTML
from tests.conftest import MakeSkill
from tests.server.serving import serving, until


@contextmanager
def pages_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Keep all pages of the list from an end within the block; the value has one entry for each that has begun."""
    released, begun, find = threading.Event(), list[int](), SkillList.find

    def kept(self: SkillList, *given: Any) -> Any:
        begun.append(threading.get_ident())
        released.wait(60)
        return find(self, *given)

    monkeypatch.setattr(SkillList, "find", kept)
    try:
        yield begun
    finally:
        released.set()


def pages_asked_for(monkeypatch: pytest.MonkeyPatch, number: int) -> anyio.Event:
    """Return an event that is set when the last of this number of pages of the list is about to be made."""
    left, all_asked, parse = iter(range(number - 1)), anyio.Event(), CatalogChoice.parse

    def noted(query: Mapping[str, str]) -> CatalogChoice:
        if next(left, None) is None:
            all_asked.set()
        return parse(query)

    monkeypatch.setattr(CatalogChoice, "parse", noted)
    return all_asked


async def first_of(entries: Sequence[object]) -> None:
    """Wait for the first entry."""

    async def is_there() -> bool:
        return bool(entries)

    await until(is_there)


async def test_slow_pages_leave_worker_threads_to_clients(
    skills: Path, make_skill: MakeSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill("one")
    async with serving(skills) as served, anyio.create_task_group() as tasks:
        threads = int(anyio.to_thread.current_default_thread_limiter().total_tokens)
        all_asked = pages_asked_for(monkeypatch, threads + 1)
        with pages_kept(monkeypatch):
            for _ in range(threads + 1):
                tasks.start_soon(lambda: served.client.get(served.at("/"), headers=HTML))
            await all_asked.wait()
            with anyio.fail_after(30):
                assert await anyio.to_thread.run_sync(lambda: "done") == "done"


async def test_too_many_waiting_pages_are_told_to_come_again(
    skills: Path, make_skill: MakeSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill("one")
    monkeypatch.setattr("server.capabilities.web.part.MAX_WAITING", 1)
    answers: list[int] = []
    async with serving(skills) as served:

        async def ask() -> None:
            answer = await served.client.get(served.at("/"), headers=HTML)
            answers.append(answer.status_code)
            assert answer.status_code == 200 or answer.headers["retry-after"]

        async with anyio.create_task_group() as tasks:
            with pages_kept(monkeypatch):
                for _ in range(10):
                    tasks.start_soon(ask)
                await first_of(answers)
    assert {*answers} == {200, 503}


@pytest.mark.parametrize(
    ("site", "mode", "target", "status"),
    [
        ("cross-site", "no-cors", "image", 403),
        ("same-site", "no-cors", "script", 403),
        ("cross-site", "navigate", "iframe", 403),
        ("same-site", "cors", "empty", 403),
        ("cross-site", "navigate", "document", 200),
        ("same-origin", "cors", "empty", 200),
        ("none", "navigate", "document", 200),
    ],
)
async def test_no_page_is_made_for_a_part_of_another_site(
    two: Path, monkeypatch: pytest.MonkeyPatch, site: str, mode: str, target: str, status: int
) -> None:
    """A page of any site can send requests to this machine, whose answers it cannot read."""
    found, find = list[object](), SkillList.find

    def noted(self: SkillList, *given: Any) -> Any:
        found.append(given)
        return find(self, *given)

    monkeypatch.setattr(SkillList, "find", noted)
    sent = {**HTML, "Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": target}
    async with serving(two) as served:
        assert (await served.client.get(served.at("/"), headers=sent)).status_code == status
    assert bool(found) == (status == 200)


async def test_no_page_is_made_on_the_event_loop(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used, visible = set[int](), environment.visible

    def noted(value: Any) -> Any:
        used.add(threading.get_ident())
        return visible(value)

    monkeypatch.setattr(environment, "visible", noted)
    async with serving(two) as served:
        for path in ("/", "/page/skill/one", "/page/skill/two?file=more.md", "/page/connect"):
            assert (await served.client.get(served.at(path), headers=HTML)).status_code == 200
    assert used
    assert threading.get_ident() not in used
