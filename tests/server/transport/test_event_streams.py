"""Sessions and event streams over HTTP: which notifications arrive, what idle sessions cost, and how streams end."""

from __future__ import annotations

import gc
import json
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.server.subscriptions import PromptsListChanged, ResourcesListChanged, ResourceUpdated, ToolsListChanged
from starlette.requests import Request

from server.config.machine import current_environment
from server.hosting.host import Host
from server.protocol.deliveries import RecentEvents
from server.protocol.server import SkillServer
from server.transport.event_streams import EventStreams
from server.transport.http import HttpServer
from server.transport.listening import listen
from skills_core import Library, explicit_sources
from skills_core.live.watch_options import WatchMode
from tests.conftest import MakeSkill
from tests.server.serving import modern, modern_headers, until
from tests.server.sessions import REPOSITORY, ConnectHosted, address, server_command, server_environment
from tests.server.settings import make_settings

LISTS = [ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()]
URIS = [f"skill://{name}/SKILL.md" for name in "abc"]
EVENTS = [*LISTS, *map(ResourceUpdated, URIS)]

LIST_NOTIFICATIONS = {f"notifications/{name}/list_changed" for name in ("tools", "prompts", "resources")}
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


class HandshakeClient:
    """A session of the handshake era, spoken by hand."""

    def __init__(self, http: httpx2.AsyncClient, url: str) -> None:
        self.http, self.url = http, url
        self.name = "test"
        self.headers = dict(ACCEPT)

    async def post(self, method: str, params: dict[str, Any] | None = None, number: int | None = 1) -> httpx2.Response:
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        body = message if number is None else {**message, "id": number}
        return await self.http.post(self.url, json=body, headers=self.headers)

    async def open(self) -> HandshakeClient:
        about = {"name": self.name, "version": "1"}
        answer = await self.post("initialize", {**INITIALIZE, "clientInfo": about})
        self.headers["Mcp-Session-Id"] = answer.headers["mcp-session-id"]
        assert (await self.post("notifications/initialized", number=None)).status_code == 202
        # A notification is handled after it is answered; this request is handled after the notification.
        await self.post("ping")
        return self

    @asynccontextmanager
    async def stream(self) -> AsyncGenerator[AsyncIterator[dict[str, Any]]]:
        async with self.http.stream("GET", self.url, headers=self.headers) as response:
            assert response.status_code == 200
            yield messages(response)


async def messages(response: httpx2.Response) -> AsyncIterator[dict[str, Any]]:
    async for line in response.aiter_lines():
        if line.startswith("data:"):
            yield json.loads(line.removeprefix("data:"))


async def notifications(stream: AsyncIterator[dict[str, Any]], methods: Iterable[str]) -> list[str]:
    """Return the methods of the notifications on a stream up to the last of `methods`."""
    wanted, found = set(methods), list[str]()
    with anyio.fail_after(60):
        while not wanted <= set(found):
            found.append((await anext(stream))["method"])
    return found


class EndedSessions:
    """Records the sessions that end."""

    def __init__(self, server: SkillServer) -> None:
        self.sessions: list[str] = []
        self.news = anyio.Event()
        self.forget = server.handshake._forget
        server.handshake._forget = self.note

    def note(self, session: str) -> None:
        self.forget(session)
        self.sessions.append(session)
        self.news.set()

    async def first(self) -> str:
        with anyio.fail_after(60):
            await self.news.wait()
        return self.sessions[0]


@asynccontextmanager
async def serving(skills: Path, **settings: Any) -> AsyncGenerator[tuple[Host, SkillServer, str, httpx2.AsyncClient]]:
    """Serve in this process, on a real socket; yields the host, the server, its URL and a client."""
    chosen = make_settings(watch=WatchMode.OFF, port=0, **settings)
    host = Host(Library(explicit_sources([skills]), current_environment), chosen)
    server = SkillServer(host, local=False)
    with listen(chosen.http) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}{chosen.http.path}"
        running = HttpServer(server, host)
        async with anyio.create_task_group() as tasks, server.exchanges.serving():

            async def serve() -> None:
                await running.serve(sockets=[listener])

            tasks.start_soon(serve)
            async with httpx2.AsyncClient(timeout=60) as client:
                yield host, server, url, client
            running.should_exit = True


