"""The routes for operators: `/health` and `/ready` for probes, and `/metrics` for Prometheus."""

from __future__ import annotations

import os
import stat
from functools import partial
from typing import TYPE_CHECKING

import anyio.to_thread
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from server import __version__
from server.access import METRICS_ROLE
from server.capabilities.login.settings import LoginSettings
from server.capabilities.operation.admin_routes import Gate
from server.capabilities.operation.settings import OperationSettings
from server.transport.bodies import record_refusal
from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from starlette.requests import Request

    from server.capabilities.login.login import Login
    from server.capabilities.operation.admin_routes import Endpoint
    from server.capabilities.operation.metrics import Metrics
    from server.capabilities.replicas.replica import Replica
    from server.hosting.host import Host
    from server.protocol.server import SkillServer
    from server.transport.event_streams import Draining
    from skills_core.disk.sources import Source

__all__ = ["HEALTH_PATH", "METRICS_PATH", "READY_PATH", "MissingLibraryError", "OperationRoutes", "metrics_of"]

HEALTH_PATH = "/health"
READY_PATH = "/ready"
METRICS_PATH = "/metrics"

_NO_STORE = {"Cache-Control": "no-store"}

_SOURCE_SECONDS = 1.0
# Shorter than probes wait.


class MissingLibraryError(SkillsError):
    """A setting requires an extra that is not installed."""


def metrics_of(server: SkillServer, host: Host) -> Metrics | None:
    """Return metrics that count the requests of `server`, None if the settings want none.

    Raises:
        MissingLibraryError: the library for metrics is not installed.
    """
    if not host.settings.section(OperationSettings).metrics:
        return None
    try:
        from server.capabilities.operation.metrics import Metrics
    except ModuleNotFoundError as error:
        if error.name != "prometheus_client":
            raise
        message = "operation.metrics requires the extra `team`: pip install 'skillserve[team]'"
        raise MissingLibraryError(message) from None
    metrics = Metrics()
    server.records.add(metrics.record)
    return metrics


class _RequiredSources:
    """The folders of skills that a user named, which a server must have to be ready.

    A project does not decide about the server, so its folders are not required.
    """

    def __init__(self, sources: Iterable[Source]) -> None:
        self._roots = [source.root for source in sources if not source.optional and source.project is None]
        self._mounted = {root for root in self._roots if os.path.ismount(root)}
        self._one = anyio.Lock()
        self._asking = False

    async def gone(self) -> int:
        """Return how many are missing, are no longer mounted, or do not answer; all if that cannot be found out."""
        async with self._one:
            # A share that hangs holds up one thread, and not one for each probe.
            if not self._asking:
                self._asking = True
                with anyio.move_on_after(_SOURCE_SECONDS):
                    return await anyio.to_thread.run_sync(self._count, abandon_on_cancel=True)
        return len(self._roots)

    def _count(self) -> int:
        try:
            return sum(not self._is_there(root) for root in self._roots)
        finally:
            self._asking = False

    def _is_there(self, root: Path) -> bool:
        try:
            is_folder = stat.S_ISDIR(root.stat().st_mode)
        except OSError:
            return False
        # What is left of a share that was unmounted is an empty folder.
        if is_mount := os.path.ismount(root):
            self._mounted.add(root)
        return is_folder and (is_mount or root not in self._mounted)


class OperationRoutes:
    """The handlers of the routes."""

    def __init__(
        self,
        server: SkillServer,
        host: Host,
        metrics: Metrics | None,
        draining: Draining,
        running: Callable[[], int],
        replica: Replica | None = None,
    ) -> None:
        """Report on `server`; `running` returns how many requests are being answered."""
        self._server = server
        self._host = host
        self._metrics = metrics
        self._draining = draining
        self._running = running
        self._replica = replica
        self._sources = _RequiredSources(host.library.sources)

    def open(self) -> list[Route]:
        """Return the routes for connections that are authenticated already."""
        probes = [Route(HEALTH_PATH, self._health), Route(READY_PATH, self._ready)]
        return probes if self._metrics is None else [*probes, Route(METRICS_PATH, self._figures_of(self._metrics))]

    def guarded(self, security: TransportSecuritySettings, login: Login | None) -> list[Route]:
        """Return the routes for everybody; where clients differ in what they may see, metrics require a role."""
        probes = [Route(HEALTH_PATH, self._health), Route(READY_PATH, self._ready)]
        if self._metrics is None:
            return probes
        figures = self._figures_of(self._metrics)
        if login is None and not self._host.views_differ:
            browsers = TransportSecurityMiddleware(security)

            async def checked(request: Request) -> Response:
                refused = await browsers.validate_request(request)
                if refused is None:
                    return await figures(request)
                record_refusal(self._server.records, request.scope, refused.status_code)
                return refused

            return [*probes, Route(METRICS_PATH, checked)]
        # Prometheus asks each replica at an address that clients do not use. The check of names protects browsers that
        # a web page misleads, and those have no token.
        anywhere = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        roles = frozenset({*self._host.settings.section(LoginSettings).admin_roles, METRICS_ROLE})
        gate = Gate(self._host, anywhere, login, self._server.records, roles)
        return [*probes, Route(METRICS_PATH, gate.guard(figures))]

    async def _health(self, _: Request) -> Response:
        # The route has no caller and so no view: the number would reveal skills that some callers may not see.
        counts = {} if self._host.views_differ else {"skills": len(self._host.everything.active)}
        return JSONResponse({"status": "ok", **counts}, headers=_NO_STORE)

    async def _ready(self, request: Request) -> Response:
        if self._draining.has_begun:
            # Some proxies close the open requests of a server that answers 503, and know 404 for one that stops.
            status = 404 if request.query_params.get("draining") == "404" else 503
            return JSONResponse({"status": "draining"}, status, headers=_NO_STORE)
        if gone := await self._sources.gone():
            # The route has no caller, so it does not tell which.
            return JSONResponse({"status": "source_gone", "sources": gone}, 503, headers=_NO_STORE)
        return JSONResponse({"status": "ready"}, headers=_NO_STORE)

    def _figures_of(self, metrics: Metrics) -> Endpoint:
        from server.capabilities.operation.metrics import ServerFigures

        async def figures(request: Request) -> Response:
            catalog = self._host.everything
            subscribers = {
                "handshake": self._server.handshake.subscribers,
                "modern": self._server.listening.subscribers,
            }
            found = ServerFigures(
                version=__version__,
                skills=((str(skill.state), str(skill.reason or "")) for skill in catalog.skills),
                subscribers=subscribers,
                reloads=self._host.reloads,
                running=self._running(),
                draining=self._draining.has_begun,
                hears_replicas=None if self._replica is None else self._replica.is_connected,
            )
            render = partial(metrics.text, found, request.headers.get("accept", ""))
            # A catalog may have thousands of skills.
            text, content_type = await anyio.to_thread.run_sync(render)
            return Response(text, headers={**_NO_STORE, "Content-Type": content_type})

        return figures
