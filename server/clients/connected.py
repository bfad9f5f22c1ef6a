"""The client of a request, and the arguments that clients, not models, add to tool calls."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from server.clients.known import KNOWN_CLIENTS
from server.clients.profile import UNKNOWN, ClientProfile, Evidence, profile_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.server.context import ServerRequestContext

__all__ = ["ADDED_ARGUMENTS", "client_called", "client_of", "without_additions"]

ADDED_ARGUMENTS: Final = {
    "wait_for_previous": Evidence("Gemini CLI: github.com/MemPalace/mempalace/pull/322", "2026-04-09"),
    "toolCallId": Evidence("n8n: github.com/n8n-io/n8n/issues/21500", "2025-11-03"),
}
"""The arguments that clients add, with the source of each observation.

The schemas of our tools forbid unknown arguments, so that a model learns of its mistakes. These are not its mistakes,
and a call is valid without them.
"""

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


def without_additions(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call without those that clients add, unless the tool's schema defines them."""
    own = schema.get("properties")
    named = own if isinstance(own, dict) else {}
    return {name: value for name, value in arguments.items() if name not in ADDED_ARGUMENTS or name in named}
