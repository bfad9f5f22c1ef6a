"""Convert the result of an MCP server's tool to text for a model; other content becomes a placeholder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import mcp_types as types

from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock

__all__ = ["text_of"]

_BASE64 = 3 / 4


def text_of(result: CallToolResult) -> str:
    """Return the content blocks as lines of text, or the structured content of a result without blocks."""
    parts = [_text(block) for block in result.content]
    if not parts and result.structured_content is not None:
        return json.dumps(result.structured_content, ensure_ascii=False)
    return "\n".join(parts)


def _text(block: ContentBlock) -> str:
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent():
            return _placeholder("an image", block.mime_type, block.data)
        case types.AudioContent():
            return _placeholder("a sound", block.mime_type, block.data)
        case types.ResourceLink():
            return f"[a link to the resource {one_line(str(block.uri))[:500]}]"
        case types.EmbeddedResource():
            return _resource(block.resource)


def _resource(resource: types.TextResourceContents | types.BlobResourceContents) -> str:
    if isinstance(resource, types.BlobResourceContents):
        return _placeholder("a file", resource.mime_type or "unknown", resource.blob)
    return f"[the resource {one_line(str(resource.uri))[:500]}]\n{resource.text}"


def _placeholder(what: str, kind: str, data: str) -> str:
    return f"[{what} of the type {one_line(kind)[:100]}, {int(len(data) * _BASE64)} bytes, which is not shown]"
