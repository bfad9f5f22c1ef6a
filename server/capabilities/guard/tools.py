"""The tool `check_tool_call`, by which a host asks the guard about a tool call that it is about to make.

It is listed even if no skill is active, since the configuration has patterns too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.capabilities.guard.guards import ServerGuard
from server.capabilities.guard.settings import CHECK_TOOL_CALL
from server.listing.envelope import text_block, tool_result
from server.listing.schemas import TEXT, hints, object_of, or_null
from server.protocol.tool_call import Tool
from server.requests import RequestReason, note_denied
from server.wire.params import InvalidRequestError, string
from skills_core.diagnostics import one_line
from skills_core.guard.guard import Verdict

if TYPE_CHECKING:
    from server.protocol.tool_call import Handler, ToolCall, ToolServices

_TOOL = "tool"
_ARGUMENTS = "arguments"

_CHECK: dict[str, Any] = {
    "name": CHECK_TOOL_CALL,
    "title": "Check a tool call",
    "description": (
        "Ask whether a call of any tool is allowed by the skills that are active here, before you make it. On deny, do "
        "not make the call; on confirm, ask the user first and show what would be called."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            _TOOL: {"type": "string", "description": "The tool's name, as it would be called."},
            _ARGUMENTS: {"type": "object", "description": "The arguments of the call, whole and unchanged."},
        },
        "required": [_TOOL, _ARGUMENTS],
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


def _handler(services: ToolServices) -> Handler:
    guard = services.host.service(ServerGuard)

    async def check(call: ToolCall) -> dict[str, Any]:
        tool, given = string(call.arguments, _TOOL), call.arguments.get(_ARGUMENTS)
        if not isinstance(given, dict):
            raise InvalidRequestError('arguments must be the object of the call, such as {"command": "ls"}')
        decision = await guard.decide(tool, given, call.view)
        if decision.verdict is Verdict.DENY:
            note_denied(RequestReason.GUARD)
        rule = decision.rule if decision.discloses_rule else None
        structured = {
            "decision": decision.verdict.value,
            "reason": decision.reason or None,
            "pattern": rule.pattern if rule else None,
            "skill": rule.skill.key if rule and rule.skill else None,
        }
        reason = decision.reason or f"The call of {one_line(tool)[:100]} is allowed."
        # The tool's description says what to do on each decision.
        text = f"{decision.verdict.value}: {reason}"
        return {**tool_result([text_block(text)]), "structuredContent": structured}

    return check


TOOLS = (Tool(CHECK_TOOL_CALL, lambda _: _CHECK, _handler),)
