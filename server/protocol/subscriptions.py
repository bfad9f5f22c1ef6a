"""Notifications of changes: how each client receives the events of its view.

A client of the modern era listens on `subscriptions/listen`. A client of the handshake era is notified on its
connection: over HTTP on the event stream that it holds open, and a session without one catches up when it opens one.
Both take the events that they have missed from the record of their view (`deliveries`), each event once. A connection
or stream keeps the view that it began with.

Over stdio, the SDK sends the notifications. Over HTTP, prepared frames go to the open response.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY, ResourceUpdated
from mcp.shared.subscriptions import event_matches, event_to_notification
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from server.access import LOCAL, Principal, principal_of
from server.clients.known import client_of
from server.clients.profile import holds
from server.limits.pacing import TokenBucket
from server.listing.resources import EXTRA_URIS, extra_resource
from server.protocol.deliveries import (
    EventRecord,
    EventRecords,
    Listener,
    NumberedEvent,
    Send,
    handshake_frames,
    modern_frames,
    notification_of,
)
from server.requests import RequestReason, note_denied, note_invalid, note_target
from server.wire.event_writer import EventWriter, writer_of
from server.wire.params import InvalidRequestError
from skills_core.skills.skill import decode_path, file_uri

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.session import ServerSession

    from server.config.settings.model import Settings
    from server.hosting.host import Host
    from server.listing.snapshot import Snapshot
    from skills_core.catalog.catalog import Catalog


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

_MAX_DIGITS = 15
# Of a number that a client sends as the id of an event.


@dataclass(eq=False, slots=True)
class _HandshakeConnection:
    """One connection of the handshake era: the record of its view, its subscriptions, and the last event sent to it.

    `owner` is the principal that opened it, when event `begun` was the last one. A client that `stalls` answers nothing
    after the news of a changed list.
    """

    record: EventRecord
    begun: int
    sent: int
    owner: Principal = LOCAL
    stalls: bool = False
    subscriptions: set[str] = field(default_factory=set)
    characters: int = 0
    bucket: TokenBucket | None = None

    def spend(self) -> None:
        now = time.monotonic()
        if self.bucket is None:
            self.bucket = TokenBucket(REFILL_PER_SECOND, BURST, now)
        if self.bucket.take(now):
            note_denied(RequestReason.LIMIT)
            message = f"too many subscription requests; keep below {REFILL_PER_SECOND:g} a second"
            raise InvalidRequestError(message)

    def went_back(self, last_event: str) -> None:
        """Note the id of the last event that the client has received: what was sent after it may be lost."""
        if last_event.isascii() and last_event.isdigit() and len(last_event) <= _MAX_DIGITS:
            number = int(last_event)
            self.sent = number if self.begun <= number < self.sent else self.sent

    async def deliver(self, send: Send) -> None:
        """Send the events that the client has missed; if this is cancelled, they are sent again."""
        recent = self.record.recent
        while self.sent < recent.last:
            last = recent.last
            missed = recent.since(self.sent, self.subscriptions)
            if self.stalls:
                missed = [each for each in missed if isinstance(each[1], ResourceUpdated)]
            if missed:
                await send(missed)
            self.sent = last


@dataclass(eq=False, slots=True)
class _Outlet(Listener):
    """The way to a client of the handshake era: stdout, or the open event stream of its session."""

    last_event: str = ""


class HandshakeClients:
    """The connections of the handshake era: `resources/subscribe`, and the forwarding of events."""

    def __init__(self, host: Host, records: EventRecords, forget: Callable[[str], None] = lambda _: None) -> None:
        """Forward the events of `records`; `forget` is called with each session that has ended."""
        self._host = host
        self._records = records
        self._forget = forget
        self._connections: dict[str, _HandshakeConnection] = {}
        self._outlets: dict[str, _Outlet] = {}

    @property
    def subscribers(self) -> int:
        """How many connections can be notified at present."""
        return sum(key in self._connections for key in self._outlets)

    def belongs_to_another(self, session: str, principal: Principal) -> bool:
        """Tell whether a session is open that another principal opened."""
        connection = self._connections.get(session)
        return connection is not None and _identity(connection.owner) != _identity(principal)

    async def forward(self, session: str, writer: EventWriter) -> None:
        """Forward events to a session over HTTP until cancelled: its event stream stands."""

        async def send(events: Sequence[NumberedEvent]) -> None:
            await writer.write(handshake_frames(events))

        await self._forward(session, _Outlet(last_event=writer.last_event), send)

    async def on_initialized(self, ctx: ServerRequestContext[Any, Any], _: types.NotificationParams) -> None:
        """Handle `notifications/initialized`: from now on the client can be notified, until its connection ends.

        Over stdio this forwards events until then: the SDK runs the handler in a task of the connection. A session over
        HTTP has no such task while it is asleep: whatever serves it says when it has `ended`.
        """
        if ctx.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
            return
        key = _key(ctx)
        if key in self._connections:
            return
        record = self._records.take(self._host.view_name(ctx))
        last = record.recent.last
        self._connections[key] = _HandshakeConnection(record, last, last, principal_of(ctx))
        if key == _STDIO:
            try:
                await self._forward(key, _Outlet(), partial(_send_each, ctx.session))
            finally:
                self.ended(key)
        elif (outlet := self._outlets.get(key)) is not None:
            outlet.wake()

    def ended(self, key: str) -> None:
        """Forget a connection that has ended, a session over HTTP by its id; it may never have been initialized."""
        connection = self._connections.pop(key, None)
        if connection is not None:
            self._records.release(connection.record)
        self._forget(key)

    async def _forward(self, key: str, outlet: _Outlet, send: Send) -> None:
        """Send events to a connection as they come, from the time on at which it is initialized."""
        self._outlets[key] = outlet
        try:
            while (connection := self._connections.get(key)) is None:
                await outlet.until_woken()
            connection.went_back(outlet.last_event)
            with self._records.notified(connection.record, outlet):
                while True:
                    await outlet.until_woken()
                    await connection.deliver(send)
        finally:
            if self._outlets.get(key) is outlet:
                del self._outlets[key]

    def on_prompts_listed(self, ctx: ServerRequestContext[Any, Any]) -> None:
        """Note that a client has listed prompts: of the frameworks that look alike, it is one that stalls.

        Semantic Kernel does so at its start. pydantic-ai before 2 declares the same, but asks for no prompts, and keeps
        the list of tools until it is told of a change.
        """
        connection = self._connections.get(_key(ctx))
        if connection is not None and holds(client_of(ctx).stalls):
            connection.stalls = True

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


@dataclass(eq=False, slots=True)
class _ModernStream(Listener):
    """One stream of the modern era; `is_closing` once the server ends it."""

    is_closing: bool = False


class ModernClients:
    """Serves `subscriptions/listen` within the same bounds as `resources/subscribe`, up to a number of streams."""

    def __init__(self, host: Host, records: EventRecords, most: int) -> None:
        """Forward the events of `records` to at most `most` streams."""
        self._host = host
        self._records = records
        self._most = most
        self._is_full = False
        self._streams: set[_ModernStream] = set()

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve one stream of events.

        Raises:
            InvalidRequestError: the stream subscribes to too many resources, or to a URI that cannot be one, or there
                are too many streams.
        """
        self._require_stream()
        if ctx.request_id is None:
            raise InvalidRequestError("subscriptions/listen is a request, which has an id")
        uris = params.notifications.resource_subscriptions or []
        _require_room(len(uris), sum(map(len, uris)), "stream")
        name = self._host.view_name(ctx)
        view = self._host.view_called(name)
        known = [_known_uri(uri, view) for uri in uris]
        _note_unknown(known, view.catalog)
        # The client knows the resources by the URIs that it asked for.
        honoured = _honoured(params.notifications, [*dict.fromkeys([*uris, *known])])
        stream = _ModernStream()
        self._streams.add(stream)
        try:
            with self._records.of(name) as record:
                await self._serve(ctx, honoured, stream, record)
        finally:
            self._streams.discard(stream)
        return types.SubscriptionsListenResult(_meta={SUBSCRIPTION_ID_META_KEY: ctx.request_id})

    async def _serve(
        self,
        ctx: ServerRequestContext[Any, Any],
        honoured: types.SubscriptionFilter,
        stream: _ModernStream,
        record: EventRecord,
    ) -> None:
        """Acknowledge a stream, and send it the events that it wants, until it is closed and has all of them."""
        meta = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
        recent, uris = record.recent, frozenset(honoured.resource_subscriptions or ())
        sent, send = recent.last, _modern_send(ctx)
        acknowledged = types.SubscriptionsAcknowledgedNotificationParams(notifications=honoured, _meta=meta)
        await ctx.session.send_notification(
            types.SubscriptionsAcknowledgedNotification(params=acknowledged), related_request_id=ctx.request_id
        )
        with self._records.notified(record, stream):
            while True:
                await stream.until_woken()
                while sent < recent.last:
                    last = recent.last
                    missed = [each for each in recent.since(sent, uris) if event_matches(honoured, uris, each[1])]
                    if missed:
                        await send(missed)
                    sent = last
                if stream.is_closing:
                    return

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
        return len(self._streams)

    def close(self) -> None:
        """End all streams; each client receives what it has missed, and the result."""
        for stream in self._streams:
            stream.is_closing = True
            stream.wake()


