"""Remove arguments that clients, not models, add to tool calls.

Tool schemas forbid unknown arguments, so that a model learns of its mistakes. The arguments listed here are no mistakes
of the model, and a call is valid without them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from server.clients.profile import Evidence

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ADDED_ARGUMENTS", "without_additions"]

ADDED_ARGUMENTS: Final = {
    "wait_for_previous": Evidence("Gemini CLI: github.com/MemPalace/mempalace/pull/322", "2026-04-09"),
    "toolCallId": Evidence("n8n: github.com/n8n-io/n8n/issues/21500", "2025-11-03"),
}
"""The names of these arguments, with the source of each observation."""


def without_additions(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call without those that clients add, unless the tool's schema defines them."""
    own = schema.get("properties")
    named = own if isinstance(own, dict) else {}
    return {name: value for name, value in arguments.items() if name not in ADDED_ARGUMENTS or name in named}
