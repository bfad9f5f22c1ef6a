"""Refuse requests over HTTP that exceed a limit of their principal.

A refusal is the answer of HTTP, 429 with `Retry-After`, with an error of JSON-RPC as its body.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Final

from starlette.responses import JSONResponse

from server.access.principal import principal_of_scope
from server.limits.principal_limits import LimitExceededError, PrincipalLimits

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from server.config.settings import LimitSettings

__all__ = ["Limiting"]

logger = logging.getLogger(__name__)

_SERVER_ERROR: Final = -32000
# JSON-RPC leaves the codes from -32000 to -32099 to servers.


class Limiting:
    """ASGI middleware for the MCP endpoint, within the login, which tells it the principal of each request."""

    def __init__(self, app: ASGIApp, settings: LimitSettings) -> None:
        """Serve `app` within the limits of `settings`."""
        self._app = app
        self._limits = PrincipalLimits(settings.requests_per_second, settings.burst, settings.concurrent_requests)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve or refuse one request."""
        principal = principal_of_scope(scope)
        try:
            with self._limits.admitted((principal.kind, principal.subject)):
                await self._app(scope, receive, send)
        except LimitExceededError as error:
            logger.info("request refused: limit of %s", error.limit)
            await _refusal(error)(scope, receive, send)


def _refusal(error: LimitExceededError) -> JSONResponse:
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": _SERVER_ERROR, "message": str(error)}}
    headers = {"Cache-Control": "no-store", "Retry-After": str(max(1, math.ceil(error.seconds)))}
    return JSONResponse(body, 429, headers)
