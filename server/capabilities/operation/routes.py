"""The routes for operators.

`/health` and `/ready` are for probes, `/metrics` is for Prometheus. `POST /admin/reload`, `GET /admin/status` and
`GET /admin/events` are served on the admin socket and, to those who prove a role, over HTTP.
"""

from __future__ import annotations

import hmac
import logging
import os
import stat
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final, TypeAlias

import anyio.to_thread
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from server import __version__
from server.access import ADMIN_ROLE, LOCAL, METRICS_ROLE, Principal, PrincipalKind
from server.capabilities.login.settings import LoginSettings
from server.capabilities.operation.events import events_response
from server.capabilities.operation.settings import (
    EVENTS_PATH,
    HEALTH_PATH,
    METRICS_PATH,
    READY_PATH,
    RELOAD_PATH,
    STATUS_PATH,
    AdminSettings,
)
from server.capabilities.operation.tools import read_status
from server.hosting.catalog_log import log_reload
from server.hosting.status import StatusFilter, StatusFilterError, change_object
from server.requests import ADMIN_METHOD, Records, RequestDecision, RequestReason, RequestRecord, address_of
from server.transport.bodies import record_refusal
from skills_core.errors import SkillsError
from skills_core.installation import extra_advice

if TYPE_CHECKING:
    from starlette.requests import Request

    from server.capabilities.login.login import Login
    from server.hosting.host import Host

    Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

    from server.capabilities.operation.metrics import Metrics
    from server.capability import HttpContext
    from skills_core.disk.sources import Source

logger = logging.getLogger(__name__)


_NO_STORE = {"Cache-Control": "no-store"}

_PRINCIPAL: Final = "skillserve.principal"
# The key in the scope of a request that was let through.

_ADMINISTRATOR: Final = Principal("admin token", PrincipalKind.TOKEN, frozenset({ADMIN_ROLE}))

_BAD_REQUEST: Final = 400
_FAULT: Final = 500


def open_routes(host: Host, added: Iterable[Route] = ()) -> list[Route]:
    """Return the admin routes for connections that are authenticated already, and those that others have `added`."""
    records = host.records
    recorded = [Route(each.path, _recorded(each.endpoint, records), methods=each.methods) for each in added]
    return [*_admin_routes(host, lambda endpoint: _recorded(endpoint, records)), *recorded]


def guarded_routes(host: Host, security: TransportSecuritySettings, login: Login | None) -> list[Route]:
    """Return the admin routes that require the token of the settings, or a login with one of `login.admin_roles`.

    There are none without an admin token and a login.
    """
    if login is None and host.settings.section(AdminSettings).token is None:
        return []
    guard = _RoleGuard(host, security, login, host.settings.section(LoginSettings).admin_roles)
    return _admin_routes(host, lambda endpoint: guard.protect(_recorded(endpoint, host.records)))


class _RoleGuard:
    """Lets requests through that have the admin token of the settings, or log in with one of some roles."""

    def __init__(
        self, host: Host, security: TransportSecuritySettings, login: Login | None, roles: Iterable[str]
    ) -> None:
        token = host.settings.section(AdminSettings).token
        self._expected = None if token is None else token.get_secret_value().encode("ascii")
        self._browsers = TransportSecurityMiddleware(security)
        self._login = login
        self._records = host.records
        self._roles = frozenset(roles)

    def protect(self, endpoint: Endpoint) -> Endpoint:
        """Return `endpoint` for the requests that are let through; the others are recorded as denied."""

        async def guarded(request: Request) -> Response:
            refused = await self._browsers.validate_request(request)
            if refused is not None:
                record_refusal(self._records, request.scope, refused.status_code)
                return refused
            if self._expected is not None and _has_token(request, self._expected):
                request.scope[_PRINCIPAL] = _ADMINISTRATOR
                return await endpoint(request)
            refused = await self._refused(request)
            return await endpoint(request) if refused is None else refused

        return guarded

    async def _refused(self, request: Request) -> Response | None:
        """Return the refusal of a request, None if its principal has a role that is let through."""
        if self._login is None:
            _record(self._records, request, LOCAL, RequestReason.ROLE)
            return _error_response("the token is missing or wrong", 401, {"WWW-Authenticate": "Bearer"})
        from server.capabilities.login.login import LoginRefusal

        token = await self._login.authenticate(request.scope)
        if isinstance(token, LoginRefusal):
            return self._login.challenges.response(token)
        request.scope[_PRINCIPAL] = token.principal
        if self._roles & token.principal.roles:
            return None
        _record(self._records, request, token.principal, RequestReason.ROLE)
        return self._login.challenges.response(LoginRefusal.ROLE)


