"""What a client holds between two rounds of a call: sealed, and good only for the same call by the same client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError
from mcp_types.methods import is_input_required

from server.exchange.callers import caller_of

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.request_state import RequestStateBoundary

__all__ = ["SealedState"]

_REASON = "invalid_request_state"


class SealedState:
    """Middleware: seals the state of each round that goes out, and opens what comes back.

    The SDK's boundary does it, with a key of this process: it brings a cipher along, so it is made when it is needed.
    """

    def __init__(self, audience: str, seconds: float) -> None:
        """Seal for this `audience`, for so many `seconds`."""
        self._audience = audience
        self._seconds = seconds
        self._made: RequestStateBoundary | None = None

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Answer a request."""
        if (ctx.params or {}).get("requestState") is not None:
            return await self._opened(ctx, call_next)
        result = await call_next(ctx)
        if not is_input_required(result):
            return result

        async def answered(_: ServerRequestContext[Any, Any]) -> HandlerResult:
            return result

        return await self._boundary()(ctx, answered)

    async def _opened(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        try:
            return await self._boundary()(ctx, call_next)
        except MCPError as error:
            if not isinstance(error.data, dict) or error.data.get("reason") != _REASON:
                raise
            why = "it is of another call or client, of another process of this server, or too old"
            raise MCPError(error.code, f"{error.message}: {why}. Begin the call again.", error.data) from None

    def _boundary(self) -> RequestStateBoundary:
        if self._made is None:
            from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity

            security = RequestStateSecurity.ephemeral(ttl=self._seconds)
            security.bind_principal = lambda ctx: str(caller_of(ctx))
            self._made = RequestStateBoundary(security, default_audience=self._audience)
        return self._made
