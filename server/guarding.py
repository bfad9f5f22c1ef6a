"""Calls of `check_tool_call`: what the guard says of a call that a host is about to make."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from server.arguments import string
from server.faults import InvalidRequestError
from server.listing.envelope import text_block, tool_result
from server.listing.guard import ARGUMENTS, CHECK, TOOL, offers_tool
from skills_core.diagnostics import one_line
from skills_core.guard import Guard, Rule, Verdict, rules_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from server.config import Settings
    from server.host import Host
    from skills_core.catalog import Catalog
    from skills_core.guard import Decision

__all__ = ["GuardRequests", "guard_of"]

logger = logging.getLogger(__name__)


def guard_of(catalog: Catalog, settings: Settings) -> Guard:
    """Return the guard by the patterns of the configuration and of all active skills."""
    own = [
        *(Rule(pattern, Verdict.DENY) for pattern in settings.danger_patterns),
        *(Rule(pattern, Verdict.CONFIRM) for pattern in settings.confirm_patterns),
    ]
    return Guard([*own, *rules_of(catalog.active)])


class GuardRequests:
    """The handler of the tool."""

    def __init__(self, host: Host) -> None:
        """Answer from `host`."""
        self._host = host
        self._made: tuple[Catalog, Guard] | None = None
        self.calls: dict[str, Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]] = (
            {CHECK: self._check} if offers_tool(host.settings) else {}
        )

    async def _check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        tool, given = string(arguments, TOOL), arguments.get(ARGUMENTS)
        if not isinstance(given, dict):
            raise InvalidRequestError('arguments must be the object of the call, such as {"command": "ls"}')
        # To compile the patterns of many skills, or to search a long text, must not hold up the other requests.
        decision = await anyio.to_thread.run_sync(self._decide, tool, given)
        structured = {
            "decision": decision.verdict.value,
            "reason": decision.reason or None,
            "pattern": decision.rule.pattern if decision.rule else None,
            "skill": decision.rule.skill.key if decision.rule and decision.rule.skill else None,
        }
        text = decision.reason or f"The call of {one_line(tool)[:100]} is allowed."
        return {**tool_result([text_block(text)]), "structuredContent": structured}

    def _decide(self, tool: str, arguments: dict[str, Any]) -> Decision:
        catalog = self._host.snapshot.catalog
        if self._made is None or self._made[0] is not catalog:
            self._made = (catalog, guard_of(catalog, self._host.settings))
        decision = self._made[1].decide(tool, arguments)
        if decision.rule is not None:
            rule, digest = decision.rule, decision.rule.skill.digest if decision.rule.skill else ""
            logger.info("guard: %s %s by %s %s", decision.verdict, one_line(tool)[:100], rule.origin, digest)
        return decision
