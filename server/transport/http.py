"""Serve many clients over streamable HTTP, with `/health` and the admin routes beside the MCP endpoint."""

from __future__ import annotations

import ipaddress
import socket
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import anyio
import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from server.config.machine import tokens_file
from server.transport.admin_routes import guarded_routes, open_routes
from server.transport.event_streams import EventStreams
from server.transport.joined_writes import JoiningProtocol
from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from types import FrameType

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from server.config.settings import HttpSettings, Settings
    from server.exchange.registry import ExchangeRegistry
    from server.hosting.host import Host
    from server.login.login import Login
    from server.operation.records import Records
    from server.protocol.server import SkillServer
    from server.run.supervisor import RunSupervisor

__all__ = [
    "AddressInUseError",
    "HttpServer",
    "UnprotectedAddressError",
    "build_app",
    "checks_host",
    "listen",
    "require_protection",
    "serve_locally",
]

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

_GRACE_SECONDS = 3
# Everything still running this long after a stop is cancelled.

_REQUEST_SECONDS = 1.0
# Requests are cancelled this long after a stop.

_CONNECTION_SECONDS = 2.0
# Connections are closed this long after a stop, whether or not the client has read its response.


class AddressInUseError(SkillsError):
    """The server cannot listen on the address."""


class UnprotectedAddressError(SkillsError):
    """Other machines could use the server without a login."""


def require_protection(settings: Settings) -> None:
    """Require a login for an address that other machines may reach.

    Raises:
        UnprotectedAddressError: there is none, and `http.insecure` is not set.
    """
    if settings.login.required or settings.http.insecure or _is_loopback(settings.http.host):
        return
    message = (
        f"{settings.http.host} can be reached from other machines, and clients need no login; set login.tokens or"
        " login.issuer, listen on 127.0.0.1, or accept all clients with --insecure"
    )
    raise UnprotectedAddressError(message)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(settings: HttpSettings) -> socket.socket:
    """Bind the address.

    Raises:
        AddressInUseError: the port is taken, or the address does not belong to this machine.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # Without the explicit protocol asyncio leaves Nagle's algorithm on, and each response waits some 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform == "win32":
            # On Windows, SO_REUSEADDR would share the address with any other process.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host, settings.port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        reason = (error.strerror or str(error)).lower()
        message = f"cannot listen on {settings.host} port {settings.port}: {reason}; choose another with --port"
        raise AddressInUseError(message) from None
    return listener


def build_app(server: SkillServer, host: Host, *, streams: bool = False, login: Login | None = None) -> EventStreams:
    """Return the ASGI application, which tracks its responses.

    With `streams`, responses are event streams, which also carry questions and progress notifications to the client.
    Without, they are single JSON bodies, which cost less. With a `login`, only `/health` and its metadata are open.
    """
    settings = host.settings.http
    security = _security(settings)

    async def health(_: Request) -> JSONResponse:
        # The route has no caller and so no view: the number would reveal skills that some callers may not see.
        counts = {} if host.views_differ else {"skills": len(host.everything.active)}
        return JSONResponse({"status": "ok", **counts})

    metadata = [] if login is None else login.challenges.routes(settings.path)
    app = server.streamable_http_app(
        streamable_http_path=settings.path,
        json_response=not streams,
        session_idle_timeout=settings.session_idle_seconds,
        max_request_body_size=host.settings.limits.request_bytes,
        transport_security=security,
        custom_starlette_routes=[
            Route("/health", health),
            *metadata,
            *guarded_routes(host, security, login, server.records),
        ],
    )
    if login is not None:
        from server.login.login import RequireLogin  # noqa: PLC0415 - as in _open_login

        route = _endpoint_route(app, settings.path)
        from server.transport.limiting import Limiting  # noqa: PLC0415 - limits need principals

        route.app = RequireLogin(Limiting(route.app, host.settings.limits), login)
    return EventStreams(_with_direct_endpoint(app, settings.path), server.handshake.reachable)


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


def _endpoint_route(app: Starlette, path: str) -> Route:
    return next(route for route in app.routes if isinstance(route, Route) and route.path == path)


def _open_login(host: Host, records: Records) -> Login | None:
    """Return the login of the settings, None if requests need none."""
    if not host.settings.login.required:
        return None
    from server.login.login import Login  # noqa: PLC0415 - most servers have no login, and start faster without it

    return Login(host.settings.login, tokens_file(), records=records)


def checks_host(settings: HttpSettings) -> bool:
    """Tell whether requests with a foreign Host header are refused."""
    return bool(settings.allowed_hosts) or settings.host in {"127.0.0.1", "localhost", "::1"}


def _security(settings: HttpSettings) -> TransportSecuritySettings:
    """Guard against DNS rebinding: accept only our own names in the Host and Origin headers.

    A server that listens on other addresses than loopback knows its names only from `allowed_hosts`; without them,
    nothing is checked.
    """
    if not checks_host(settings):
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    names = (*settings.allowed_hosts, *_LOOPBACK)
    hosts = [*names, *(f"{name}:*" for name in names)]
    origins = [*settings.allowed_origins, *(f"http://{host}" for host in hosts)]
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)


class _Uvicorn(uvicorn.Server):
    """A uvicorn server without signal handlers, because several of them run in one process."""

    def __init__(self, app: ASGIApp, lifespan: Literal["on", "off"]) -> None:
        config = uvicorn.Config(
            app,
            http=JoiningProtocol,
            ws="none",
            log_config=None,
            access_log=False,
            lifespan=lifespan,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            server_header=False,
        )
        super().__init__(config)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class HttpServer(_Uvicorn):
    """The HTTP server; within `stopped_by_signals`, a signal stops it."""

    def __init__(self, server: SkillServer, host: Host, *, streams: bool = False) -> None:
        self._login = _open_login(host, server.records)
        self._responses = build_app(server, host, streams=streams, login=self._login)
        super().__init__(self._responses, "on")
        self._server = server

    @property
    def exchanges(self) -> ExchangeRegistry:
        """The exchanges with clients."""
        return self._server.exchanges

    async def keep_login(self) -> None:
        """Keep what the login knows of tokens and keys current until cancelled; return if there is no login."""
        if self._login is not None:
            await self._login.run()

    @property
    def runs(self) -> RunSupervisor:
        """The supervisor of runs."""
        return self._server.runs

    def stopped_by_signals(self) -> AbstractContextManager[None]:
        """Let signals stop the server within the block."""
        return super(_Uvicorn, self).capture_signals()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal: runs are closed at once, because work on event streams ends before `shutdown` is called."""
        self._server.runs.close()
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End all open streams and exchanges, so that the shutdown does not wait for clients."""
        self._server.listening.close()
        self._server.runs.close()
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


async def serve_locally(host: Host, listener: socket.socket, records: Records | None = None) -> None:
    """Serve the admin endpoint on a socket that only the server's user can reach, until cancelled."""
    server = _Uvicorn(Starlette(routes=open_routes(host, records)), "off")
    try:
        await server.serve(sockets=[listener])
    finally:
        if server.started:
            # Bounded by uvicorn's timeout for a graceful shutdown.
            with anyio.CancelScope(shield=True):
                await server.shutdown(sockets=[listener])
