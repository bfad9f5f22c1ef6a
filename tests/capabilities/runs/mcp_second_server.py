"""An MCP server for tests, built with the SDK: `mcp_second_server.py stdio | streamable-http | sse [PORT]`."""

from __future__ import annotations

import os
import sys

import mcp_types as types
from mcp.server import MCPServer

server = MCPServer("second", log_level="ERROR")


@server.tool(annotations=types.ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("it did not work")


@server.tool()
def environment() -> str:
    """Tell the names in the environment."""
    return " ".join(sorted(os.environ))


@server.tool()
def die() -> str:
    """End the server in the middle of a call."""
    os._exit(3)


@server.tool(structured_output=True)
def structured() -> dict[str, int]:
    """Give a number."""
    return {"n": 1}


@server.tool(structured_output=False)
def mixed() -> list[types.ContentBlock]:
    """Give everything that a result can hold."""
    return [
        types.TextContent(type="text", text="words"),
        types.ImageContent(type="image", data="AAAA", mime_type="image/png"),
        types.AudioContent(type="audio", data="AAAA", mime_type="audio/wav"),
        types.ResourceLink(type="resource_link", uri="file:///x", name="x"),
        types.EmbeddedResource(
            type="resource", resource=types.TextResourceContents(uri="file:///a", text="inside", mime_type="text/plain")
        ),
        types.EmbeddedResource(type="resource", resource=types.BlobResourceContents(uri="file:///b", blob="AAAA")),
    ]


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    elif sys.argv[1] == "sse":
        server.run("sse", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
