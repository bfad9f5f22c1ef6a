"""Notifications of many clients over real connections: what comes together, in which order, and each once."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2
import pytest
from mcp.server.subscriptions import ResourceUpdated

from server.hosting.views import COMMON_VIEW
from server.protocol import deliveries
from tests.conftest import MakeSkill
from tests.server.serving import Served, modern, modern_headers, serving, until
from tests.server.sessions import Era
from tests.server.transport.test_event_streams import LIST_NOTIFICATIONS, HandshakeClient, _connect_and_never_read

URI = "skill://one/SKILL.md"
UPDATED = "notifications/resources/updated"
LISTEN = {
    "notifications": {
        "toolsListChanged": True,
        "promptsListChanged": True,
        "resourcesListChanged": True,
        "resourceSubscriptions": [URI],
    }
}


async def chunks(url: str, method: str, headers: dict[str, str], body: bytes = b"") -> AsyncGenerator[bytes]:
    """Yield what the server writes to a response, each chunk by one write; the first one, at its head, is empty."""
    target = httpx2.URL(url)
    reader, writer = await asyncio.open_connection(target.host, target.port, limit=1 << 24)
    try:
        sent = {**headers, "Host": f"{target.host}:{target.port}", "Content-Length": str(len(body))}
        lines = [f"{method} {target.path} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items()), "", ""]
        writer.write("\r\n".join(lines).encode() + body)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        yield b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            yield await reader.readexactly(size)
            await reader.readexactly(2)
    finally:
        writer.close()


class Stream:
    """An open event stream of either era."""

    def __init__(self, parts: AsyncIterator[bytes]) -> None:
        self._parts = parts
        self.last_id = ""

    async def told(self) -> list[str]:
        """Return the methods of the notifications of the next write."""
        with anyio.fail_after(60):
            while not (part := await anext(self._parts)) or part.startswith(b":"):
                pass
        if ids := re.findall(rb"^id: (\S+)", part, re.MULTILINE):
            self.last_id = ids[-1].decode()
        return [json.loads(data)["method"] for data in re.findall(rb"^data: (.*)\r$", part, re.MULTILINE)]


@asynccontextmanager
async def handshake_stream(served: Served, client: HandshakeClient, last_id: str = "") -> AsyncGenerator[Stream]:
    """Open the event stream of a session; within the block, the server may write to it."""
    headers = {**client.headers, **({"Last-Event-ID": last_id} if last_id else {})}
    before = served.server.handshake.subscribers
    parts = chunks(served.url, "GET", headers)
    await anext(parts)
    await until(lambda: _holds(served.server.handshake.subscribers == before + 1))
    try:
        yield Stream(parts)
    finally:
        await parts.aclose()
        await until(lambda: _holds(served.server.handshake.subscribers <= before))


async def _holds(value: bool) -> bool:  # noqa: FBT001 - a condition
    return value


@asynccontextmanager
async def modern_stream(served: Served) -> AsyncGenerator[Stream]:
    message = modern("subscriptions/listen", LISTEN)
    headers = {**modern_headers(message), "Content-Type": "application/json"}
    parts = chunks(served.url, "POST", headers, json.dumps(message).encode())
    await anext(parts)
    stream = Stream(parts)
    assert await stream.told() == ["notifications/subscriptions/acknowledged"]
    try:
        yield stream
    finally:
        await parts.aclose()


async def subscribed(served: Served) -> HandshakeClient:
    client = await HandshakeClient(served.client, served.url).open()
    assert (await client.post("resources/subscribe", {"uri": URI})).status_code == 200
    return client


@asynccontextmanager
async def stream_of(era: Era, served: Served) -> AsyncGenerator[Stream]:
    if era == "modern":
        async with modern_stream(served) as stream:
            yield stream
    else:
        async with handshake_stream(served, await subscribed(served)) as stream:
            yield stream


Change = Callable[[Served, str], Awaitable[None]]


@pytest.fixture
def change(make_skill: MakeSkill) -> Change:
    make_skill("one")

    async def change(served: Served, description: str) -> None:
        make_skill("one", description=description)
        await served.host.reload()

    return change


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_all_events_of_a_reload_come_in_one_write_in_their_order(skills: Path, change: Change, era: Era) -> None:
    async with serving(skills) as served, stream_of(era, served) as one, stream_of(era, served) as other:
        for number in range(3):
            await change(served, f"Version {number}.")
            told = await one.told()
            assert set(told[:-1]) == LIST_NOTIFICATIONS
            assert told[-1] == UPDATED
            assert await other.told() == told


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients be told one by one, with a pause that allows for something in between."""
    monkeypatch.setattr(deliveries, "AT_ONCE", 1)
    monkeypatch.setattr(deliveries, "PAUSE_SECONDS", 0.3)


