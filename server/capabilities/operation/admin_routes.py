"""The admin endpoint: `POST /admin/reload` and `GET /admin/status`, on the socket and, with a token, over HTTP."""

from __future__ import annotations

import hmac
import logging
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from mcp.server.transport_security import TransportSecurityMiddleware
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from server.access import ADMIN_ROLE, LOCAL, Principal, PrincipalKind
from server.capabilities.login.settings import LoginSettings
from server.capabilities.operation.admin_actions import read_status, reload_everything
from server.capabilities.operation.admin_sockets import RELOAD_PATH, STATUS_PATH
from server.capabilities.operation.settings import AdminSettings
from server.hosting.status import StatusFilter, StatusFilterError
from server.requests import ADMIN_METHOD, Records, RequestDecision, RequestReason, RequestRecord, address_of
from server.transport.bodies import record_refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeAlias

    from mcp.server.transport_security import TransportSecuritySettings
    from starlette.requests import Request

    from server.capabilities.login.login import Login
    from server.hosting.host import Host

    Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

__all__ = ["Gate", "guarded_routes", "open_routes"]

logger = logging.getLogger(__name__)

_PRINCIPAL: Final = "skillserve.principal"
# The key in the scope of a request that was let through.

_ADMINISTRATOR: Final = Principal("admin token", PrincipalKind.TOKEN, frozenset({ADMIN_ROLE}))

_BAD_REQUEST: Final = 400
_FAULT: Final = 500


def open_routes(host: Host, records: Records | None = None) -> list[Route]:
    """Return the routes for connections that are authenticated already; `records` hears of requests."""
    return _routes(_Endpoints(host), lambda endpoint: _recorded(endpoint, records or Records()))


def guarded_routes(
    host: Host, security: TransportSecuritySettings, login: Login | None = None, records: Records | None = None
) -> list[Route]:
    """Return the routes that require the token of the settings, or a login with one of `login.admin_roles`.

    There are none without an admin token and a login. `records` hears of requests.
    """
    heard = records or Records()
    gate = Gate(host, security, login, heard, frozenset(host.settings.section(LoginSettings).admin_roles))
    if not gate.can_be_passed:
        return []
    return _routes(_Endpoints(host), lambda endpoint: gate.guard(_recorded(endpoint, heard)))


class Gate:
    """Lets requests through that have the admin token of the settings, or log in with one of some roles."""

    def __init__(
        self,
        host: Host,
        security: TransportSecuritySettings,
        login: Login | None,
        records: Records,
        roles: frozenset[str],
    ) -> None:
        """Let principals with one of `roles` through; `records` hears of requests."""
        token = host.settings.section(AdminSettings).token
        self._expected = None if token is None else token.get_secret_value().encode("ascii")
        self._browsers = TransportSecurityMiddleware(security)
        self._login = login
        self._records = records
        self._roles = roles

    @property
    def can_be_passed(self) -> bool:
        """Whether there is a token that lets requests through."""
        return self._expected is not None or self._login is not None

    def guard(self, endpoint: Endpoint) -> Endpoint:
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
        from server.capabilities.login.challenge import Refusal

        token = await self._login.authenticate(request.scope)
        if isinstance(token, Refusal):
            return self._login.challenges.response(token)
        request.scope[_PRINCIPAL] = token.principal
        if self._roles & token.principal.roles:
            return None
        _record(self._records, request, token.principal, RequestReason.ROLE)
        return self._login.challenges.response(Refusal.ROLE)


def _has_token(request: Request, expected: bytes) -> bool:
    headers = request.headers.getlist("authorization")
    scheme, _, given = headers[0].partition(" ") if len(headers) == 1 else ("", "", "")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("utf-8"), expected)


def _recorded(endpoint: Endpoint, records: Records) -> Endpoint:
    """Return the endpoint, which records each request."""

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


def _routes(endpoints: _Endpoints, guard: Callable[[Endpoint], Endpoint]) -> list[Route]:
    return [
        Route(RELOAD_PATH, guard(endpoints.reload), methods=["POST"]),
        Route(STATUS_PATH, guard(endpoints.status), methods=["GET"]),
    ]


class _Endpoints:
    """The handlers of the routes."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def reload(self, _: Request) -> Response:
        try:
            return _json_response(await reload_everything(self._host))
        except Exception:
            logger.exception("the reload failed; the catalog is unchanged")
            return _error_response("the reload failed; the server's log says why", 500)

    async def status(self, request: Request) -> Response:
        query = request.query_params
        try:
            choice = StatusFilter.parse({key: query.getlist(key) for key in query})
        except StatusFilterError as error:
            return _error_response(str(error), 400)
        return _json_response(await read_status(self._host.everything, self._host.settings, choice))


def _json_response(value: dict[str, Any]) -> Response:
    return JSONResponse(value, headers={"Cache-Control": "no-store"})


def _error_response(message: str, code: int, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": message}, code, headers={"Cache-Control": "no-store", **(headers or {})})
