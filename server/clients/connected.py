"""Identify the client of a request."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from server.clients.known import KNOWN_CLIENTS
from server.clients.profile import UNKNOWN, ClientProfile, profile_of

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

__all__ = ["client_of"]

MAX_NAME = 200
"""Characters of a client's name that are compared."""


def client_of(ctx: ServerRequestContext[Any, Any]) -> ClientProfile:
    """Return the profile of the client that sent the request.

    In the handshake era a client names itself when it connects, in the modern era it may do so in each request.
    """
    sent = ctx.session.client_params
    return _profile(sent.client_info.name[:MAX_NAME]) if sent is not None else UNKNOWN


@lru_cache(256)
def _profile(name: str) -> ClientProfile:
    return profile_of(name, KNOWN_CLIENTS)