@pytest.mark.usefixtures("one_by_one")
async def test_a_stream_that_ends_before_its_turn_delays_no_other_and_misses_nothing(
    skills: Path, change: Change
) -> None:
    async with serving(skills) as served, modern_stream(served) as first:
        leaving = await subscribed(served)
        async with AsyncExitStack() as leaves:
            await leaves.enter_async_context(handshake_stream(served, leaving))
            async with modern_stream(served) as last:
                await change(served, "Another.")
                told = await first.told()
                await leaves.aclose()
                assert await last.told() == told
        async with handshake_stream(served, leaving) as again:
            assert await again.told() == told
            await change(served, "One more.")
            assert await first.told() == await again.told() == told


@pytest.mark.usefixtures("one_by_one")
async def test_who_comes_while_others_are_told_is_told_once(skills: Path, change: Change) -> None:
    async with serving(skills) as served:
        coming = await subscribed(served)
        async with modern_stream(served) as first, modern_stream(served), modern_stream(served) as last:
            await change(served, "Another.")
            told = await first.told()
            async with handshake_stream(served, coming) as late, modern_stream(served) as new:
                # The session has missed the change, and the new stream begins after it.
                assert await late.told() == told
                assert await last.told() == told
                (skills / "one" / "more.md").write_text("More.")
                await served.host.reload()
                for stream in (first, late, last, new):
                    assert await stream.told() == ["notifications/resources/list_changed"]


async def test_a_client_that_lost_events_on_the_way_receives_them_again(skills: Path, change: Change) -> None:
    async with serving(skills) as served:
        client = await subscribed(served)
        async with handshake_stream(served, client) as stream:
            await change(served, "Another.")
            told = await stream.told()
            received = stream.last_id
            await change(served, "What comes next is lost.")
            assert await stream.told() == told
            latest = stream.last_id
        async with handshake_stream(served, client, received) as stream:
            assert await stream.told() == told
            assert stream.last_id == latest
        async with handshake_stream(served, client, latest) as stream:
            (skills / "one" / "more.md").write_text("More.")
            await served.host.reload()
            assert await stream.told() == ["notifications/resources/list_changed"]


@pytest.mark.parametrize("last_id", ["-1", "x", "1.5", "9" * 400, "99", "\N{SUPERSCRIPT TWO}"])
async def test_an_id_that_the_server_did_not_send_changes_nothing(skills: Path, change: Change, last_id: str) -> None:
    async with serving(skills) as served:
        client = await subscribed(served)
        async with handshake_stream(served, client) as stream:
            await change(served, "Another.")
            told = await stream.told()
        async with handshake_stream(served, client, last_id) as stream:
            (skills / "one" / "more.md").write_text("More.")
            await served.host.reload()
            assert await stream.told() == ["notifications/resources/list_changed"]
            await change(served, "And another.")
            assert await stream.told() == told


async def test_a_client_that_does_not_read_delays_no_other_and_holds_no_more_than_it_has_missed(
    make_skill: MakeSkill, skills: Path
) -> None:
    make_skill("one")
    uris = [f"skill://one/{'x' * 3900}-{number}" for number in range(100)]
    async with serving(skills, limits_receive_seconds=60) as served:
        deaf, good = await subscribed(served), await subscribed(served)
        for client in (deaf, good):
            for uri in uris:
                assert (await client.post("resources/subscribe", {"uri": uri})).status_code == 200
        session = deaf.headers["Mcp-Session-Id"]
        held = await anyio.to_thread.run_sync(_connect_and_never_read, served.url, session)
        try:
            async with handshake_stream(served, good) as stream:
                for _ in range(60):
                    for uri in uris:
                        await served.host.feed(COMMON_VIEW).publish(ResourceUpdated(uri))
                    assert await stream.told() == [UPDATED] * len(uris)
                transports = [each.transport for each in served.running.server_state.connections]
                waiting = max(each._transport.get_write_buffer_size() for each in transports)  # type: ignore[attr-defined]
            # It does wait for its client, and 60 rounds would be 24 MB.
            assert 0 < waiting < 1_000_000
        finally:
            held.close()