def _has_token(request: Request, expected: bytes) -> bool:
    headers = request.headers.getlist("authorization")
    scheme, _, given = headers[0].partition(" ") if len(headers) == 1 else ("", "", "")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("utf-8"), expected)


def _recorded(endpoint: Endpoint, records: Records) -> Endpoint:
    """Return the endpoint with each request recorded."""

    async def recorded(request: Request) -> Response:
        begin = perf_counter()
        decision, reason = RequestDecision.FAILED, RequestReason.INTERNAL
        try:
            response = await endpoint(request)
            if response.status_code < _BAD_REQUEST:
                decision, reason = RequestDecision.ALLOWED, RequestReason.NONE
            elif response.status_code < _FAULT:
                decision, reason = RequestDecision.INVALID, RequestReason.INVALID_REQUEST
            return response
        finally:
            principal = request.scope.get(_PRINCIPAL, LOCAL)
            _record(records, request, principal, reason, decision, perf_counter() - begin)

    return recorded


def _record(
    records: Records,
    request: Request,
    principal: Principal,
    reason: RequestReason,
    decision: RequestDecision = RequestDecision.DENIED,
    seconds: float = 0.0,
) -> None:
    if not records.wanted:
        return
    records.emit(
        RequestRecord(
            method=ADMIN_METHOD,
            request_id=records.new_id(),
            principal=principal,
            address=address_of(request.scope),
            target=request.url.path,
            decision=decision,
            reason=reason,
            seconds=seconds,
        )
    )


def _admin_routes(host: Host, guard: Callable[[Endpoint], Endpoint]) -> list[Route]:
    async def reload(_: Request) -> Response:
        try:
            change = log_reload(await host.reload())
        except Exception:
            logger.exception("the reload failed; the catalog is unchanged")
            return _error_response("the reload failed; the server's log says why", 500)
        return JSONResponse(change_object(change), headers=_NO_STORE)

    async def status(request: Request) -> Response:
        query = request.query_params
        try:
            choice = StatusFilter.parse({key: query.getlist(key) for key in query})
        except StatusFilterError as error:
            return _error_response(str(error), 400)
        return JSONResponse(await read_status(host.everything, host.settings, choice), headers=_NO_STORE)

    async def events(request: Request) -> Response:
        return events_response(host, request)

    return [
        Route(RELOAD_PATH, guard(reload), methods=["POST"]),
        Route(STATUS_PATH, guard(status), methods=["GET"]),
        Route(EVENTS_PATH, guard(events), methods=["GET"]),
    ]


