"""Who sent a request, as far as the server can know: only the same caller may resume an exchange."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import principal_components
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from server.access.roles import profile_of

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

__all__ = ["Caller", "caller_of", "session_of"]


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request.

    `modern` is the protocol era, `session` the session id of the handshake era over HTTP, `principal` the user of a
    login, and `profile` the one that the request was sent to. Only their resume tokens, which cannot be guessed,
    distinguish clients with equal values.
    """

    modern: bool
    session: str | None = None
    principal: str | None = None
    profile: str | None = None

    def __str__(self) -> str:
        """Return a text that is equal only for equal callers."""
        profile = () if self.profile is None else (self.profile,)
        return json.dumps([self.modern, self.session, self.principal, *profile])


def caller_of(ctx: ServerRequestContext[Any, Any]) -> Caller:
    """Return the caller of a request."""
    token = get_access_token()
    principal = None if token is None else json.dumps(principal_components(token))
    return Caller(ctx.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS, session_of(ctx), principal, profile_of(ctx))


def session_of(ctx: ServerRequestContext[Any, Any]) -> str | None:
    """Return the session id of a request over HTTP; the modern era has none."""
    if ctx.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
        return None
    session: str | None = getattr(ctx.request, "headers", {}).get("mcp-session-id")
    return session
