"""Serve many clients over streamable HTTP, with the routes of operators beside the MCP endpoint."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, cast

import anyio
import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from server.access import Profiles
from server.capability import Authentication, HttpContext, HttpPart
from server.transport.bodies import RecordedRefusals, RequestBodies
from server.transport.connections import BoundedProtocol, WaitingClients
from server.transport.direct_answers import DirectAnswers
from server.transport.event_streams import Draining, EventStreams
from server.transport.greeting import Greeting
from server.transport.listening import checks_host
from server.transport.profiles import ProfileRoutes, ProfileSessions
from server.transport.sessions import HandshakeSessions

if TYPE_CHECKING:
    import asyncio
    import socket

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from server.config.settings.server import HttpSettings
    from server.hosting.host import Host
    from server.protocol.server import SkillServer

logger = logging.getLogger(__name__)


_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

_METHODS = ("GET", "POST", "DELETE")
# Those of the endpoint.

_READABLE_HEADERS = ("Mcp-Session-Id", "Mcp-Protocol-Version", "WWW-Authenticate", "Retry-After")
# Those of answers that scripts of a page need beyond what browsers let them read.

_GRACE_SECONDS = 3
# Everything still running this long after a stop is cancelled.

_NAMES_SECONDS = 30.0
_NEW_PROXY_SECONDS = 1.0
_RESOLVE_SECONDS = 1.0
# How often the names of proxies are asked for, at most how often for one that is not known, and for how long.

_REQUEST_SECONDS = 1.0
# Requests are cancelled this long after a stop.

_CONNECTION_SECONDS = 2.0
# Connections are closed this long after a stop, whether or not the client has read its response.


def build_app(
    server: SkillServer,
    host: Host,
    *,
    streams: bool = False,
    routes: Sequence[Route] = (),
    authentication: Authentication | None = None,
) -> EventStreams:
    """Return the ASGI application, which tracks its responses; it has `routes` beside the MCP endpoint.

    With `streams`, responses are event streams, which also carry questions and progress notifications to the client.
    Without, they are single JSON bodies, which cost less. With an `authentication`, the endpoint is closed to others.
    """
    settings = host.settings.http
    security = _security(settings)
    profiles = Profiles(host.settings.access.profiles)
    metadata = [] if authentication is None else authentication.routes(settings.path, profiles.names)
    app = server.streamable_http_app(
        streamable_http_path=settings.path,
        json_response=not streams,
        max_request_body_size=host.settings.limits.request_bytes,
        transport_security=security,
        custom_starlette_routes=[*routes, *metadata],
    )
    # A redirect would name the scheme and the host as the server sees them, and clients would send their token there.
    app.router.redirect_slashes = False
    if not settings.path.endswith("/"):
        app.router.routes.append(Route(f"{settings.path}/", _redirect_to(settings.path), methods=_METHODS))
    route = _endpoint_route(app, settings.path)
    limits, idle_seconds = host.settings.limits, settings.session_idle_seconds
    sessions = HandshakeSessions(route.app, server, security, idle_seconds, streams=streams)
    _serve_within(app, sessions, server)
    direct = DirectAnswers(sessions, server, security, streams=streams)
    bodies = RequestBodies(direct, limits, in_turns=authentication is not None)
    route.app = RecordedRefusals(bodies, server.records)
    if authentication is not None:
        from server.transport.limiting import Limiting  # noqa: PLC0415 - limits need principals

        is_foreign = server.handshake.belongs_to_another
        limited = Limiting(route.app, limits, idle_seconds, server.records, is_foreign)
        sessions.on_end(lambda session, principal: limited.ended(principal, session))
        route.app = authentication.layer(limited)
    greeting = Greeting(host, security)
    route.app = greeting.beside(route.app)
    _greet_at_root(app, greeting)
    taken = {route.path for route in app.routes if isinstance(route, Route)}
    opened = ProfileSessions(idle_seconds)
    sessions.on_end(lambda session, _: opened.ended(session))
    routed = ProfileRoutes(_with_direct_endpoint(app, settings.path), settings.path, profiles, opened, taken)
    return EventStreams(_readable_from(settings, routed), server.handshake.forward)


def _serve_within(app: Starlette, sessions: HandshakeSessions, server: SkillServer) -> None:
    """Let sessions be served while `app` is, and the server know of them."""
    sessions.on_end(lambda session, _: server.handshake.ended(session))
    server.session_counts = lambda: sessions.counts
    lifespan = app.router.lifespan_context

    @asynccontextmanager
    async def with_sessions(app: Starlette) -> AsyncGenerator[None]:
        async with lifespan(app), sessions.serving():
            yield

    app.router.lifespan_context = with_sessions


def _greet_at_root(app: Starlette, greeting: Greeting) -> None:
    """Let the root greet whoever asks for it, except browsers if there is a page for them."""
    page = next((each for each in app.routes if isinstance(each, Route) and each.path == "/"), None)
    if page is None:
        app.router.routes.append(Route("/", greeting.at_root))
    else:
        page.app = greeting.instead_of(page.app)


def _readable_from(settings: HttpSettings, app: ASGIApp) -> ASGIApp:
    """Return the application that lets web pages of `http.allowed_origins` read its answers (CORS).

    It answers their preflights, which have no token, before the login. Pages of the allowed hosts on another port need
    to be named too: their requests are accepted, but a browser shows them no answer.
    """
    if not settings.allowed_origins:
        return app
    from starlette.middleware.cors import CORSMiddleware  # noqa: PLC0415 - most servers have no such pages

    with_any_port = [origin.removesuffix(":*") for origin in settings.allowed_origins if origin.endswith(":*")]
    return CORSMiddleware(
        app,
        # Here, `*` alone would stand for all origins.
        allow_origins=[origin for origin in settings.allowed_origins if "*" not in origin],
        allow_origin_regex="|".join(rf"{re.escape(origin)}:\d{{1,5}}" for origin in with_any_port) or None,
        allow_methods=_METHODS,
        # Clients of the modern era send headers whose names skills and tools choose.
        allow_headers=["*"],
        allow_private_network=True,
        expose_headers=_READABLE_HEADERS,
    )


def _with_direct_endpoint(app: Starlette, path: str) -> ASGIApp:
    """Return an application that passes requests for the MCP endpoint to it at once, and all others to `app`.

    Without middleware of its own, Starlette's layers add nothing to this endpoint but time: it answers every method,
    and uvicorn answers an exception as they would.
    """
    endpoint = _endpoint_route(app, path).app
    if app.user_middleware:
        return app

    async def direct(scope: Scope, receive: Receive, send: Send) -> None:
        is_endpoint = scope["type"] == "http" and scope["path"] == path and not scope.get("root_path")
        await (endpoint if is_endpoint else app)(scope, receive, send)

    return direct


def _redirect_to(path: str) -> Callable[[Request], Awaitable[Response]]:
    """Return a handler that sends clients to a path of the same server."""

    async def redirect(_: Request) -> Response:
        return Response(status_code=308, headers={"Location": path})

    return redirect


def _endpoint_route(app: Starlette, path: str) -> Route:
    return next(route for route in app.routes if isinstance(route, Route) and route.path == path)


def _security(settings: HttpSettings) -> TransportSecuritySettings:
    """Guard against DNS rebinding: accept only our own names in the Host and Origin headers.

    A server that listens on other addresses than loopback knows its names only from `allowed_hosts`; without them,
    nothing is checked.
    """
    if not checks_host(settings):
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    names = (*settings.allowed_hosts, *_LOOPBACK)
    hosts = [*names, *(f"{name}:*" for name in names)]
    # Behind a proxy with TLS, pages of the host have https, of which the server sees nothing else.
    own = (f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts)
    origins = [*settings.allowed_origins, *own]
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)


class _TrustedProxies:
    """ASGI middleware: of requests of the proxies in front, take the address of the client from `X-Forwarded-For`."""

    def __init__(self, app: ASGIApp, proxies: Sequence[str]) -> None:
        """Trust `proxies`: addresses, networks, and `dns:NAME` for the addresses of a name."""
        self._app = app
        self._names = [proxy.removeprefix("dns:") for proxy in proxies if proxy.startswith("dns:")]
        self._fixed = [proxy for proxy in proxies if not proxy.startswith("dns:")]
        self._known: frozenset[str] = frozenset()
        self._layer = self._trusting()
        self._asked = -math.inf

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if self._names and scope["type"] == "http":
            # A proxy that is new, as after an update, has an address that is not known yet.
            peer = (scope.get("client") or ("",))[0]
            seconds = _NAMES_SECONDS if peer in self._known else _NEW_PROXY_SECONDS
            if time.monotonic() >= self._asked + seconds:
                self._asked = time.monotonic()
                await self._resolve()
        await self._layer(scope, receive, send)

    def _trusting(self) -> ASGIApp:
        # Uvicorn has types of its own for ASGI.
        return cast("ASGIApp", ProxyHeadersMiddleware(cast("Any", self._app), [*self._fixed, *self._known]))

    async def _resolve(self) -> None:
        """Ask for the addresses of the names; one without an answer is not trusted until there is one."""
        found: set[str] = set()
        with anyio.move_on_after(_RESOLVE_SECONDS):
            for name in self._names:
                with suppress(OSError, UnicodeError):
                    found.update(str(each[4][0]) for each in await anyio.getaddrinfo(name, None))
        if found != self._known:
            self._known = frozenset(found)
            self._layer = self._trusting()


class _Uvicorn(uvicorn.Server):
    """A uvicorn server without signal handlers, because several of them run in one process."""

    def __init__(
        self, app: ASGIApp, lifespan: Literal["on", "off"], receive_seconds: float, proxies: Sequence[str] = ()
    ) -> None:
        config = uvicorn.Config(
            _TrustedProxies(app, proxies) if proxies else app,
            http=cast("type[asyncio.Protocol]", partial(BoundedProtocol, WaitingClients(receive_seconds))),
            ws="none",
            log_config=None,
            access_log=False,
            lifespan=lifespan,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            server_header=False,
            # By default uvicorn would trust any program on this machine.
            proxy_headers=False,
        )
        super().__init__(config)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class HttpServer(_Uvicorn):
    """The HTTP server; within `stopped_by_signals`, a signal lets it drain and stop, and a second one stop."""

    def __init__(self, server: SkillServer, host: Host, *, streams: bool = False) -> None:
        """Serve the clients of `server`; `streams` is as in `build_app`."""
        self._server = server
        self._parts = parts = (*host.parts, *host.http_parts)
        self._draining = Draining(host.settings.operation)
        self._last_signal: tuple[int, FrameType | None] | None = None
        context = HttpContext(server, host, _security(host.settings.http), self._draining, lambda: self._running)
        self._responses = build_app(
            server,
            host,
            streams=streams,
            routes=[route for part in parts if isinstance(part, HttpPart) for route in part.routes(context)],
            authentication=next((part for part in parts if isinstance(part, Authentication)), None),
        )
        super().__init__(
            self._responses, "on", host.settings.limits.receive_seconds, host.settings.http.trusted_proxies
        )

    @property
    def _running(self) -> int:
        """How many requests are being answered, those of other replicas included and streams of events excluded."""
        forwarded = sum(part.running for part in self._parts)
        return max(0, self._responses.running - self._server.listening.subscribers) + forwarded

    def stopped_by_signals(self) -> AbstractContextManager[None]:
        """Let signals stop the server within the block."""
        return super(_Uvicorn, self).capture_signals()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal: the first one begins to drain, the next one stops the server."""
        if self._draining.has_begun:
            self._stop(sig, frame)
            return
        self._last_signal = sig, frame
        self._draining.begin()

    def _stop(self, sig: int, frame: FrameType | None) -> None:
        # Runs are closed at once, because work on event streams ends before `shutdown` is called.
        self._server.close_parts()
        super().handle_exit(sig, frame)
        # Uvicorn would leave its clean-up out, whose cancelled tasks would show as an error.
        self.force_exit = False

    async def on_tick(self, counter: int) -> bool:
        """Drain, and stop when that is over; uvicorn calls this ten times a second."""
        if self._last_signal is not None and not self.should_exit:
            if not self._responses.is_closing:
                logger.info("draining: %d requests are running; a second signal stops at once", self._running)
                self._responses.close_connections()
                # Their clients listen again, where a proxy sends them.
                self._server.listening.close()
                for part in self._parts:
                    part.drain()
            if self._draining.is_over(self._running):
                self._stop(*self._last_signal)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End all open streams and exchanges, so that the shutdown does not wait for clients."""
        self._server.listening.close()
        for part in self._parts:
            part.close()
        self._server.exchanges.stop_all("the server is stopping")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._end_responses)
            await super().shutdown(sockets)
            tasks.cancel_scope.cancel()

    async def _end_responses(self) -> None:
        """End open responses before uvicorn would cut them off and log an error."""
        await self._responses.end(_REQUEST_SECONDS)
        await anyio.sleep(_CONNECTION_SECONDS - _REQUEST_SECONDS)
        for connection in [*self.server_state.connections]:
            # Its client does not read, and a regular close would wait for it.
            if connection.transport is not None:
                connection.transport.abort()


async def serve_locally(host: Host, listener: socket.socket, routes: Sequence[Route]) -> None:
    """Serve `routes` on a socket that only the server's user can reach, until cancelled."""
    server = _Uvicorn(Starlette(routes=[*routes]), "off", host.settings.limits.receive_seconds)
    try:
        await server.serve(sockets=[listener])
    finally:
        if server.started:
            # Bounded by uvicorn's timeout for a graceful shutdown.
            with anyio.CancelScope(shield=True):
                await server.shutdown(sockets=[listener])
