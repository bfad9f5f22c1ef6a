"""The clients of the soak test: well-behaved ones of both eras, and hostile ones.

Well-behaved clients record the notifications that they receive in an `Inbox`. Hostile clients run until they are
cancelled, and accept any answer of the server.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import warnings
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPDeprecationWarning
from soak_http import ask, send
from soak_roles import TOKEN
from wire import CLIENT_INFO, BenchError, Era, Message, request

if TYPE_CHECKING:
    from soak_http import Answer

EXPECTED = Counter({"tools": 1, "prompts": 1, "resources": 1, "updated": 1})
"""The notifications that an edit of a description causes in a client that subscribed to everything."""

PAGE = "page"
OF_PAGES = Counter({PAGE: 1})
"""What an open page is told of an edit."""

KINDS = {
    "notifications/tools/list_changed": "tools",
    "notifications/prompts/list_changed": "prompts",
    "notifications/resources/list_changed": "resources",
    "notifications/resources/updated": "updated",
}
SDK_KINDS = {
    "ToolListChangedNotification": "tools",
    "PromptListChangedNotification": "prompts",
    "ResourceListChangedNotification": "resources",
    "ResourceUpdatedNotification": "updated",
}
ALL_LISTS = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
MANY = [f"skill://nothing-{number}/SKILL.md" for number in range(2000)]
LOOP_SECONDS = 0.02
# Pause of a looping_subscriptions client; without it the client would take processor time from the server.

MIX_SECONDS = 0.1
_MIX: tuple[tuple[str, Message], ...] = (
    ("tools/list", {}),
    ("tools/call", {"name": "activate_skill", "arguments": {"name": "OWN"}}),
    ("resources/read", {"uri": "skill://OWN/SKILL.md"}),
    ("tools/call", {"name": "find_skills", "arguments": {"query": "OWN"}}),
    ("prompts/list", {}),
    ("resources/list", {}),
    ("prompts/get", {"name": "OWN"}),
    (
        "completion/complete",
        {
            "ref": {"type": "ref/resource", "uri": "skill://{+skill}/{+path}"},
            "argument": {"name": "skill", "value": ""},
        },
    ),
)
# What a mixed_requests client asks in turn.

DISCONNECTED = (OSError, EOFError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, BenchError, ValueError)


@dataclass
class Inbox:
    """The notifications that a client received since the last edit, and when they were complete."""

    name: str
    expected: Counter[str] = field(default_factory=lambda: EXPECTED)
    received: Counter[str] = field(default_factory=Counter)
    complete: asyncio.Event = field(default_factory=asyncio.Event)
    at: float = 0.0
    fault: str = ""

    def add(self, kind: str | None) -> None:
        """Record a notification."""
        if kind is not None:
            self.received[kind] += 1
            if self.received >= self.expected and not self.complete.is_set():
                self.at = asyncio.get_running_loop().time()
                self.complete.set()

    def clear(self) -> None:
        """Clear the inbox for the next edit."""
        self.received.clear()
        self.complete.clear()


async def open_page(port: int, inbox: Inbox, ready: asyncio.Event, *, looks: bool) -> None:
    """Keep a page open in a browser until cancelled, which `looks` at the list of skills again at each event."""
    stream = await send(port, "GET", path="/page/events")
    if stream.status != 200:  # noqa: PLR2004 - HTTP's own number
        raise BenchError(f"no events for a page: HTTP {stream.status}")
    ready.set()
    async for chunk in stream.chunks():
        if b"event: change" in chunk:
            if looks:
                page = await send(port, "GET", path="/")
                if page.status != 200 or b"</html>" not in await page.body():  # noqa: PLR2004 - as above
                    raise BenchError(f"the page: HTTP {page.status}")
            inbox.add(PAGE)


async def open_session(port: int) -> str:
    """Open a session of the handshake era; return its id."""
    params = {"protocolVersion": Era.HANDSHAKE.protocol, "capabilities": {}, "clientInfo": CLIENT_INFO}
    answer = await send(port, "POST", request(Era.HANDSHAKE, 1, "initialize", params))
    session = answer.headers.get("mcp-session-id")
    await answer.body()
    if session is None:
        raise BenchError(f"no session: HTTP {answer.status}")
    await (await send(port, "POST", _notification("notifications/initialized"), session)).body()
    return session


async def handshake_client(port: int, uri: str, inbox: Inbox, ready: asyncio.Event) -> None:
    """Receive notifications in the handshake era until cancelled."""
    session = await open_session(port)
    stream = await send(port, "GET", session=session)
    await ask(port, request(Era.HANDSHAKE, 2, "resources/subscribe", {"uri": uri}), session)
    await _listen(stream, inbox, ready)


async def modern_client(port: int, uri: str, inbox: Inbox, ready: asyncio.Event) -> None:
    """Receive notifications in the modern era until cancelled."""
    await _listen(await send(port, "POST", _listening([uri])), inbox, ready)


async def sdk_client(port: int, uri: str, inbox: Inbox, ready: asyncio.Event, era: Era) -> None:
    """Receive notifications with the SDK's client until cancelled."""

    async def on_message(message: Any) -> None:  # noqa: ANN401 - any message of the SDK
        inbox.add(SDK_KINDS.get(type(message).__name__))

    mode = "legacy" if era is Era.HANDSHAKE else Era.MODERN.protocol
    url = f"http://127.0.0.1:{port}/mcp"
    headers = {"Authorization": f"Bearer {token}"} if (token := TOKEN.get()) else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(30, read=None)) as http,
        Client(
            streamable_http_client(url, http_client=http), mode=mode, message_handler=on_message, cache=None
        ) as client,
    ):
        if era is Era.HANDSHAKE:
            with warnings.catch_warnings():
                # The SDK deprecates this method, but the handshake era has no other.
                warnings.simplefilter("ignore", MCPDeprecationWarning)
                await client.session.subscribe_resource(uri)
            ready.set()
            await asyncio.Event().wait()
        async with client.listen(
            tools_list_changed=True,
            prompts_list_changed=True,
            resources_list_changed=True,
            resource_subscriptions=[uri],
        ):
            ready.set()
            await asyncio.Event().wait()


