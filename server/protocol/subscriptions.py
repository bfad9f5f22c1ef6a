"""Notifications of changes: how each client receives the events of its view.

A client of the modern era listens on `subscriptions/listen`, which the SDK serves from the feed of the view. A client
of the handshake era is notified on its connection: each connection has a forwarder that lives as long as the
connection and takes the events that the client has missed from the record of its view, each event once, so that a
slow client delays no other. Over HTTP, events do not wake a session without an open event stream; it catches up when
it opens one. A connection or stream keeps the view that it began with.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
from mcp.server.subscriptions import (
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from server.access import LOCAL, Principal, principal_of
from server.clients.known import client_of
from server.clients.profile import holds
from server.limits.pacing import TokenBucket
from server.listing.resources import EXTRA_URIS, extra_resource
from server.requests import RequestReason, note_denied, note_invalid, note_target
from server.wire.params import InvalidRequestError
from skills_core.skills.skill import decode_path, file_uri

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.session import ServerSession

    from server.config.settings.model import Settings
    from server.hosting.host import Host
    from server.hosting.views import ViewName
    from server.listing.snapshot import Snapshot
    from skills_core.catalog.catalog import Catalog


MAX_EVENTS = 20_000
"""Most events that are remembered; a client that missed more is notified of everything that it listens to."""


class RecentEvents:
    """Events in the order of their last occurrence."""

    def __init__(self) -> None:
        self._numbers: OrderedDict[ServerEvent, int] = OrderedDict()
        self._forgotten = 0
        self.last = 0

    def add(self, event: ServerEvent) -> None:
        """Record an event; its number is `last`."""
        self.last += 1
        self._numbers[event] = self.last
        self._numbers.move_to_end(event)
        if len(self._numbers) > MAX_EVENTS:
            _, self._forgotten = self._numbers.popitem(last=False)

    def since(self, number: int, subscriptions: AbstractSet[str]) -> list[ServerEvent]:
        """Return the events after event `number`; those of resources only if they are in `subscriptions`."""
        if number < self._forgotten:
            lists = (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged())
            return [*lists, *map(ResourceUpdated, sorted(subscriptions))]
        missed: list[ServerEvent] = []
        for event, happened in reversed(self._numbers.items()):
            if happened <= number:
                break
            if not isinstance(event, ResourceUpdated) or event.uri in subscriptions:
                missed.append(event)
        return missed[::-1]


logger = logging.getLogger(__name__)

MAX_SUBSCRIPTIONS = 2000
"""Most resources that a connection may subscribe to."""

MAX_URI = 4096
MAX_CHARACTERS = 400_000
"""Most characters of all resources that a connection subscribes to."""

BURST = 200
REFILL_PER_SECOND = 20.0
# Some clients subscribe in a loop, a hundred thousand times a minute.


_STDIO = ""
# The key of the only connection over stdio.


@dataclass(eq=False, slots=True)
class _ViewRecord:
    """The recent events of one view, kept while connections have the view; `end` ends the recording."""

    recent: RecentEvents
    end: Callable[[], None] = lambda: None
    connections: int = 0


@dataclass(slots=True)
class _HandshakeConnection:
    """One connection of the handshake era: the record of its view, its subscriptions, and the last event sent to it.

    `owner` is the principal that opened it. A client that `stalls` answers nothing after the news of a changed list.
    """

    record: _ViewRecord
    sent: int
    owner: Principal = LOCAL
    stalls: bool = False
    subscriptions: set[str] = field(default_factory=set)
    characters: int = 0
    wake: anyio.Event = field(default_factory=anyio.Event)
    bucket: TokenBucket = field(default_factory=lambda: TokenBucket(REFILL_PER_SECOND, BURST, time.monotonic()))

    def spend(self) -> None:
        if self.bucket.take(time.monotonic()):
            note_denied(RequestReason.LIMIT)
            message = f"too many subscription requests; keep below {REFILL_PER_SECOND:g} a second"
            raise InvalidRequestError(message)


class HandshakeClients:
    """The connections of the handshake era: `resources/subscribe`, and the forwarding of events."""

    def __init__(self, host: Host, forget: Callable[[str], None] = lambda _: None) -> None:
        """Forward the feeds of `host`; `forget` is called with each session that has ended."""
        self._host = host
        self._forget = forget
        self._connections: dict[str, _HandshakeConnection] = {}
        self._records: dict[ViewName, _ViewRecord] = {}
        # Over stdio, the only connection is always reachable.
        self._reachable: Counter[str] = Counter({_STDIO: 1})

    @contextmanager
    def _recorded(self, view: ViewName) -> Iterator[_ViewRecord]:
        """Record the events of a view within this context, in one record for all connections with the view."""
        record = self._records.get(view)
        if record is None:
            record = self._records[view] = _ViewRecord(RecentEvents())
            record.end = self._host.feed(view).subscribe(partial(self._on_event, record))
        record.connections += 1
        try:
            yield record
        finally:
            record.connections -= 1
            if not record.connections:
                record.end()
                del self._records[view]

    def _on_event(self, record: _ViewRecord, event: ServerEvent) -> None:
        record.recent.add(event)
        for key in self._reachable:
            connection = self._connections.get(key)
            if connection is not None and connection.record is record:
                connection.wake.set()

    @property
    def subscribers(self) -> int:
        """How many connections can be notified at present."""
        return sum(key in self._connections for key in self._reachable)

    def belongs_to_another(self, session: str, principal: Principal) -> bool:
        """Tell whether a session is open that another principal opened."""
        connection = self._connections.get(session)
        return connection is not None and _identity(connection.owner) != _identity(principal)

    @contextmanager
    def reachable(self, session: str) -> Iterator[None]:
        """Forward events to a session over HTTP within this context: its event stream stands."""
        self._reachable[session] += 1
        if (connection := self._connections.get(session)) is not None:
            connection.wake.set()
        try:
            yield
        finally:
            self._reachable[session] -= 1
            if not self._reachable[session]:
                del self._reachable[session]

    async def on_initialized(self, ctx: ServerRequestContext[Any, Any], _: types.NotificationParams) -> None:
        """Handle `notifications/initialized`: forward events to this connection for as long as it lives.

        The SDK runs each notification's handler in a task of its connection, and cancels it at the end.
        """
        if ctx.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
            return
        key = _key(ctx)
        if key in self._connections:
            return
        with self._recorded(self._host.view_name(ctx)) as record:
            connection = self._connections[key] = _HandshakeConnection(record, record.recent.last, principal_of(ctx))
            try:
                while True:
                    await self._notify(connection, key, ctx.session)
                    await connection.wake.wait()
                    connection.wake = anyio.Event()
            finally:
                del self._connections[key]
                self._forget(key)

    def on_prompts_listed(self, ctx: ServerRequestContext[Any, Any]) -> None:
        """Note that a client has listed prompts: of the frameworks that look alike, it is one that stalls.

        Semantic Kernel does so at its start. pydantic-ai before 2 declares the same, but asks for no prompts, and keeps
        the list of tools until it is told of a change.
        """
        connection = self._connections.get(_key(ctx))
        if connection is not None and holds(client_of(ctx).stalls):
            connection.stalls = True

    async def _notify(self, connection: _HandshakeConnection, key: str, session: ServerSession) -> None:
        """Notify a client of the events that it has missed, as long as it is reachable."""
        recent = connection.record.recent
        while key in self._reachable and connection.sent < recent.last:
            last = recent.last
            for event in recent.since(connection.sent, connection.subscriptions):
                if connection.stalls and not isinstance(event, ResourceUpdated):
                    continue
                await session.send_notification(_notification(event))
                if key not in self._reachable:
                    # A notification that was being sent when the stream ended may be lost, so it is sent again.
                    return
            connection.sent = last

    async def on_subscribe(
        self, ctx: ServerRequestContext[Any, Any], params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        """Handle `resources/subscribe`; a client may subscribe to a resource before it exists."""
        connection = self._connections.get(_key(ctx))
        if connection is None:
            raise InvalidRequestError("send notifications/initialized before subscribing")
        connection.spend()
        view = self._host.view(ctx)
        uri = _known_uri(str(params.uri), view)
        _note_unknown([uri], view.catalog)
        if uri not in connection.subscriptions:
            _require_room(len(connection.subscriptions) + 1, connection.characters + len(uri), "connection")
            connection.subscriptions.add(uri)
            connection.characters += len(uri)
        return types.EmptyResult()

    async def on_unsubscribe(
        self, ctx: ServerRequestContext[Any, Any], params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        """Handle `resources/unsubscribe`; a missing subscription is not an error."""
        connection = self._connections.get(_key(ctx))
        if connection is not None:
            view = self._host.view(ctx)
            asked = _normalized_uri(str(params.uri), view.settings)
            # Since the client subscribed, the file may have come, gone, or been renamed.
            uri = asked if asked in connection.subscriptions else _known_uri(asked, view)
            if uri in connection.subscriptions:
                connection.subscriptions.remove(uri)
                connection.characters -= len(uri)
        return types.EmptyResult()


def _require_room(count: int, characters: int, where: str) -> None:
    """Check the subscriptions that a connection or stream would have."""
    if count > MAX_SUBSCRIPTIONS:
        note_denied(RequestReason.LIMIT)
        raise InvalidRequestError(f"too many subscriptions; at most {MAX_SUBSCRIPTIONS} a {where}")
    if characters > MAX_CHARACTERS:
        note_denied(RequestReason.LIMIT)
        message = f"the URIs of subscriptions are too long; at most {MAX_CHARACTERS} characters together a {where}"
        raise InvalidRequestError(message)


def _normalized_uri(uri: str, settings: Settings) -> str:
    """Return the URI in the spelling of `resources/list`."""
    if extra_resource(uri, settings) is not None:
        return uri
    path = decode_path(uri) if len(uri) <= MAX_URI else None
    if path is None:
        raise InvalidRequestError(f"not a resource of this server: {uri[:200]!r}; expected a skill:// URI")
    return file_uri(path, "").removesuffix("/")


def _known_uri(uri: str, view: Snapshot) -> str:
    """Return the normalized URI, of the file that it names if that is spelled in another case: events have that URI."""
    normalized = _normalized_uri(uri, view.settings)
    found = view.catalog.file(normalized)
    return normalized if found is None else found[0].file_uri(found[1].path)


def _note_unknown(uris: Iterable[str], catalog: Catalog) -> None:
    """Note the first of some URIs that names no file of a catalog: a client may ask for its events all the same."""
    unknown = next((uri for uri in uris if uri not in EXTRA_URIS and catalog.file(uri) is None), None)
    if unknown is not None:
        note_target(unknown)
        note_invalid(RequestReason.UNKNOWN_FILE)


class ModernClients:
    """Serves `subscriptions/listen` within the same bounds as `resources/subscribe`, up to a number of streams."""

    def __init__(self, host: Host, most: int) -> None:
        """Forward the feeds of `host` to at most `most` streams."""
        self._host = host
        self._most = most
        self._is_full = False
        self._handlers: dict[ViewName, ListenHandler] = {}
        self._streams: Counter[ViewName] = Counter()

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve one stream of events.

        Raises:
            InvalidRequestError: the stream subscribes to too many resources, or to a URI that cannot be one, or there
                are too many streams.
        """
        self._require_stream()
        uris = params.notifications.resource_subscriptions or []
        _require_room(len(uris), sum(map(len, uris)), "stream")
        view = self._host.view_name(ctx)
        seen = self._host.view_called(view)
        known = [_known_uri(uri, seen) for uri in uris]
        _note_unknown(known, seen.catalog)
        # The SDK compares the URIs of events with those that were asked for.
        added = [uri for uri in known if uri not in uris]
        if added:
            filters = params.notifications.model_copy(update={"resource_subscriptions": [*uris, *added]})
            params = params.model_copy(update={"notifications": filters})
        handler = self._handlers.setdefault(view, ListenHandler(self._host.feed(view), max_subscriptions=self._most))
        self._streams[view] += 1
        try:
            return await handler(ctx, params)
        finally:
            self._streams[view] -= 1
            if not self._streams[view]:
                del self._streams[view], self._handlers[view]

    def _require_stream(self) -> None:
        """Check that one more stream may be open; the first refusal after there was room is logged."""
        is_full = self.subscribers >= self._most
        if is_full and not self._is_full:
            logger.warning("%d streams of events are open, and more are refused (limits.event_streams)", self._most)
        self._is_full = is_full
        if is_full:
            note_denied(RequestReason.LIMIT)
            raise InvalidRequestError(f"too many streams of events are open; this server has at most {self._most}")

    @property
    def subscribers(self) -> int:
        """How many streams are open."""
        return self._streams.total()

    def close(self) -> None:
        """End all streams; each client receives what is buffered for it, and the result."""
        for handler in [*self._handlers.values()]:
            handler.close()


def _identity(principal: Principal) -> tuple[str, str, str | None]:
    """Return what tells principals apart, whatever their roles are at present."""
    return principal.kind, principal.subject, principal.client_id


def _key(ctx: ServerRequestContext[Any, Any]) -> str:
    """Return the key of a connection: the session over HTTP; over stdio there is only one connection."""
    headers = getattr(ctx.request, "headers", {})
    return str(headers.get("mcp-session-id", _STDIO))


def _notification(event: ServerEvent) -> types.ServerNotification:
    if isinstance(event, ToolsListChanged):
        return types.ToolListChangedNotification()
    if isinstance(event, PromptsListChanged):
        return types.PromptListChangedNotification()
    if isinstance(event, ResourcesListChanged):
        return types.ResourceListChangedNotification()
    return types.ResourceUpdatedNotification(params=types.ResourceUpdatedNotificationParams(uri=event.uri))
