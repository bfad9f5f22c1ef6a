"""The server's instructions in the results that open a conversation: those of the caller's view, for its client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.clients import client_of, layout_for

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from server.hosting.host import Host

__all__ = ["ViewInstructions"]

_OPENING = frozenset({"initialize", "server/discover"})


class ViewInstructions:
    """A middleware that adds the instructions: the SDK has one text for all callers."""

    def __init__(self, host: Host) -> None:
        """Answer from `host`."""
        self._host = host

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Pass a message on, and complete the result if it opens a conversation."""
        if ctx.method not in _OPENING:
            return await call_next(ctx)
        view = self._host.view(ctx)
        result = await call_next(ctx)
        if not isinstance(result, dict):
            return result
        instructions = view.instructions(layout_for(client_of(ctx), view.settings))
        return {**result, "instructions": instructions} if instructions is not None else result