async def described(port: int, era: Era) -> str:
    """Return the description of the activation tool, as a client requests it after a notification."""
    session = await open_session(port) if era is Era.HANDSHAKE else None
    result = await ask(port, request(era, 3, "tools/list", {}), session)
    if session is not None:
        await (await send(port, "DELETE", session=session)).body()
    return str(result["tools"][0]["description"])


async def mixed_requests(port: int, era: Era, own: str, hidden: str | None, answered: Counter[str]) -> None:
    """Use the server as clients do until cancelled: list, search, activate, read; count the answers by method.

    `own` is a skill that the client sees, and `hidden` one that it must not see.
    """
    session = await open_session(port) if era is Era.HANDSHAKE else None
    for number in itertools.count(2):
        method, params = _MIX[number % len(_MIX)]
        filled = json.loads(json.dumps(params).replace("OWN", own))
        result = await ask(port, request(era, number, method, filled), session)
        if hidden in _offered(result):
            raise BenchError(f"{method} offers the hidden skill {hidden}")
        if result.get("isError"):
            raise BenchError(f"{method} failed: {result}")
        answered[method] += 1
        await asyncio.sleep(MIX_SECONDS)


def _offered(result: Message) -> set[str]:
    """Return the names of the skills that a list offers; texts of skills may name others."""
    uris = [each["uri"] for each in result.get("resources", ())]
    activation = next((tool for tool in result.get("tools", ()) if tool["name"] == "activate_skill"), None)
    names = activation["inputSchema"]["properties"]["name"]["enum"] if activation else ()
    return {
        *names,
        *(prompt["name"] for prompt in result.get("prompts", ())),
        *(uri.removeprefix("skill://").partition("/")[0] for uri in uris),
    }


async def never_reading(port: int, number: int) -> None:
    """Open streams without reading from them; open another when the server closes one."""
    for attempt in itertools.count():
        with suppress(*DISCONNECTED):
            if (number + attempt) % 2:
                stream = await send(port, "GET", session=await open_session(port))
            else:
                stream = await send(port, "POST", _listening([]))
            stream.reader._transport.pause_reading()  # type: ignore[attr-defined]  # noqa: SLF001 - asyncio has no public way
            await stream.writer.wait_closed()
        await asyncio.sleep(1)


async def abandoning_sessions(port: int, number: int) -> None:
    """Open a session each second and abandon it: idle, after a request, or by resetting its stream."""
    for attempt in itertools.count(number):
        with suppress(*DISCONNECTED):
            session = await open_session(port)
            if attempt % 3 == 1:
                call = {"name": "find_skills", "arguments": {"query": "edit"}}
                await ask(port, request(Era.HANDSHAKE, 2, "tools/call", call), session)
            elif attempt % 3 == 2:  # noqa: PLR2004 - one of three
                (await send(port, "GET", session=session)).reset()
        await asyncio.sleep(1)


async def looping_subscriptions(port: int, number: int) -> None:
    """Subscribe and unsubscribe in a loop, beyond the limit and to resources that do not exist."""
    session = ""
    for attempt in itertools.count():
        with suppress(*DISCONNECTED):
            if number % 2:
                (await send(port, "POST", _listening(MANY if attempt % 10 == 0 else MANY[:1]))).reset()
            else:
                session = session or await open_session(port)
                method = "resources/unsubscribe" if attempt % 2 else "resources/subscribe"
                params = {"uri": MANY[attempt % len(MANY)]}
                answer = await send(port, "POST", request(Era.HANDSHAKE, attempt + 2, method, params), session)
                await answer.body()
                session = session if answer.status == 200 else ""  # noqa: PLR2004 - HTTP's own number
        await asyncio.sleep(LOOP_SECONDS)


async def _listen(stream: Answer, inbox: Inbox, ready: asyncio.Event) -> None:
    if not stream.headers.get("content-type", "").startswith("text/event-stream"):
        raise BenchError(f"no event stream: HTTP {stream.status}: {(await stream.body())[:300]!r}")
    ready.set()
    async for message in stream.messages():
        inbox.add(KINDS.get(message.get("method", "")))


def _listening(uris: list[str]) -> Message:
    notifications: Message = {**ALL_LISTS, "resourceSubscriptions": uris}
    return request(Era.MODERN, 1, "subscriptions/listen", {"notifications": notifications})


def _notification(method: str) -> Message:
    return {"jsonrpc": "2.0", "method": method, "params": {}}