def _error_response(message: str, code: int, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": message}, code, headers={**_NO_STORE, **(headers or {})})


_SOURCE_SECONDS = 1.0
# Shorter than probes wait.


class MissingLibraryError(SkillsError):
    """A setting requires an extra that is not installed."""


def metrics_of(host: Host) -> Metrics | None:
    """Return metrics that count the requests to `host`, None if the settings want none.

    Raises:
        MissingLibraryError: the library for metrics is not installed.
    """
    if not host.settings.operation.metrics:
        return None
    try:
        from server.capabilities.operation.metrics import Metrics
    except ModuleNotFoundError as error:
        if error.name != "prometheus_client":
            raise
        message = f"operation.metrics requires the extra `team`; {extra_advice('team')}"
        raise MissingLibraryError(message) from None
    metrics = Metrics()
    host.records.add(metrics.record)
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
        """Return the number of folders that are missing, unmounted or do not answer; all of them if unknown."""
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

    def __init__(self, context: HttpContext, metrics: Metrics | None) -> None:
        """Report on the server of `context`."""
        self._context, self._host = context, context.host
        self._metrics = metrics
        self._sources = _RequiredSources(context.host.library.sources)

    def open(self) -> list[Route]:
        """Return the routes for connections that are authenticated already."""
        probes = [Route(HEALTH_PATH, self._health), Route(READY_PATH, self._ready)]
        return probes if self._metrics is None else [*probes, Route(METRICS_PATH, self._figures_of(self._metrics))]

    def guarded(self, login: Login | None) -> list[Route]:
        """Return the routes for everybody; where clients differ in what they may see, metrics require a role."""
        probes = [Route(HEALTH_PATH, self._health), Route(READY_PATH, self._ready)]
        if self._metrics is None:
            return probes
        figures = self._figures_of(self._metrics)
        if login is None and not self._host.views_differ:
            browsers = TransportSecurityMiddleware(self._context.security)

            async def checked(request: Request) -> Response:
                refused = await browsers.validate_request(request)
                if refused is None:
                    return await figures(request)
                record_refusal(self._host.records, request.scope, refused.status_code)
                return refused

            return [*probes, Route(METRICS_PATH, checked)]
        # Prometheus asks each replica at an address that clients do not use. The check of names protects browsers that
        # a web page misleads, and those have no token.
        anywhere = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        roles = (*self._host.settings.section(LoginSettings).admin_roles, METRICS_ROLE)
        guard = _RoleGuard(self._host, anywhere, login, roles)
        return [*probes, Route(METRICS_PATH, guard.protect(figures))]

    async def _health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok", **self._counts()}, headers=_NO_STORE)

    async def _ready(self, request: Request) -> Response:
        if self._context.draining.has_begun:
            # Some proxies close the open requests of a server that answers 503, and know 404 for one that stops.
            status = 404 if request.query_params.get("draining") == "404" else 503
            return JSONResponse({"status": "draining"}, status, headers=_NO_STORE)
        if gone := await self._sources.gone():
            # The route has no caller, so it does not tell which.
            return JSONResponse({"status": "source_gone", "sources": gone}, 503, headers=_NO_STORE)
        if (progress := self._host.library.progress) is not None:
            # The reason may name a folder, and the route has no caller: it is in the log.
            has_failed = any(found.fault for found in self._host.everything.sources)
            found = {"status": "loading_failed" if has_failed else "loading", "percent": int(100 * progress.share)}
            return JSONResponse({**found, **self._counts()}, 503, headers=_NO_STORE)
        return JSONResponse({"status": "ready"}, headers=_NO_STORE)

    def _counts(self) -> dict[str, int]:
        # The routes have no caller and so no view: the number would reveal skills that some callers may not see.
        return {} if self._host.views_differ else {"skills": len(self._host.everything.active)}

    def _figures_of(self, metrics: Metrics) -> Endpoint:
        from server.capabilities.operation.metrics import ServerFigures

        async def figures(request: Request) -> Response:
            catalog = self._host.everything
            subscribers = {
                "handshake": self._context.server.handshake.subscribers,
                "modern": self._context.server.listening.subscribers,
            }
            connected = (part.is_connected for part in self._host.http_parts)
            found = ServerFigures(
                version=__version__,
                skills=((str(skill.state), str(skill.reason or "")) for skill in catalog.skills),
                subscribers=subscribers,
                sessions=self._context.server.session_counts(),
                reloads=self._host.reloads,
                running=self._context.running(),
                draining=self._context.draining.has_begun,
                replicas_connected=next((each for each in connected if each is not None), None),
            )
            render = partial(metrics.text, found, request.headers.get("accept", ""))
            # A catalog may have thousands of skills.
            text, content_type = await anyio.to_thread.run_sync(render)
            return Response(text, headers={**_NO_STORE, "Content-Type": content_type})

        return figures
