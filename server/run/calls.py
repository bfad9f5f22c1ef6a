"""Calls of `run_skill`: a skill performed while the client waits, asked and told of progress where it can be."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from server.activation.calls import invocable, texts_of
from server.arguments import string
from server.environment import state_home
from server.listing.envelope import text_block, tool_result
from server.listing.runs import CONFIRM, CONTINUE, RUN, offers_tool
from server.rules import guard_of
from server.run.user import user_of
from skills_core.run.models import CLIENT
from skills_core.run.outcome import RunOutcome, RunStatus
from skills_core.run.records import to_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp.server.context import ServerRequestContext

    from server.host import Host
    from server.run.exchange import ClientExchange
    from server.run.exchanges import Exchanges
    from server.run.service import RunService
    from skills_core.skill import Skill

__all__ = ["RunRequests"]


class RunRequests:
    """The handler of the tool."""

    def __init__(self, host: Host, exchanges: Exchanges) -> None:
        """Perform the skills of `host`; runs are work of `exchanges`."""
        self._host = host
        self._exchanges = exchanges
        self._service: RunService | None = None

    def calls(
        self, ctx: ServerRequestContext[Any, Any]
    ) -> dict[str, Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]]:
        """Return the handler by the tool's name, if the tool is there."""
        return {RUN: partial(self._run, ctx)} if offers_tool(self._host.settings) else {}

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
        # What performs takes a second to import, in which others want to be answered.
        service = await anyio.to_thread.run_sync(self._opened)
        from server.run.service import Run

        run = Run(skill, values, message, user=user_of(exchange, skill.key), report=exchange.report)
        if self._host.settings.model == CLIENT:
            from dataclasses import replace

            from server.run.model import ClientModel

            run = replace(run, model=ClientModel(exchange))
        self._host.usage.add(skill.key)
        return _result(await service.perform(run))

    def _opened(self) -> RunService:
        from server.run.service import RunService

        if self._service is None:
            settings = self._host.settings
            self._service = RunService(
                settings, lambda: guard_of(self._host.snapshot.catalog.active, settings), state_home()
            )
        return self._service


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
