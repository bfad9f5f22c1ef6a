"""Refuse requests over HTTP that exceed a limit of their principal.

A refusal is the answer of HTTP, 429 with `Retry-After`, with an error of JSON-RPC as its body.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers
from starlette.responses import JSONResponse

from server.access import principal_of_scope
from server.limits.principal_limits import LimitExceededError, OpenSessions, PrincipalLimits
from server.requests import (
    LIMIT_METHOD,
    SESSION_METHOD,
    Records,
    RequestDecision,
    RequestReason,
    RequestRecord,
    address_of,
)
from server.transport.bodies import ADMITTED_KEY, LARGE_BODY, pause_before_refusal
from server.transport.profiles import NAMED_SESSION_KEY
from server.transport.sessions import SESSION_VERSIONS

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from server.access import Principal
    from server.config.settings.limits import LimitSettings
    from server.limits.principal_limits import Key


logger = logging.getLogger(__name__)

_SERVER_ERROR: Final = -32000
# JSON-RPC leaves the codes from -32000 to -32099 to servers.

_SESSION: Final = "mcp-session-id"
_VERSION: Final = b"mcp-protocol-version"

_ERROR: Final = 400
_NOT_FOUND: Final = 404
_MAX_PATH: Final = 200
_MAX_DIGITS: Final = 15


class Limiting:
    """ASGI middleware for the MCP endpoint, within the login, which tells it the principal of each request."""

    def __init__(
        self,
        app: ASGIApp,
        settings: LimitSettings,
        session_idle_seconds: float,
        records: Records | None = None,
        is_foreign: Callable[[str, Principal], bool] = lambda _, __: False,
    ) -> None:
        """Serve `app` within the limits of `settings`; refused requests are recorded in `records`.

        `is_foreign` tells whether a session belongs to another principal; `app` answers as if there was none such.
        """
        self._app = app
        self._limits = PrincipalLimits(
            settings.requests_per_second, settings.burst, settings.concurrent_requests, size=settings.bytes_in_progress
        )
        self._largest = settings.request_bytes
        self._sessions = OpenSessions(settings.sessions, session_idle_seconds)
        self._records = records or Records()
        self._is_foreign = is_foreign

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve or refuse one request."""
        principal = principal_of_scope(scope)
        key = principal.kind, principal.subject
        # The SDK reads the first of repeated headers too.
        headers: dict[bytes, bytes] = dict(reversed(scope["headers"]))
        try:
            with self._limits.admitted(key, self._size(headers)) as admitted:
                scope[ADMITTED_KEY] = admitted
                session, version = headers.get(_SESSION.encode()), headers.get(_VERSION)
                if session is None and version is not None and version.decode("latin-1") not in SESSION_VERSIONS:
                    await self._app(scope, receive, send)
                else:
                    named = None if session is None else session.decode("latin-1")
                    with self._in_session(key, named, scope, send) as sending:
                        await self._app(scope, receive, sending)
        except LimitExceededError as error:
            logger.info("request refused: limit of %s", error.limit)
            self._record(scope, LIMIT_METHOD, RequestReason.LIMIT)
            await pause_before_refusal()
            await _refusal(error, is_large=self._size(headers) > LARGE_BODY)(scope, receive, send)

    def ended(self, principal: Principal, session: str) -> None:
        """Note that a session has ended by itself, before the time for which it may be idle was over."""
        self._sessions.end((principal.kind, principal.subject), session)

    def _size(self, headers: Mapping[bytes, bytes]) -> int:
        """Return how many bytes the body of a request has, or may have if it does not say."""
        length = headers.get(b"content-length", b"")
        if length.isdigit():
            # The server reads no more of a longer one.
            return min(int(length[:_MAX_DIGITS]), self._largest)
        return self._largest if b"transfer-encoding" in headers else 0

    @contextmanager
    def _in_session(self, principal: Key, session: str | None, scope: Scope, send: Send) -> Iterator[Send]:
        """Account for the session of a request, or the one that it opens; yield the `send` that watches the answer.

        Raises:
            LimitExceededError: the request would open a session too many.
        """
        if session is not None:
            with self._sessions.used(principal, session):
                sending = self._noting_foreign(scope.get(NAMED_SESSION_KEY, session), scope, send)
                yield self._until_ended(principal, session, sending) if scope["method"] == "DELETE" else sending
        else:
            with self._sessions.opening(principal) as note:

                async def noting(message: Message) -> None:
                    if message["type"] == "http.response.start" and message["status"] < _ERROR:
                        opened = Headers(raw=message.get("headers", [])).get(_SESSION)
                        if opened:
                            note(opened)
                    await send(message)

                yield noting

    def _noting_foreign(self, session: str, scope: Scope, send: Send) -> Send:
        async def noting(message: Message) -> None:
            is_unknown = message["type"] == "http.response.start" and message["status"] == _NOT_FOUND
            if is_unknown and self._is_foreign(session, principal_of_scope(scope)):
                self._record(scope, SESSION_METHOD, RequestReason.FOREIGN_SESSION)
            await send(message)

        return noting

    def _record(self, scope: Scope, method: str, reason: RequestReason) -> None:
        if self._records.wanted:
            self._records.emit(_record(self._records.new_id(), scope, method, reason))

    def _until_ended(self, principal: Key, session: str, send: Send) -> Send:
        async def ending(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < _ERROR:
                self._sessions.end(principal, session)
            await send(message)

        return ending


def _record(request_id: str, scope: Scope, method: str, reason: RequestReason) -> RequestRecord:
    return RequestRecord(
        method=method,
        request_id=request_id,
        principal=principal_of_scope(scope),
        address=address_of(scope),
        target=str(scope["path"])[:_MAX_PATH],
        decision=RequestDecision.DENIED,
        reason=reason,
    )


def _refusal(error: LimitExceededError, *, is_large: bool) -> JSONResponse:
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": _SERVER_ERROR, "message": str(error)}}
    headers = {"Cache-Control": "no-store", "Retry-After": str(max(1, math.ceil(error.seconds)))}
    if is_large:  # the server would receive its body only to drop it
        headers["Connection"] = "close"
    return JSONResponse(body, 429, headers)
