"""The server's instructions in the results that open a conversation: those of the caller's view, for its client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.clients import client_of, layout_for

if TYPE_CHECKING:
    from mcp.server.context import HandlerResult, ServerRequestContext

    from server.hosting.host import Host

__all__ = ["OPENING", "with_instructions"]

OPENING = frozenset({"initialize", "server/discover"})
"""The methods that open a conversation."""


def with_instructions(host: Host, ctx: ServerRequestContext[Any, Any], result: HandlerResult) -> HandlerResult:
    """Return the result of a request that opens a conversation; the SDK knows one text for all callers."""
    if not isinstance(result, dict):
        return result
    view = host.view(ctx)
    instructions = view.instructions(layout_for(client_of(ctx), view.settings))
    return {**result, "instructions": instructions} if instructions is not None else result
