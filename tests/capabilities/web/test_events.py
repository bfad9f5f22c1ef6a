"""Open pages hear of changes that their visitors see, and keep no server from its end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio
import httpx2
import pytest

from server.capabilities.web import events
from server.capabilities.web.events import OpenPages
from skills_core.live.library import Library
from tests.capabilities.web.test_catalog import HTML
from tests.conftest import MakeSkill
from tests.server.serving import Served, serving, until


async def test_a_page_hears_of_a_change_once_however_many_there_were(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    async with (
        serving(skills) as served,
        listening(served) as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.aiter_lines()
        assert await anext(lines) == "retry: 1000"
        make_skill("two")
        await served.host.reload()
        assert await next_event(lines) == "event: change"
        # What is not a change is not told.
        await served.host.reload()
        make_skill("three")
        await served.host.reload()
        assert await next_event(lines) == "event: change"


async def test_a_page_looks_again_and_again_while_skills_are_loaded(
    skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_LOADING_SECONDS", 0.01)
    async with serving(skills) as served:
        monkeypatch.setattr(Library, "is_complete", False)
        async with listening(served) as answer:
            lines = answer.aiter_lines()
            assert await next_event(lines) == "event: change"
            assert await next_event(lines) == "event: change"


def listening(served: Served) -> AbstractAsyncContextManager[httpx2.Response]:
    return served.client.stream("GET", served.at("/page/events"), headers=HTML)


async def next_event(lines: AsyncIterator[str]) -> str:
    with anyio.fail_after(60):
        async for line in lines:
            if line.startswith("event:"):
                return line
    raise AssertionError("the stream has ended")


async def test_streams_end_when_the_server_drains(skills: Path) -> None:
    async with (
        serving(skills) as served,
        listening(served) as answer,
    ):
        for part in served.host.http_parts:
            part.drain()
        with anyio.fail_after(60):
            async for _ in answer.aiter_raw():
                pass


async def test_more_pages_than_the_most_are_refused(skills: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.capabilities.web.events.MAX_PAGES", 1)
    async with serving(skills) as served, listening(served) as first:
        await anext(first.aiter_lines())
        other = await served.client.get(served.at("/page/events"), headers=HTML)
        assert other.status_code == 503
        assert first.status_code == 200


async def test_of_pages_that_come_at_once_no_more_than_the_most_are_told(
    skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = pytest.importorskip("resource")
    # A stream keeps a descriptor, and the clients of the endpoint need some.
    monkeypatch.setattr(resource, "getrlimit", lambda _: (8, 8))
    answers: list[int] = []
    async with serving(skills) as served, anyio.create_task_group() as tasks:

        async def listen() -> None:
            async with listening(served) as answer:
                answers.append(answer.status_code)
                await anyio.sleep_forever()

        for _ in range(5):
            tasks.start_soon(listen)

        async def are_answered() -> bool:
            return len(answers) == 5

        await until(are_answered)
        tasks.cancel_scope.cancel()
    assert sorted(answers) == [200, 200, 503, 503, 503]


async def test_a_page_that_is_closed_is_forgotten(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    async with serving(skills) as served:
        pages = _open_pages(served)
        async with listening(served) as answer:
            await anext(answer.aiter_lines())
            assert pages.count == 1
        make_skill("two")
        await served.host.reload()

        async def is_forgotten() -> bool:
            return not pages.count

        await until(is_forgotten)


def _open_pages(served: Served) -> OpenPages:
    from server.capabilities.web.part import WebPage  # noqa: PLC0415 - as in life, where it is loaded when needed

    return served.host.service(WebPage).pages
