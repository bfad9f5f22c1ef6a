"""What the server says of itself when a conversation opens."""

from __future__ import annotations

from typing import Any, Final

from server import __version__
from server.listing.envelope import EXTENSION

__all__ = ["CAPABILITIES", "EXTENSIONS", "IDENTITY"]

IDENTITY: Final[dict[str, str]] = {
    "name": "skillserve",
    "title": "skillserve",
    "description": "Agent Skills: instructions, scripts and references for particular tasks",
    "version": __version__,
}

EXTENSIONS: Final[dict[str, dict[str, Any]]] = {EXTENSION: {"directoryRead": True}}

CAPABILITIES: Final[dict[str, Any]] = {
    "completions": {},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "tools": {"listChanged": True},
}
"""What the SDK derives from the handlers of `SkillServer`; `EXTENSIONS` are added in the modern era."""
