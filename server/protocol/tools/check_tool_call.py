"""Calls of `check_tool_call`: what the guard says of a call that a host is about to make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio.to_thread

from server.config.guard_factory import guard_of
from server.listing.envelope import text_block, tool_result
from server.listing.guard import ARGUMENTS, CHECK, TOOL, offers_tool
from server.wire.arguments import string
from server.wire.errors import InvalidRequestError
from skills_core.diagnostics import one_line
from skills_core.guard import log_decision

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp.server.context import ServerRequestContext

    from server.hosting.host import Host
    from skills_core.catalog import Catalog
    from skills_core.guard import Decision, Guard

__all__ = ["GuardRequests"]


class GuardRequests:
    """The handler of the tool, and whoever else is to ask the guard."""

    def __init__(self, host: Host) -> None:
        """Answer from `host`."""
        self._host = host
        self._made: tuple[Catalog, Guard] | None = None

    def calls(
        self, _: ServerRequestContext[Any, Any]
    ) -> dict[str, Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]]:
        """Return the tool by its name, if it is there."""
        return {CHECK: self._check} if offers_tool(self._host.settings) else {}

    async def _check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        tool, given = string(arguments, TOOL), arguments.get(ARGUMENTS)
        if not isinstance(given, dict):
            raise InvalidRequestError('arguments must be the object of the call, such as {"command": "ls"}')
        decision = await self.decide(tool, given)
        structured = {
            "decision": decision.verdict.value,
            "reason": decision.reason or None,
            "pattern": decision.rule.pattern if decision.rule else None,
            "skill": decision.rule.skill.key if decision.rule and decision.rule.skill else None,
        }
        text = decision.reason or f"The call of {one_line(tool)[:100]} is allowed."
        return {**tool_result([text_block(text)]), "structuredContent": structured}

    async def decide(self, tool: str, arguments: Mapping[str, Any]) -> Decision:
        """Return what the patterns of settings and active skills say of a call."""
        # To compile the patterns of many skills, or to search a long text, must not hold up the other requests.
        return await anyio.to_thread.run_sync(self._decide, tool, dict(arguments))

    def _decide(self, tool: str, arguments: dict[str, Any]) -> Decision:
        catalog = self._host.snapshot.catalog
        if self._made is None or self._made[0] is not catalog:
            self._made = (catalog, guard_of(catalog.active, self._host.settings.guard))
        decision = self._made[1].decide(tool, arguments)
        log_decision(tool, decision)
        return decision
