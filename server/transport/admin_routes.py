"""The admin endpoint: `POST /admin/reload` and `GET /admin/status`, on the socket and, with a token, over HTTP."""

from __future__ import annotations

import hmac
import logging
from typing import TYPE_CHECKING, Any

from mcp.server.transport_security import TransportSecurityMiddleware
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from server.admin.actions import read_status, reload_everything
from server.admin.paths import RELOAD_PATH, STATUS_PATH
from server.hosting.status_filter import StatusFilter, StatusFilterError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeAlias

    from mcp.server.transport_security import TransportSecuritySettings
    from starlette.requests import Request

    from server.hosting.host import Host

    Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]

__all__ = ["guarded_routes", "open_routes"]

logger = logging.getLogger(__name__)


def open_routes(host: Host) -> list[Route]:
    """Return the routes for connections that are authenticated already."""
    return _routes(_Endpoints(host), lambda endpoint: endpoint)


def guarded_routes(host: Host, security: TransportSecuritySettings) -> list[Route]:
    """Return the routes that require the token of the settings; none if no token is set."""
    token = host.settings.admin.token
    if token is None:
        return []
    expected = token.get_secret_value().encode("ascii")
    browsers = TransportSecurityMiddleware(security)

    def guard(endpoint: Endpoint) -> Endpoint:
        async def guarded(request: Request) -> Response:
            refused = await browsers.validate_request(request)
            if refused is not None:
                return refused
            scheme, _, given = request.headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode("utf-8"), expected):
                return _error_response("the token is missing or wrong", 401, {"WWW-Authenticate": "Bearer"})
            return await endpoint(request)

        return guarded

    return _routes(_Endpoints(host), guard)


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
