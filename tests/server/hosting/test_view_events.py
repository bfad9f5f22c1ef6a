"""Clients are told of changes in their view, and of no others; views are built once a catalog and bounded in number."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.server.subscriptions import ResourcesListChanged

from server.hosting import views
from server.hosting.host import Host
from tests.conftest import write_skill
from tests.server.hosting.two_views import WORDS, host_of, serving_http, write_skills
from tests.server.sessions import Era, Session, open_session
from tests.server.transport.test_event_streams import HandshakeClient, notifications

RED, BLUE = frozenset({"red"}), frozenset({"blue"})
STATUS = "skillserve://status"
QUOKKA = "skill://red/quokka-main/SKILL.md"
PLAIN = "skill://common/plain/SKILL.md"
LISTS = ["prompts", "resources", "tools"]


@asynccontextmanager
async def listening(tmp_path: Path, era: Era) -> AsyncGenerator[tuple[Host, Path, dict[str, Session]]]:
    """Serve, with a client of each team that listens to all that it can, whatever team has it."""
    high, low = write_skills(tmp_path)
    host = host_of((high, low))
    subscribed = (QUOKKA, PLAIN, STATUS, "skill://lowest/SKILL.md", "skill://quokka-main/SKILL.md")
    async with (
        serving_http(host) as url,
        open_session(url, era, subscribed, client_name="red-client") as red,
        open_session(url, era, subscribed, client_name="blue-client") as blue,
    ):
        yield host, high, {"red": red, "blue": blue}


async def told_until(host: Host, session: Session, high: Path) -> list[str]:
    """Return what a client was told up to a change that all are told of, and forget it."""
    write_skill(high / "common", "plain", f"Does plain things, number {len(list((high / 'common').iterdir()))}.")
    write_skill(high / "common", f"more-{len(list((high / 'common').iterdir()))}")
    seen = len(session.told)
    await host.reload()
    await session.until_all_told([f"updated {PLAIN}", *LISTS], 1)
    news, session.told[:] = session.told[:seen], []
    return sorted(news)


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_a_change_is_told_to_those_who_see_it(tmp_path: Path, era: Era) -> None:
    async with listening(tmp_path, era) as (host, high, clients):
        write_skill(high / "red", "quokka-main", "Does other things.")
        write_skill(high / "red", "quokka-new", "Is new.")
        await host.reload()
        await clients["red"].until_all_told([*LISTS, f"updated {QUOKKA}", f"updated {STATUS}"])
        assert await told_until(host, clients["blue"], high) == []
        write_skill(high / "blue", "wombat-always", "Does other things.")
        await host.reload()
        await clients["blue"].until_all_told([*LISTS, f"updated {STATUS}"])
        assert f"updated {QUOKKA}" not in clients["blue"].told


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_a_change_within_a_skill_that_all_see_is_told_to_those_who_see_the_part(tmp_path: Path, era: Era) -> None:
    async with listening(tmp_path, era) as (host, high, clients):
        (high / "common" / "outer" / "red" / "quokka-inner" / "quokka.txt").write_text("Other.")
        (high / "common" / "outer" / "red" / "quokka-inner" / "new.txt").write_text("New.")
        await host.reload()
        await clients["red"].until_told("resources")
        assert await told_until(host, clients["blue"], high) == []


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_a_change_elsewhere_is_told_where_it_changes_a_view(tmp_path: Path, era: Era) -> None:
    async with listening(tmp_path, era) as (host, high, clients):
        # What it shadowed is served to both from now on.
        for file in (high / "red" / "quokka-main").rglob("*"):
            if file.is_file():
                file.unlink()
        await host.reload()
        await clients["blue"].until_all_told([*LISTS, "updated skill://quokka-main/SKILL.md"])
        assert "quokka-main" in await clients["blue"].enum()


async def test_a_session_without_a_stream_catches_up_with_its_own_view(tmp_path: Path) -> None:
    high, low = write_skills(tmp_path)
    host = host_of((high, low))
    async with serving_http(host) as url, httpx2.AsyncClient(timeout=60) as http:
        clients = {}
        for team in WORDS:
            client = HandshakeClient(http, url)
            client.name = f"{team}-client"
            clients[team] = await client.open()
        write_skill(high / "red", "quokka-main", "Does other things.")
        await host.reload()
        (high / "common" / "plain" / "more.txt").write_text("More.")
        await host.reload()
        resources = ["notifications/resources/list_changed"]
        async with clients["blue"].stream() as stream:
            assert await notifications(stream, resources) == resources
        async with clients["red"].stream() as stream:
            all_lists = {f"notifications/{name}/list_changed" for name in LISTS}
            assert set(await notifications(stream, all_lists)) == all_lists


def test_a_view_is_built_once_and_kept_while_nothing_in_it_changes(tmp_path: Path) -> None:
    high, low = write_skills(tmp_path)
    host = host_of((high, low))
    red, blue = host.view_called(RED), host.view_called(BLUE)
    assert host.view_called(RED) is red
    write_skill(high / "red", "quokka-main", "Does other things.")
    host.library.reload()
    assert host.view_called(BLUE) is blue
    assert host.view_called(RED) is not red


def test_without_a_rule_the_view_is_the_whole_catalog(tmp_path: Path) -> None:
    host = host_of(write_skills(tmp_path), rule=None)
    assert host.view_called(views.COMMON_VIEW).catalog is host.everything


async def test_views_are_bounded_but_for_those_that_are_listened_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "MAX_VIEWS", 3)
    host = host_of(write_skills(tmp_path))
    end = host.feed(RED).subscribe(lambda _: None)
    red, blue = host.view_called(RED), host.view_called(BLUE)
    for number in range(5):
        host.view_called(frozenset({str(number)}))
    assert host.view_called(RED) is red
    assert host.view_called(BLUE) is not blue
    end()
    for number in range(5):
        host.view_called(frozenset({str(number)}))
    assert host.view_called(RED) is not red


async def test_who_begins_to_listen_while_a_change_is_announced_hears_of_it(tmp_path: Path) -> None:
    high, low = write_skills(tmp_path)
    host = host_of((high, low))
    events: list[Any] = []
    host.view_called(RED)
    (high / "red" / "quokka-main" / "new.txt").write_text("New.")
    # The library has the change, and nobody was told of it yet.
    host.library.reload()
    host.feed(RED).subscribe(events.append)
    with anyio.fail_after(60):
        await host.reload()
    assert ResourcesListChanged() in events


async def test_no_event_is_made_for_a_view_without_listeners(tmp_path: Path) -> None:
    high, low = write_skills(tmp_path)
    host = host_of((high, low))
    events: list[Any] = []
    end = host.feed(RED).subscribe(events.append)
    end()
    end()
    write_skill(high / "red", "quokka-main", "Does other things.")
    await host.reload()
    assert events == []
