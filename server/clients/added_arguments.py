"""What clients put among the arguments of a tool that are none of its own, and none of the model's doing alone.

A tool's schema forbids what it does not know, so that a slip of a model is told. These are no slips: a call that has
one of them is as good without it.
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
"""Arguments by their names, with where each was seen."""


def without_additions(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call without what clients add; what the tool's schema names is the tool's."""
    own = schema.get("properties")
    named = own if isinstance(own, dict) else {}
    return {name: value for name, value in arguments.items() if name not in ADDED_ARGUMENTS or name in named}
