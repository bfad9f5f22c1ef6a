"""From a change of the catalog to notifications: which lists really changed, and how each client hears of it.

Clients of the modern era listen on `subscriptions/listen`, which the SDK serves from the bus. Clients of the
handshake era are told on their connection: each has a forwarder that lives as long as the connection and takes what
the client has missed from the one record of recent events, each event once, so that a slow client delays no other.
Over HTTP a session without an open event stream is not woken by events; it catches up when it opens one.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
from mcp.server.subscriptions import (
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ServerEvent,
    SubscriptionBus,
    ToolsListChanged,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from server.listing.admin import STATUS_URI, offers_status
from server.protocol.recent_events import RecentEvents
from server.wire.errors import InvalidRequestError
from skills_core.uris import decode_path, file_uri

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp.server.context import ServerRequestContext
    from mcp.server.session import ServerSession

    from server.config.settings import Settings

__all__ = ["HandshakeClients", "ModernClients"]

logger = logging.getLogger(__name__)

MAX_SUBSCRIPTIONS = 2000
"""Most resources that one connection may subscribe to."""

MAX_URI = 4096

BURST = 200
REFILL_PER_SECOND = 20.0
# There are clients that subscribe in a loop, a hundred thousand times a minute.


_STDIO = ""
# The key of the only connection over stdio.


@dataclass(slots=True)
class _Connection:
    """One connection of the handshake era: its subscriptions, and the last event that the client was told of."""

    told: int
    subscriptions: set[str] = field(default_factory=set)
    wake: anyio.Event = field(default_factory=anyio.Event)
    tokens: float = BURST
    refilled: float = field(default_factory=time.monotonic)

    def spend(self) -> None:
        now = time.monotonic()
        self.tokens = min(BURST, self.tokens + (now - self.refilled) * REFILL_PER_SECOND)
        self.refilled = now
        if self.tokens < 1:
            message = f"too many subscription requests; keep below {REFILL_PER_SECOND:g} a second"
            raise InvalidRequestError(message)
        self.tokens -= 1


class HandshakeClients:
    """The connections of the handshake era: `resources/subscribe`, and the forwarding of events."""

    def __init__(
        self, bus: SubscriptionBus, settings: Settings, forget: Callable[[str], None] = lambda _: None
    ) -> None:
        """Forward what is published on `bus`; `forget` is called with each session that has ended."""
        self._settings = settings
        self._forget = forget
        self._connections: dict[str, _Connection] = {}
        self._recent = RecentEvents()
        # Over stdio, the only connection can always be told.
        self._reachable: Counter[str] = Counter({_STDIO: 1})
        bus.subscribe(self._on_event)

    def _on_event(self, event: ServerEvent) -> None:
        self._recent.add(event)
        for key in self._reachable:
            self._wake(key)

    def _wake(self, key: str) -> None:
        connection = self._connections.get(key)
        if connection is not None:
            connection.wake.set()

    @contextmanager
    def reachable(self, session: str) -> Iterator[None]:
        """Forward events to a session over HTTP within this context: its event stream stands."""
        self._reachable[session] += 1
        self._wake(session)
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
        connection = self._connections[key] = _Connection(self._recent.last)
        try:
            while True:
                await self._tell(connection, key, ctx.session)
                await connection.wake.wait()
                connection.wake = anyio.Event()
        finally:
            del self._connections[key]
            self._forget(key)

    async def _tell(self, connection: _Connection, key: str, session: ServerSession) -> None:
        """Tell a client what it has missed, as far as it can be reached."""
        while key in self._reachable and connection.told < self._recent.last:
            last = self._recent.last
            for event in self._recent.since(connection.told, connection.subscriptions):
                await session.send_notification(_notification(event))
                if key not in self._reachable:
                    # What was on its way when the stream ended may be lost: it is told again on the next.
                    return
            connection.told = last

    async def on_subscribe(
        self, ctx: ServerRequestContext[Any, Any], params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        """Handle `resources/subscribe`; a resource may be subscribed to before it is there."""
        connection = self._connections.get(_key(ctx))
        if connection is None:
            raise InvalidRequestError("send notifications/initialized before subscribing")
        connection.spend()
        uri = _subscribable(str(params.uri), self._settings)
        if uri not in connection.subscriptions and len(connection.subscriptions) >= MAX_SUBSCRIPTIONS:
            raise InvalidRequestError(f"too many subscriptions; at most {MAX_SUBSCRIPTIONS} a connection")
        connection.subscriptions.add(uri)
        return types.EmptyResult()

    async def on_unsubscribe(
        self, ctx: ServerRequestContext[Any, Any], params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        """Handle `resources/unsubscribe`; one that was not there is no fault."""
        connection = self._connections.get(_key(ctx))
        if connection is not None:
            connection.subscriptions.discard(_subscribable(str(params.uri), self._settings))
        return types.EmptyResult()


def _subscribable(uri: str, settings: Settings) -> str:
    """Return a URI as resources are listed; it may be spelled otherwise, but must be one of ours.

    Raises:
        InvalidRequestError: it can name no file of a skill, and is not the status where that is switched on.
    """
    if uri == STATUS_URI and offers_status(settings):
        return uri
    path = decode_path(uri) if len(uri) <= MAX_URI else None
    if path is None:
        raise InvalidRequestError(f"not a resource of this server: {uri[:200]!r}; expected a skill:// URI")
    return file_uri(path, "").removesuffix("/")


class ModernClients(ListenHandler):
    """Serves `subscriptions/listen` within the same bounds as `resources/subscribe`."""

    def __init__(self, bus: SubscriptionBus, settings: Settings) -> None:
        """Forward what is published on `bus`."""
        super().__init__(bus)
        self._settings = settings

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve one stream of events.

        Raises:
            InvalidRequestError: the stream asks for too many resources, or for what is none.
        """
        uris = params.notifications.resource_subscriptions or []
        if len(uris) > MAX_SUBSCRIPTIONS:
            raise InvalidRequestError(f"too many subscriptions; at most {MAX_SUBSCRIPTIONS} a stream")
        for uri in uris:
            _subscribable(uri, self._settings)
        return await super().__call__(ctx, params)


def _key(ctx: ServerRequestContext[Any, Any]) -> str:
    """Return what tells connections apart: the session over HTTP; over stdio there is one only."""
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
