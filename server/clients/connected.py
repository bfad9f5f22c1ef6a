"""Identify the client of a request."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from server.clients.known import KNOWN_CLIENTS
from server.clients.profile import UNKNOWN, ClientProfile, profile_of

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

__all__ = ["client_called", "client_of"]

MAX_NAME = 200
"""Characters of a client's name that are compared."""


def client_of(ctx: ServerRequestContext[Any, Any]) -> ClientProfile:
    """Return the profile of the client that sent the request.

    In the handshake era a client names itself when it connects, in the modern era it may do so in each request.
    """
    sent = ctx.session.client_params
    if sent is not None:
        return client_called(sent.client_info.name, sent.client_info.version)
    # While `initialize` is handled, the session does not know its client yet.
    info = (ctx.params or {}).get("clientInfo") if ctx.method == "initialize" else None
    if not isinstance(info, dict):
        return UNKNOWN
    return client_called(str(info.get("name", "")), str(info.get("version", "")))


def client_called(name: str, version: str) -> ClientProfile:
    """Return the profile of a client by the name and the version that it sends."""
    return _profile(name[:MAX_NAME], version[:MAX_NAME])


@lru_cache(256)
def _profile(name: str, version: str) -> ClientProfile:
    return profile_of(name, KNOWN_CLIENTS, version)
