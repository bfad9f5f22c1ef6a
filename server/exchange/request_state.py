"""Sealing of `requestState`: the client cannot read or change it, nor use it for another call or as another caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError

from server.exchange.callers import caller_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.request_state import RequestStateBoundary

__all__ = ["SealedState"]

_REASON = "invalid_request_state"


class SealedState:
    """Seals the state of each `input_required` result, and opens the state of each request.

    It uses the SDK's boundary with the given keys, or with one of this process. The boundary imports a cipher, so it is
    made on first use.
    """

    def __init__(self, audience: str, seconds: float, keys: Sequence[str] = ()) -> None:
        """Seal for `audience`; a state is valid for `seconds`. The first of the keys seals, all of them open."""
        self._keys = [*keys]
        self._audience = audience
        self._seconds = seconds
        self._created: RequestStateBoundary | None = None

    async def seal(self, ctx: ServerRequestContext[Any, Any], result: HandlerResult) -> HandlerResult:
        """Return an `input_required` result with its state sealed."""

        async def answered(_: ServerRequestContext[Any, Any]) -> HandlerResult:
            return result

        return await self._boundary()(ctx, answered)

    async def open(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Pass on a request that carries a state, with its state open, and seal that of its result.

        Raises:
            MCPError: the state is not one of this request.
        """
        try:
            return await self._boundary()(ctx, call_next)
        except MCPError as error:
            if not isinstance(error.data, dict) or error.data.get("reason") != _REASON:
                raise
            why = "it belongs to another call, another client or another process of this server, or is too old"
            raise MCPError(
                error.code, f"{error.message}: {why}. Start the call again without it.", error.data
            ) from None

    def _boundary(self) -> RequestStateBoundary:
        if self._created is None:
            from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity

            if self._keys:
                security = RequestStateSecurity(keys=[*self._keys], ttl=self._seconds)
            else:
                security = RequestStateSecurity.ephemeral(ttl=self._seconds)
            security.bind_principal = lambda ctx: str(caller_of(ctx))
            self._created = RequestStateBoundary(security, default_audience=self._audience)
        return self._created
