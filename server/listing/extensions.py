"""Extensions of the protocol that some clients take part in, and what these clients receive besides.

The skills themselves are served by an extension that needs nothing of clients; it is in `envelope`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from server.capabilities import CAPABILITIES

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from server.config.settings.model import Settings

META_STRUCTURE: Final = "skillserve/structure"
"""The key in `_meta` of a result under which an extension finds its structure.

Beside `structuredContent` many clients drop the text, so that it would not reach their models.
"""

_EXTENSIONS: Final = tuple(each.extension for each in CAPABILITIES if each.extension is not None)

NO_EXTENSIONS: Final[frozenset[str]] = frozenset()


def taken_part(declared: Mapping[str, Any] | None, settings: Settings) -> frozenset[str]:
    """Return the names of the extensions that a client takes part in, by the extensions that it declares."""
    given = declared or {}
    return frozenset(each.name for each in _EXTENSIONS if each.includes(given.get(each.name), settings))


def extensions_of(ctx: ServerRequestContext[Any, Any], settings: Settings) -> frozenset[str]:
    """Return the names of the extensions that the sender of a request takes part in.

    In the handshake era a client declares them when it connects, in the modern era in each request.
    """
    capabilities = ctx.session.client_capabilities
    return taken_part(capabilities.extensions if capabilities is not None else None, settings)


def tool_meta(tool: str, extensions: frozenset[str]) -> dict[str, Any]:
    """Return what the entry of a tool has in `_meta` for clients that take part in `extensions`."""
    found = (each.tool_meta(tool) for each in _EXTENSIONS if each.name in extensions)
    return {key: value for meta in found for key, value in meta.items()}


def with_tool_meta(entry: dict[str, Any], extensions: frozenset[str]) -> dict[str, Any]:
    """Return the entry of a tool with what its `_meta` has for clients that take part in `extensions`."""
    added = tool_meta(entry["name"], extensions)
    return {**entry, "_meta": {**entry.get("_meta", {}), **added}} if added else entry


def with_declared(result: dict[str, Any], extensions: frozenset[str]) -> dict[str, Any]:
    """Return the result of `server/discover`, which declares `extensions` to a client that takes part in them."""
    if not extensions:
        return result
    capabilities = result["capabilities"]
    declared = {**capabilities.get("extensions", {}), **{name: {} for name in sorted(extensions)}}
    return {**result, "capabilities": {**capabilities, "extensions": declared}}


async def read_for(uri: str, extensions: frozenset[str]) -> dict[str, Any] | None:
    """Return the contents of a resource for clients that take part in `extensions`, None if these have none."""
    for each in _EXTENSIONS:
        if each.name in extensions and (contents := await each.read(uri)) is not None:
            return contents
    return None
