"""Calls of `check_tool_call`: the guard's decision on a tool call that a host is about to make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio.to_thread

from server.listing.envelope import text_block, tool_result
from server.listing.guard import ARGUMENTS, CHECK, TOOL, offers_tool
from server.operation.notes import note_denied
from server.operation.records import RequestReason
from server.protocol.tool_call import Tool, is_always_there
from server.wire.arguments import string
from server.wire.errors import InvalidRequestError
from skills_core.diagnostics import one_line
from skills_core.guard import Verdict, log_decision

if TYPE_CHECKING:
    from collections.abc import Mapping

    from server.hosting.host import Host
    from server.hosting.views import View
    from server.protocol.tool_call import ToolCall
    from skills_core.guard import Decision

__all__ = ["GuardHandler"]


class GuardHandler:
    """The handler of the tool, and the way in which other tools ask the guard."""

    def __init__(self, host: Host) -> None:
        """Answer from `host`."""
        self._host = host

    def tools(self) -> dict[str, Tool]:
        """Return the tool by its name, if it is switched on."""
        return {CHECK: Tool(self._check, is_always_there)} if offers_tool(self._host.settings) else {}

    async def _check(self, call: ToolCall) -> dict[str, Any]:
        tool, given = string(call.arguments, TOOL), call.arguments.get(ARGUMENTS)
        if not isinstance(given, dict):
            raise InvalidRequestError('arguments must be the object of the call, such as {"command": "ls"}')
        decision = await self.decide(tool, given, call.view)
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

    async def decide(self, tool: str, arguments: Mapping[str, Any], view: View) -> Decision:
        """Return what the guard decides on a call by a client with this view."""
        # Compiling the patterns of many skills, or searching a long text, must not hold up the other requests.
        return await anyio.to_thread.run_sync(self._decide, tool, dict(arguments), view)

    def _decide(self, tool: str, arguments: dict[str, Any], view: View) -> Decision:
        decision = self._host.guard.for_view(view).decide(tool, arguments)
        log_decision(tool, decision)
        return decision
