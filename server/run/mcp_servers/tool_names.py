"""Names for the tools of MCP servers: `server__tool`, in the characters that every model API accepts."""

from __future__ import annotations

import hashlib
import re

__all__ = ["aliases_of", "prefixes_of", "sanitized", "tool_name"]

MAX_NAME = 64
"""Longest tool name that model APIs accept."""

_HASH_DIGITS = 8
_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")


def sanitized(name: str) -> str:
    """Return the name with `_` in place of each forbidden character."""
    return _FORBIDDEN.sub("_", name)


def tool_name(server: str, tool: str) -> str:
    """Return the name of a server's tool; a name that is too long is cut and ends with a hash."""
    name = f"{sanitized(server)}__{sanitized(tool)}"
    if len(name) <= MAX_NAME:
        return name
    digest = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
    return f"{name[: MAX_NAME - _HASH_DIGITS - 1]}_{digest}"


def aliases_of(server: str, tool: str) -> tuple[str, ...]:
    """Return the names by which skills refer to the tool: those of Claude Code, Codex and VS Code."""
    return (
        f"{sanitized(server)}__{sanitized(tool)}",
        f"mcp__{sanitized(server)}__{sanitized(tool)}",
        f"{server}/{tool}",
    )


def prefixes_of(server: str) -> tuple[str, ...]:
    """Return the prefixes of the names by which skills refer to a server's tools."""
    return (f"mcp__{sanitized(server)}__", f"{server}/")