async def test_an_idle_session_holds_no_request_of_its_client_but_the_last_one(skills: Path) -> None:
    async with serving(skills) as (_, server, url, http):
        opened = [await HandshakeClient(http, url).open() for _ in range(5)]
        sessions = {client.headers["Mcp-Session-Id"] for client in opened}
        assert server.handshake._connections.keys() == sessions
        gc.collect()
        requests = [each for each in gc.get_objects() if type(each) is Request]
        held = Counter(request.headers.get("mcp-session-id", "") for request in requests)
        assert {session: number for session, number in held.items() if session in sessions and number > 1} == {}


async def test_a_session_receives_missed_notifications_on_its_next_stream(make_skill: MakeSkill, skills: Path) -> None:
    make_skill("one")
    async with serving(skills) as (host, _, url, http):
        client = await HandshakeClient(http, url).open()
        for number in range(5):
            make_skill("one", description=f"Version {number}.")
            await host.reload()
            make_skill("one", description=f"Version {number}, and more.")
            await host.reload()
            async with client.stream() as stream:
                # Two changes, each list once.
                assert sorted(await notifications(stream, LIST_NOTIFICATIONS)) == sorted(LIST_NOTIFICATIONS)
                make_skill("one", description=f"Version {number}, with the stream open.")
                await host.reload()
                assert sorted(await notifications(stream, LIST_NOTIFICATIONS)) == sorted(LIST_NOTIFICATIONS)


async def test_a_session_that_missed_nothing_receives_nothing_on_its_next_stream(
    make_skill: MakeSkill, skills: Path
) -> None:
    make_skill("one")
    async with serving(skills) as (host, _, url, http):
        make_skill("one", description="Before the session.")
        await host.reload()
        client = await HandshakeClient(http, url).open()
        async with client.stream() as stream:
            (skills / "one" / "new.md").write_text("x")
            await host.reload()
            assert await notifications(stream, ["notifications/resources/list_changed"]) == [
                "notifications/resources/list_changed"
            ]


async def test_a_client_that_wants_to_resume_a_stream_gets_the_stream_of_its_session(
    make_skill: MakeSkill, skills: Path
) -> None:
    make_skill("one")
    async with serving(skills) as (host, _, url, http):
        client = await HandshakeClient(http, url).open()
        client.headers["Last-Event-ID"] = "1"
        make_skill("one", description="Another.")
        await host.reload()
        async with client.stream() as stream:
            # What the session missed comes from the server's own record of events.
            assert sorted(await notifications(stream, LIST_NOTIFICATIONS)) == sorted(LIST_NOTIFICATIONS)


@pytest.mark.parametrize("session", [{}, {"Mcp-Session-Id": "1"}])
async def test_only_a_server_that_stops_says_that_it_stops(session: dict[str, str]) -> None:
    async def silent(*_: object) -> None:
        """Return without an answer."""

    async def forwarding(*_: object) -> None:
        raise AssertionError("there is no stream")

    streams = EventStreams(silent, forwarding)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(streams), base_url="http://server") as http:
        answer = await http.get("/mcp", headers=session)
    assert (answer.status_code, answer.json()) == (500, {"error": "the request was not answered"})


async def test_an_edit_wakes_no_session_without_a_stream(make_skill: MakeSkill, skills: Path) -> None:
    make_skill("one")
    async with serving(skills) as (host, server, url, http):
        clients = [await HandshakeClient(http, url).open() for _ in range(20)]
        async with clients[0].stream() as stream:
            make_skill("one", description="Another.")
            await host.reload()
            await notifications(stream, LIST_NOTIFICATIONS)
            connections = server.handshake._connections
            assert len(connections) == 20
            behind = [each for each in connections.values() if each.sent < each.record.recent.last]
            assert len(behind) == 19
            assert all(len(each.record.listeners) == 1 for each in behind)


