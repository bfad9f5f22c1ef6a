"""What the tools of other servers are called here: `server__tool`, in letters that every model's interface takes."""

from __future__ import annotations

import hashlib
import re

__all__ = ["aliases_of", "beginnings_of", "plain", "tool_name"]

MAX_NAME = 64
"""Longest name of a tool that the interfaces of models take."""

_DIGITS = 8
_OTHER = re.compile(r"[^A-Za-z0-9_-]")


def plain(name: str) -> str:
    """Return a name with `_` for every letter that may not be in it."""
    return _OTHER.sub("_", name)


def tool_name(server: str, tool: str) -> str:
    """Return the name of a server's tool; one that is too long ends with digits that tell it from others."""
    name = f"{plain(server)}__{plain(tool)}"
    if len(name) <= MAX_NAME:
        return name
    digits = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{name[: MAX_NAME - _DIGITS - 1]}_{digits}"


def aliases_of(server: str, tool: str) -> tuple[str, ...]:
    """Return what skills call the tool: as Claude Code and Codex do, and as VS Code does."""
    return (f"{plain(server)}__{plain(tool)}", f"mcp__{plain(server)}__{plain(tool)}", f"{server}/{tool}")


def beginnings_of(server: str) -> tuple[str, ...]:
    """Return what the hosts' names for the tools of a server begin with, as skills write them."""
    return (f"mcp__{plain(server)}__", f"{server}/")
