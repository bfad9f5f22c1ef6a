"""What operators have of a running server: spans of requests, routes, and a socket for the server's user."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from server.capabilities.login.settings import LoginSettings
from server.capabilities.runs.offered import offers_runs
from server.capabilities.runs.telemetry import can_trace, traced
from server.capabilities.schedules.settings import ScheduleSettings
from server.capability import HttpPart
from server.config.machine import runtime_folders
from server.config.settings.server import Transport

if TYPE_CHECKING:
    import socket

    from starlette.routing import Route

    from server.capabilities.login.login import Login
    from server.capability import HttpContext
    from server.config.settings.model import Settings
    from server.hosting.host import Host

logger = logging.getLogger(__name__)


class Operation(HttpPart):
    """The spans, routes and admin socket of one server."""

    def __init__(self, host: Host) -> None:
        """Prepare to operate the server of `host`."""
        self._host = host
        self._socket: socket.socket | None = None
        self._is_stdio = False
        self.local: list[Route] = []
        """The routes on the admin socket."""

    @contextmanager
    def around(self, port: int | None) -> Iterator[None]:
        """Export spans; over HTTP, open the admin socket of the server at `port`."""
        with traced(os.environ if _wants_spans(self._host.settings) else {}, _report) as exported:
            if exported:
                from server.capabilities.operation.spans import RequestTracer

                self._host.records.tracer = RequestTracer()
            self._is_stdio = port is None
            if port is None:
                yield
                return
            from server.transport.admin_sockets import admin_socket

            with admin_socket(runtime_folders(), port) as self._socket:
                yield

    def routes(self, context: HttpContext) -> list[Route]:
        """Return the routes of probes, metrics and the administration."""
        from server.capabilities.operation.routes import OperationRoutes, guarded_routes, metrics_of, open_routes

        login = _login_of(self._host)
        operation = OperationRoutes(context, metrics_of(self._host))
        parts = (part for part in self._host.http_parts if isinstance(part, HttpPart))
        added = [route for part in parts for route in part.local_routes()]
        self.local = [*open_routes(self._host, added), *operation.open()]
        return [*operation.guarded(login), *guarded_routes(self._host, context.security, login)]

    async def announce(self) -> None:
        """Over stdio, open the admin socket once the client has its first answers, until cancelled."""
        if self._is_stdio and sys.platform != "win32":
            await self._serve_when_asked()

    async def _serve_when_asked(self) -> None:
        """Listen on the admin socket, and import what serves it at its first connection: most servers have none."""
        from server.transport.admin_sockets import admin_socket, stdio_name

        opened = admin_socket(runtime_folders(), stdio_name())
        listener = await anyio.to_thread.run_sync(opened.__enter__)
        try:
            if listener is not None:
                await anyio.wait_readable(listener)
                routes, serve = await anyio.to_thread.run_sync(_import_routes)
                await serve(self._host, listener, routes(self._host))
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(opened.__exit__, None, None, None)

    def drain(self) -> None:
        """End the streams of events, which would hold up the end of the server."""
        self._host.activity.end()

    def close(self) -> None:
        """End the streams of events, also of a server that does not drain."""
        self._host.activity.end()

    async def run(self) -> None:
        """Serve the routes on the admin socket, if there is one, until cancelled."""
        if self._socket is not None:
            from server.transport.http import serve_locally

            await serve_locally(self._host, self._socket, self.local)


def _import_routes() -> tuple[Callable[[Host], list[Route]], Callable[..., Awaitable[None]]]:
    from server.capabilities.operation.routes import open_routes
    from server.transport.http import serve_locally

    return open_routes, serve_locally


def _login_of(host: Host) -> Login | None:
    if not host.settings.section(LoginSettings).required:
        return None
    from server.capabilities.login.login import ServerLogin

    return host.service(ServerLogin).login


def _wants_spans(settings: Settings) -> bool:
    """Tell whether to look for a collector of spans.

    The tracing libraries would delay the start of a server over stdio, so only one that has runs imports them.
    """
    if settings.server.transport is Transport.HTTP:
        return can_trace()
    return offers_runs(settings) or settings.section(ScheduleSettings).enabled


def _report(problem: str) -> None:
    logger.warning("%s", problem)
