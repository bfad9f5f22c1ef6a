"""Follow the events of running servers: find them, read their streams, and connect again when they restart.

Each server is read by a task of its own, which tells a `Watcher` what it reads. What a server sends is not trusted: it
is bounded, and shown without characters that a terminal obeys or that hide a text.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio
import anyio.to_thread
import httpx2

from server.capabilities.operation.events import BEAT_SECONDS
from server.capabilities.operation.settings import EVENTS_PATH, REFUSALS
from server.config.machine import runtime_folders
from server.limits.pacing import Backoff
from server.transport.admin_sockets import open_sockets
from skills_core.diagnostics import one_line
from skills_core.errors import SkillsError
from skills_core.texts import with_hidden_shown

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

_CONNECT_SECONDS: Final = 10.0
_SILENCE_SECONDS: Final = 3 * BEAT_SECONDS
_LOOK_SECONDS: Final = 1.0
# How often new servers are looked for.

_FIRST_RETRY_SECONDS: Final = 0.2
_MAX_RETRY_SECONDS: Final = 5.0
_MAX_BUFFER: Final = 1 << 20
_MAX_TEXT: Final = 600
_MAX_EVENTS: Final = 500


class WatchError(SkillsError):
    """A server refuses to be watched, or does not answer as this one does."""


class _GoneError(Exception):
    """The connection to a server broke, or there is none."""


@dataclass(frozen=True, slots=True)
class Target:
    """A server to watch: its socket, or its address with the headers that prove a role."""

    name: str
    url: str
    socket: Path | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    proxy: str | None = None


class WatchedEvent(NamedTuple):
    """An event as it is shown; `given` is the object of the server."""

    server: str
    time: datetime
    kind: str
    text: str
    who: str
    milliseconds: float | None
    is_trouble: bool
    given: Mapping[str, Any]


@dataclass(slots=True)
class WatchedServer:
    """What is known of a server; `about` is the object that it sent last, and `is_there` tells whether it answers."""

    about: Mapping[str, Any] = field(default_factory=dict)
    is_there: bool = False
    last_id: str = ""


def shown(text: object) -> str:
    """Return a text of a server for a terminal."""
    return one_line(with_hidden_shown(str(text)[:_MAX_TEXT]))


class Watcher:
    """What is known of the watched servers; `on_event` and `on_notice` are called with what is new."""

    def __init__(
        self, on_event: Callable[[WatchedEvent], None], on_notice: Callable[[str], None], *, is_one: bool
    ) -> None:
        """Know nothing yet; `is_one` tells that one server was named, to which to connect again."""
        self._on_event = on_event
        self._on_notice = on_notice
        self._is_one = is_one
        self._refused: set[str] = set()
        self.servers: dict[str, WatchedServer] = {}
        self.events: deque[WatchedEvent] = deque(maxlen=_MAX_EVENTS)

    async def follow(self, targets: Sequence[Target]) -> None:
        """Follow the servers, until cancelled; without a named one, also those that are started later.

        Raises:
            WatchError: the named server refuses, or does not answer at all.
        """
        async with anyio.create_task_group() as tasks:
            for target in targets:
                self._begin(target, tasks)
            while not self._is_one:
                await anyio.sleep(_LOOK_SECONDS)
                for target in await anyio.to_thread.run_sync(found_servers):
                    known = self.servers.get(target.name)
                    if target.name not in self._refused and (known is None or not known.is_there):
                        self._begin(target, tasks)

    def counts(self, now: datetime) -> Counter[str]:
        """Return how many events of each kind there were in the last minute."""
        return Counter(event.kind for event in self.events if (now - event.time).total_seconds() <= 60)  # noqa: PLR2004

    def _begin(self, target: Target, tasks: TaskGroup) -> None:
        server = self.servers.setdefault(target.name, WatchedServer())
        server.is_there = True
        tasks.start_soon(self._follow_one, target, server)

    async def _follow_one(self, target: Target, server: WatchedServer) -> None:
        pauses = iter(Backoff(_FIRST_RETRY_SECONDS, _MAX_RETRY_SECONDS))
        while True:
            try:
                if await self._read(target, server):
                    pauses = iter(Backoff(_FIRST_RETRY_SECONDS, _MAX_RETRY_SECONDS))
            except WatchError as error:
                if self._is_one:
                    raise
                self._on_notice(str(error))
                self._refused.add(target.name)
                return
            if not self._is_one:
                # If it comes again, its socket is found again.
                return
            await anyio.sleep(next(pauses))

    async def _read(self, target: Target, server: WatchedServer) -> bool:
        """Read the events of a server until it ends; return whether it answered.

        Raises:
            WatchError: it refuses, does not answer as this one does, or is named and has never answered.
        """
        was_there = bool(server.about)
        answered = False
        try:
            async for kind, number, data in _stream(target, server.last_id):
                if not answered and was_there:
                    self._on_notice(f"{target.name} answers again")
                answered = server.is_there = True
                self._take(target, server, kind, number, data)
        except _GoneError as error:
            if self._is_one and not server.about:
                raise WatchError(f"{target.name} cannot be reached: {error}") from None
        server.is_there = False
        if answered:
            self._on_notice(f"{target.name} has ended{'; waiting for it' if self._is_one else ''}")
        return answered

    def _take(self, target: Target, server: WatchedServer, kind: str, number: str, data: Mapping[str, Any]) -> None:
        if kind == "server":
            server.about = data
        elif kind == "missed":
            self._on_notice(f"{target.name}: {data.get('count')} events are missing here; they came too fast")
        elif kind == "activity":
            server.last_id = number
            event = _event_of(target.name, data)
            self.events.append(event)
            self._on_event(event)


def found_servers() -> list[Target]:
    """Return the servers of this user on this machine, by their sockets."""
    return [target_of_socket(path) for path in open_sockets(runtime_folders())]


def target_of_socket(path: Path) -> Target:
    """Return the server with a socket."""
    kind, _, pid = path.stem.partition("-")
    name = f"{kind} {pid}" if pid else f"port {kind}"
    return Target(name, f"http://localhost{EVENTS_PATH}", path)


def _event_of(server: str, data: Mapping[str, Any]) -> WatchedEvent:
    try:
        time = datetime.fromisoformat(str(data["time"])).astimezone()
        taken = data.get("milliseconds")
        milliseconds = None if taken is None else float(taken)
    except (KeyError, ValueError, TypeError):
        raise WatchError(f"{server} does not send events as skillserve does") from None
    who = ", ".join(shown(data[name]) for name in ("client", "who", "address") if data.get(name))
    kind, text = shown(data.get("kind", "")), shown(data.get("text", ""))
    return WatchedEvent(server, time, kind, text, who, milliseconds, bool(data.get("is_trouble")), data)


async def _stream(target: Target, last_id: str) -> AsyncIterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the kind, the id and the object of each event that a server sends, until it ends the stream.

    Raises:
        _GoneError: the server cannot be reached, or the connection broke.
        WatchError: it refuses, or does not answer as this one does.
    """
    headers = {"Accept": "text/event-stream", **target.headers, **({"Last-Event-ID": last_id} if last_id else {})}
    request = httpx2.Request("GET", target.url, headers=headers)
    timeout = {"connect": _CONNECT_SECONDS, "read": _SILENCE_SECONDS, "write": _CONNECT_SECONDS, "pool": None}
    request.extensions["timeout"] = timeout
    uds = None if target.socket is None else str(target.socket)
    try:
        # The transport alone logs no address and follows no redirect.
        async with httpx2.AsyncHTTPTransport(uds=uds, proxy=target.proxy) as transport:
            response = await transport.handle_async_request(request)
            try:
                if response.status_code != HTTPStatus.OK:
                    raise WatchError(_refusal(target, response.status_code))
                async for event in _parsed(target, response.aiter_bytes()):
                    yield event
            finally:
                await response.aclose()
    except (httpx2.TransportError, OSError) as error:
        raise _GoneError(one_line(str(error)) or type(error).__name__) from None


def _refusal(target: Target, status: int) -> str:
    if target.socket is not None and status == HTTPStatus.NOT_FOUND:
        return f"{target.name}: this server is older and cannot be watched; restart it with this version"
    return f"{target.name}: {REFUSALS.get(status, f'the server answered with HTTP {status}')}"


async def _parsed(target: Target, chunks: AsyncIterator[bytes]) -> AsyncIterator[tuple[str, str, Mapping[str, Any]]]:
    kept = b""
    async for chunk in chunks:
        *blocks, kept = (kept + chunk).split(b"\n\n")
        if len(kept) > _MAX_BUFFER:
            raise WatchError(f"{target.name} sends an event that is too large")
        for block in blocks:
            fields = dict(line.partition(": ")[::2] for line in block.decode("utf-8", "replace").split("\n"))
            try:
                data = json.loads(fields["data"])
            except (KeyError, ValueError, RecursionError):
                raise WatchError(f"{target.name} does not send events as skillserve does") from None
            if not isinstance(data, dict):
                raise WatchError(f"{target.name} does not send events as skillserve does")
            yield fields.get("event", ""), fields.get("id", ""), data
