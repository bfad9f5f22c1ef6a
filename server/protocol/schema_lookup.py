"""Answer the SDK's own question for the schema of a tool that is called.

The SDK compares the `Mcp-Param-*` headers of a modern `tools/call` over HTTP with the tool's schema. Where all callers
have the same tools, it looks the schema up by name. Where they have not, it lists the caller's tools, as if the client
had asked. Such a list is not recorded, and contains only the tools whose schemas may name headers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from server.hosting.views import View

__all__ = ["is_schema_lookup", "tools_with_headers"]


def is_schema_lookup(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Tell whether the SDK, not the client, lists tools.

    A client cannot feign it: in the modern era the SDK has compared the header of each request with its body.
    """
    if ctx.method != "tools/list" or ctx.request is None or ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
        return False
    return bool(ctx.request.headers.get("mcp-method") == "tools/call")


def tools_with_headers(view: View) -> dict[str, Any]:
    """Return the tools that skills of a view declare, as a list of tools; those of our own ask for no headers."""
    return {"tools": [{"name": name, "inputSchema": view.tool_schemas[name]} for name in view.declared]}
