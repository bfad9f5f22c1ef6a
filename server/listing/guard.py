"""The tool `check_tool_call`, by which a host asks the guard about a tool call that it is about to make.

It is listed even if no skill is active, since the configuration has patterns too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.config.settings import OptionalTool
from server.listing.schemas import TEXT, hints, object_of, or_null
from skills_core.guard import Verdict

if TYPE_CHECKING:
    from server.config.settings import Settings

__all__ = ["ARGUMENTS", "CHECK", "TOOL", "offers_tool", "tools"]

CHECK = OptionalTool.CHECK_TOOL_CALL.value
TOOL = "tool"
ARGUMENTS = "arguments"


def offers_tool(settings: Settings) -> bool:
    """Return whether the tool is switched on."""
    return OptionalTool.CHECK_TOOL_CALL in settings.tools.enabled


def tools(settings: Settings) -> list[dict[str, Any]]:
    """Return the entry of the tool in `tools/list`, if it is switched on."""
    return [_CHECK] if offers_tool(settings) else []


_CHECK: dict[str, Any] = {
    "name": CHECK,
    "title": "Check a tool call",
    "description": (
        "Ask whether a call of any tool is allowed by the skills that are active here, before you make it. On deny, do "
        "not make the call; on confirm, ask the user first and show what would be called."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            TOOL: {"type": "string", "description": "The tool's name, as it would be called."},
            ARGUMENTS: {"type": "object", "description": "The arguments of the call, whole and unchanged."},
        },
        "required": [TOOL, ARGUMENTS],
        "additionalProperties": False,
    },
    "outputSchema": object_of(
        decision={"type": "string", "enum": [verdict.value for verdict in Verdict]},
        reason=or_null(TEXT),
        pattern=or_null(TEXT),
        skill=or_null(TEXT, "Whose pattern it is; null for one of the configuration."),
    ),
    "annotations": hints("Check a tool call"),
}
