"""Record requests that are refused before a message is read: by their Host or Origin, their size or their form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from server.access.principal import principal_of_scope
from server.operation.records import HTTP_METHOD, Decision, RequestReason, RequestRecord, address_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from server.operation.records import Records

__all__ = ["RecordedRefusals", "record_refusal"]

_REASONS: Final = {
    400: RequestReason.INVALID_REQUEST,
    403: RequestReason.FOREIGN_ORIGIN,
    406: RequestReason.INVALID_REQUEST,
    413: RequestReason.TOO_LARGE,
    421: RequestReason.FOREIGN_HOST,
}
_DENIALS: Final = frozenset({RequestReason.FOREIGN_ORIGIN, RequestReason.FOREIGN_HOST})

_MAX_PATH: Final = 200


class RecordedRefusals:
    """ASGI middleware for the MCP endpoint, within the login and the limits, which record what they refuse."""

    def __init__(self, app: ASGIApp, records: Records) -> None:
        """Serve `app`; what it refuses is recorded in `records`."""
        self._app = app
        self._records = records

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if not self._records.wanted:
            await self._app(scope, receive, send)
            return

        async def noting(message: Message) -> None:
            # A message that was read has a record of its own.
            if message["type"] == "http.response.start" and not emitted.any:
                record_refusal(self._records, scope, message["status"])
            await send(message)

        with self._records.watched() as emitted:
            await self._app(scope, receive, noting)


def record_refusal(records: Records, scope: Scope, status: int) -> None:
    """Record a request that is refused with a status; other answers are not recorded."""
    reason = _REASONS.get(status)
    if reason is None or not records.wanted:
        return
    is_denied = reason in _DENIALS
    records.emit(
        RequestRecord(
            method=HTTP_METHOD,
            request_id=records.new_id(),
            principal=principal_of_scope(scope),
            address=address_of(scope),
            target=str(scope["path"])[:_MAX_PATH] if is_denied else "",
            decision=Decision.DENIED if is_denied else Decision.INVALID,
            reason=reason,
        )
    )
