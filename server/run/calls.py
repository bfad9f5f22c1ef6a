"""Calls of `run_skill`: a skill performed while the client waits, asked and told of progress where it can be."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from server.activation.calls import invocable, texts_of
from server.arguments import string
from server.config import ConfigurationError
from server.listing.envelope import text_block, tool_result
from server.listing.runs import CONFIRM, CONTINUE, RUN, offers_tool
from server.run.company import company_of
from skills_core.run.outcome import RunOutcome, RunStatus
from skills_core.run.records import to_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp.server.context import ServerRequestContext

    from server.host import Host
    from server.run.exchange import ClientExchange
    from server.run.exchanges import Exchanges
    from server.run.keeper import RunKeeper
    from skills_core.skill import Skill

__all__ = ["RunRequests"]


class RunRequests:
    """The handler of the tool."""

    def __init__(self, host: Host, exchanges: Exchanges, keeper: RunKeeper) -> None:
        """Perform the skills of `host` by the service of `keeper`; runs are work of `exchanges`."""
        self._host = host
        self._exchanges = exchanges
        self._keeper = keeper

    def calls(
        self, ctx: ServerRequestContext[Any, Any]
    ) -> dict[str, Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]]:
        """Return the handler by the tool's name, if the tool is there."""
        there = offers_tool(self._host.settings) and self._host.snapshot.catalog.active
        return {RUN: partial(self._run, ctx)} if there else {}

    async def _run(self, ctx: ServerRequestContext[Any, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
        async def work(exchange: ClientExchange) -> dict[str, Any]:
            assert skill is not None  # noqa: S101 - work is begun by a call that names one
            return await self._performed(exchange, skill, texts_of(arguments), message)

        skill, message = None, None
        if not (arguments.get(CONTINUE) or arguments.get(CONFIRM)):
            skill = invocable(self._host.snapshot.catalog, string(arguments, "name"))
            message = string(arguments, "message", default="") or None
        return await self._exchanges.converse(ctx, arguments, work)

    async def _performed(
        self, exchange: ClientExchange, skill: Skill, values: Mapping[str, str], message: str | None
    ) -> dict[str, Any]:
        service = await self._keeper.service()
        from skills_core.run.executor import RunRequest

        self._host.usage.add(skill.key)
        company = company_of(exchange, skill.key, self._host.settings)
        try:
            return _result(await service.perform(RunRequest(skill, values, message), company))
        except ConfigurationError as error:
            return tool_result([text_block(str(error))], is_error=True)


def _result(outcome: RunOutcome) -> dict[str, Any]:
    """Return what the client's model is told of a run: all but what tools said."""
    score = outcome.score
    structured: dict[str, Any] = {
        **to_json(outcome),
        "score": {"overall": score.overall, "finding": score.finding} if score else None,
        "attempts": len(outcome.attempts),
        "tool_calls": [
            {"tool": call.tool, "decision": call.decision.value, "reason": call.reason} for call in outcome.tool_calls
        ],
    }
    about = [f"[{outcome.problem}] {outcome.message} (run {outcome.run_id})"] if outcome.problem else []
    content = [text_block(text) for text in (outcome.output, *about) if text]
    failed = outcome.status is not RunStatus.COMPLETED
    return {**tool_result(content, is_error=failed), "structuredContent": structured}