async def test_the_activations_of_a_session_are_forgotten_with_the_session(make_skill: MakeSkill, skills: Path) -> None:
    make_skill("one")
    async with serving(skills) as (_, server, url, http):
        client = await HandshakeClient(http, url).open()
        call = {"name": "activate_skill", "arguments": {"name": "one"}}
        first, second = [(await client.post("tools/call", call)).json()["result"] for _ in range(2)]
        assert first["content"] != second["content"]
        ended = EndedSessions(server)
        assert (await http.delete(url, headers=client.headers)).status_code == 200
        assert await ended.first() == client.headers["Mcp-Session-Id"]
        assert server.handshake._connections == {}
        assert (await client.post("ping")).status_code == 404


@asynccontextmanager
async def logged_server(skills: Path) -> AsyncGenerator[tuple[Any, str, list[str]]]:
    """Run a server process; yields it, its URL, and what it logs."""
    command = server_command(skills, "--transport", "http", "--port", "0")
    lines: list[str] = []
    async with (
        await anyio.open_process(
            command,
            cwd=REPOSITORY,
            env=server_environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as process,
        anyio.create_task_group() as tasks,
    ):
        assert process.stderr is not None
        stderr = process.stderr

        async def read() -> None:
            lines.extend([chunk.decode() async for chunk in stderr])

        try:
            with anyio.fail_after(120):
                url = await address(process.stderr)
            tasks.start_soon(read)
            yield process, url, lines
        finally:
            if process.returncode is None:
                process.terminate()
                with anyio.CancelScope(shield=True):
                    await process.wait()


async def test_an_idle_session_ends_after_the_timeout_unless_it_has_a_stream(
    make_skill: MakeSkill, skills: Path
) -> None:
    make_skill("one")
    async with serving(skills, session_idle_seconds=1) as (_, server, url, http):
        listening = await HandshakeClient(http, url).open()
        async with listening.stream():
            ended = EndedSessions(server)
            left = await HandshakeClient(http, url).open()
            assert await ended.first() == left.headers["Mcp-Session-Id"]
            assert (await left.post("ping")).status_code == 404
            assert (await listening.post("ping")).status_code == 200


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
async def test_a_server_that_stops_ends_its_streams_and_logs_no_error(make_skill: MakeSkill, skills: Path) -> None:
    make_skill("one", files={"large": b"x" * 12_000_000})
    async with (
        logged_server(skills) as (process, url, lines),
        httpx2.AsyncClient(timeout=60) as http,
    ):
        clients = [await HandshakeClient(http, url).open() for _ in range(5)]
        listen_to = {"_meta": META, "notifications": {"toolsListChanged": True}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": listen_to}
        modern = {**ACCEPT, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"}
        ended: list[str] = []
        session = clients[0].headers["Mcp-Session-Id"]
        read = {"jsonrpc": "2.0", "id": 7, "method": "resources/read", "params": {"uri": "skill://one/large"}}
        deaf = [
            await anyio.to_thread.run_sync(_connect_and_never_read, url, session, message) for message in (None, read)
        ]
        async with anyio.create_task_group() as tasks:
            ready = [anyio.Event() for _ in range(8)]

            async def hold(number: int) -> None:
                if number < 4:
                    request = http.build_request("GET", url, headers=clients[number + 1].headers)
                else:
                    request = http.build_request("POST", url, headers=modern, json=body)
                response = await http.send(request, stream=True)
                ready[number].set()
                # A stream that is cut off raises.
                ended.extend(["result" async for line in response.aiter_lines() if "resultType" in line])
                ended.append("end")

            for number in range(8):
                tasks.start_soon(hold, number)
            with anyio.fail_after(60):
                for event in ready:
                    await event.wait()
            process.send_signal(signal.SIGTERM)
        with anyio.fail_after(60):
            await process.wait()
        for each in deaf:
            each.close()
    assert sorted(ended) == ["end"] * 8 + ["result"] * 4
    assert process.returncode == -signal.SIGTERM
    assert "ERROR" not in "".join(lines)


def _connect_and_never_read(url: str, session: str, message: dict[str, Any] | None = None) -> socket.socket:
    """Open the event stream of a session, or send a request, and read nothing of the answer."""
    parts = httpx2.URL(url)
    deaf = socket.create_connection((parts.host, parts.port))
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    body = json.dumps(message).encode() if message else b""
    head = {**ACCEPT, "Host": f"{parts.host}:{parts.port}", "Mcp-Session-Id": session, "Content-Length": len(body)}
    lines = [f"{'POST' if message else 'GET'} {parts.path} HTTP/1.1", *(f"{name}: {head[name]}" for name in head)]
    deaf.sendall("\r\n".join([*lines, "", ""]).encode() + body)
    # The head of the answer is there, so the request is under way.
    deaf.recv(1, socket.MSG_PEEK)
    return deaf


@given(
    events=st.lists(st.sampled_from(EVENTS), max_size=30),
    number=st.integers(0, 30),
    subscriptions=st.frozensets(st.sampled_from(URIS)),
    limit=st.integers(1, 8),
)
def test_missed_events_are_kept_once_each_in_order(
    events: list[Any], number: int, subscriptions: frozenset[str], limit: int
) -> None:
    recent = RecentEvents()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("server.protocol.deliveries.MAX_EVENTS", limit)
        for event in events:
            recent.add(event)
    assert recent.last == len(events)
    missed = [each for each in events[number:] if not isinstance(each, ResourceUpdated) or each.uri in subscriptions]
    in_order = list(dict.fromkeys(reversed(missed)))[::-1]
    found = [event for _, event in recent.since(number, subscriptions)]
    assert len(set(found)) == len(found)
    assert set(in_order) <= set(found)
    if limit >= len(EVENTS):
        assert found == in_order
    assert not recent.since(len(events), subscriptions)


LISTEN = {"notifications": {"toolsListChanged": True}}


async def test_streams_beyond_the_limit_are_refused_until_one_ends(
    make_skill: MakeSkill, skills: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_skill("one")
    message = modern("subscriptions/listen", LISTEN)
    async with serving(skills, limits_event_streams=2) as (_, server, url, http):

        async def refused() -> str:
            answer = await http.post(url, json=message, headers=modern_headers(message))
            return str(answer.json()["error"]["message"])

        texts: list[AsyncIterator[str]] = []
        async with AsyncExitStack() as stack:
            for _ in range(2):
                listening = http.stream("POST", url, json=message, headers=modern_headers(message))
                texts.append((await stack.enter_async_context(listening)).aiter_text())
                assert "acknowledged" in await anext(texts[-1])
            for _ in range(3):
                assert "too many streams of events are open; this server has at most 2" in await refused()
            assert server.listening.subscribers == 2
        assert caplog.messages.count("2 streams of events are open, and more are refused (limits.event_streams)") == 1

        async def are_closed() -> bool:
            return not server.listening.subscribers

        await until(are_closed)
        async with http.stream("POST", url, json=message, headers=modern_headers(message)) as stream:
            assert "acknowledged" in await anext(stream.aiter_text())


async def test_more_streams_than_the_sdk_has_by_itself_are_told(
    make_skill: MakeSkill, skills: Path, in_memory: ConnectHosted
) -> None:
    make_skill("one")
    told = 0
    async with in_memory(skills, watch=False, modern=True) as session, AsyncExitStack() as stack:
        listening = [session.client.listen(tools_list_changed=True) for _ in range(1100)]
        streams = [await stack.enter_async_context(each) for each in listening]
        make_skill("two")
        await session.host.reload()
        with anyio.fail_after(60):
            for stream in streams:
                told += isinstance(await anext(aiter(stream)), ToolsListChanged)
    assert told == len(listening)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_a_server_asks_the_system_for_more_descriptors() -> None:
    code = (
        "import resource\n"
        "from server.limits.descriptors import most_connections, raise_descriptors\n"
        "_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, min(hard, 4096)))\n"
        "before = most_connections()\n"
        "raise_descriptors()\n"
        "print(before, most_connections() == min(hard, 4096) // 2)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    assert found.stdout.split() == ["32", "True"]
