"""Who sent a request, as far as a server can know: nobody else may go on with what it began."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import principal_components
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

__all__ = ["Caller", "caller_of", "session_of"]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request.

    `modern` is the protocol era, `session` that of the handshake era over HTTP, `principal` whom a login named. Where
    none of them tells clients apart, what they were handed to go on with has to: it cannot be guessed.
    """

    modern: bool
    session: str | None = None
    principal: str | None = None

    def __str__(self) -> str:
        """Write it as one text, equal only for equal callers."""
        return json.dumps([self.modern, self.session, self.principal])


def caller_of(ctx: ServerRequestContext[Any, Any]) -> Caller:
    """Return who sent the request."""
    token = get_access_token()
    principal = None if token is None else json.dumps(principal_components(token))
    return Caller(ctx.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS, session_of(ctx), principal)


def session_of(ctx: ServerRequestContext[Any, Any]) -> str | None:
    """Return the session of a request over HTTP, None in the modern era, which has none."""
    if ctx.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
        return None
    session: str | None = getattr(ctx.request, "headers", {}).get("mcp-session-id")
    return session
