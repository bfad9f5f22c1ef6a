"""Calls of `run_skill` and `run_workflow`, which run while the client waits, and can ask it and report progress."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from server.config.settings import ConfigurationError
from server.listing.envelope import text_block, tool_result
from server.listing.runs import RUN, RUN_WORKFLOW, offers_tool, offers_workflows
from server.operation.notes import note_skill
from server.operation.records import Use
from server.protocol.activation.calls import invocable, texts_of
from server.protocol.tool_call import Tool, has_skills
from server.protocol.tools.run_participants import participants_of
from server.run.supervisor import RunsUnavailableError
from server.wire.arguments import CONFIRM, CONTINUE, string
from skills_core.rendering.escaping import escape_tags

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from server.exchange.client_exchange import ClientExchange
    from server.exchange.registry import ExchangeRegistry
    from server.hosting.host import Host
    from server.protocol.tool_call import ToolCall
    from server.run.skill_runner import RunParticipants
    from server.run.supervisor import RunSupervisor

__all__ = ["RunHandlers"]


class RunHandlers:
    """The handler of both tools. The modules that a run needs are imported when one begins."""

    def __init__(self, host: Host, exchanges: ExchangeRegistry, supervisor: RunSupervisor) -> None:
        """Run the skills of `host` by the service of `supervisor`; `exchanges` converses with clients."""
        self._host = host
        self._exchanges = exchanges
        self._supervisor = supervisor

    def tools(self) -> dict[str, Tool]:
        """Return the tools that are available, by their names."""
        settings = self._host.settings
        skill = {RUN: Tool(self._run_skill, has_skills)} if offers_tool(settings) else {}
        workflow = {RUN_WORKFLOW: Tool(self._run_workflow, has_skills)} if offers_workflows(settings) else {}
        return {**skill, **workflow}

    async def _run_skill(self, call: ToolCall) -> dict[str, Any]:
        ctx, arguments, catalog = call.ctx, call.arguments, call.view.catalog
        if _resumes(arguments):
            return await self._exchanges.handle_call(ctx, arguments, _no_new_work)
        skill = invocable(catalog, string(arguments, "name"))
        note_skill(skill, Use.RAN)
        values, message = texts_of(arguments), string(arguments, "message", default="") or None

        async def work(exchange: ClientExchange) -> dict[str, Any]:
            service = await self._supervisor.service()
            from server.protocol.tools.run_results import skill_result
            from skills_core.run.executor import RunRequest

            self._host.usage.add(skill.settings_key)
            participants = self._participants(exchange, call, skill.key)
            outcome = await service.run_skill(RunRequest(skill, values, message), participants)
            improvements = await service.improvements([outcome.run_id])
            return skill_result(outcome, improvements, structured=call.structured)

        return await self._exchanges.handle_call(ctx, arguments, partial(_with_faults_of_server, work))

    async def _run_workflow(self, call: ToolCall) -> dict[str, Any]:
        ctx, arguments, catalog = call.ctx, call.arguments, call.view.catalog
        if _resumes(arguments):
            return await self._exchanges.handle_call(ctx, arguments, _no_new_work)
        from server.protocol.tools.workflow_plans import listed, planned

        places, name = self._host.settings.runs.workflows, string(arguments, "name", default="")
        # Workflows are read at each call, so that edits need no restart.
        if not name:
            return await anyio.to_thread.run_sync(listed, places, catalog if self._host.views_differ else None)
        inputs = texts_of({"arguments": arguments.get("inputs")})
        make_plan = partial(planned, places, name, catalog, inputs, is_view=self._host.views_differ)
        plan = await anyio.to_thread.run_sync(make_plan)

        async def work(exchange: ClientExchange) -> dict[str, Any]:
            service = await self._supervisor.service()
            from server.protocol.tools.run_results import workflow_result

            participants = self._participants(exchange, call, plan.workflow.name)
            outcome = await service.run_workflow(plan, participants)
            steps = [step.outcome.run_id for step in outcome.steps if step.outcome is not None]
            return workflow_result(outcome, await service.improvements(steps), structured=call.structured)

        return await self._exchanges.handle_call(ctx, arguments, partial(_with_faults_of_server, work))

    def _participants(self, exchange: ClientExchange, call: ToolCall, name: str) -> RunParticipants:
        """Return the participants of a run that its user knows by `name`."""
        seen = (lambda: self._host.view(call.ctx).catalog) if self._host.views_differ else None
        return participants_of(exchange, name, self._host.settings, seen, call.view.allows, tool=call.name)


def _resumes(arguments: Mapping[str, Any]) -> bool:
    """Return whether a call resumes a run that waits for its client."""
    return bool(arguments.get(CONTINUE) or arguments.get(CONFIRM))


async def _no_new_work(_: ClientExchange) -> dict[str, Any]:
    raise AssertionError("a call that resumes a run starts no other")


async def _with_faults_of_server(
    work: Callable[[ClientExchange], Awaitable[dict[str, Any]]], exchange: ClientExchange
) -> dict[str, Any]:
    """Do the work; return an error in the settings as the result, so that the model sees it.

    Clients learn what becomes of a run that lost its database, and not where the database is.
    """
    from skills_core.run.durable.errors import RunWithoutRecordError

    try:
        return await work(exchange)
    except ConfigurationError as error:
        return tool_result([text_block(escape_tags(str(error)))], is_error=True)
    except RunWithoutRecordError as error:
        why = RunsUnavailableError("its record of runs cannot be reached now")
        return tool_result([text_block(escape_tags(f"{why} {error.fate}"))], is_error=True)