def _honoured(asked: types.SubscriptionFilter, uris: list[str]) -> types.SubscriptionFilter:
    """Return what a stream is notified of: all that its client asked for, without what it did not."""
    return types.SubscriptionFilter(
        tools_list_changed=asked.tools_list_changed or None,
        prompts_list_changed=asked.prompts_list_changed or None,
        resources_list_changed=asked.resources_list_changed or None,
        resource_subscriptions=uris or None,
    )


def _modern_send(ctx: ServerRequestContext[Any, Any]) -> Send:
    """Return how events go to a stream of the modern era: over HTTP in frames that all streams share."""
    subscription = ctx.request_id
    writer = writer_of(ctx.request)
    if writer is None or subscription is None:
        return partial(_send_each, ctx.session, subscription=subscription)

    async def send(events: Sequence[NumberedEvent]) -> None:
        await writer.write(modern_frames(events, subscription))

    return send


async def _send_each(
    session: ServerSession, events: Sequence[NumberedEvent], *, subscription: types.RequestId | None = None
) -> None:
    """Send events by the SDK: those of a stream of the modern era with the id of its `subscription`."""
    meta = {SUBSCRIPTION_ID_META_KEY: subscription}
    for _, event in events:
        notification = notification_of(event) if subscription is None else event_to_notification(event, meta)
        await session.send_notification(notification, related_request_id=subscription)


def _identity(principal: Principal) -> tuple[str, str, str | None]:
    """Return what tells principals apart, whatever their roles are at present."""
    return principal.kind, principal.subject, principal.client_id


def _key(ctx: ServerRequestContext[Any, Any]) -> str:
    """Return the key of a connection: the session over HTTP; over stdio there is only one connection."""
    headers = getattr(ctx.request, "headers", {})
    return str(headers.get("mcp-session-id", _STDIO))
