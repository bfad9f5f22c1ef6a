"""Which client sent a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.clients.known import KNOWN_CLIENTS
from server.clients.profile import ClientProfile, profile_of

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

__all__ = ["client_of"]


def client_of(ctx: ServerRequestContext[Any, Any]) -> ClientProfile:
    """Return what is known of the client that sent the request.

    In the handshake era it named itself at the start of its connection, in the modern one it may do so with each
    request.
    """
    sent = ctx.session.client_params
    return profile_of(sent.client_info.name if sent is not None else None, KNOWN_CLIENTS)
