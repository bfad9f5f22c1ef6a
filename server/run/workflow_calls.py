"""Calls of `run_workflow`: skills performed one after another while the client waits."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from server.activation.calls import texts_of
from server.arguments import string
from server.config import ConfigurationError
from server.listing.envelope import text_block, tool_result
from server.listing.runs import CONFIRM, CONTINUE, offers_workflows
from server.listing.workflows import INPUTS, RUN_WORKFLOW
from server.run.company import company_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from mcp.server.context import ServerRequestContext

    from server.host import Host
    from server.run.exchange import ClientExchange
    from server.run.exchanges import Exchanges
    from server.run.keeper import RunKeeper
    from skills_core.run.workflow.outcome import WorkflowOutcome
    from skills_core.run.workflow.plan import Plan

__all__ = ["WorkflowRequests"]


class WorkflowRequests:
    """The handler of the tool. Workflows are read at each call: who edits one need not restart a server."""

    def __init__(self, host: Host, exchanges: Exchanges, keeper: RunKeeper) -> None:
        """Run workflows of the skills of `host` by the service of `keeper`; runs are work of `exchanges`."""
        self._host = host
        self._exchanges = exchanges
        self._keeper = keeper

    def calls(
        self, ctx: ServerRequestContext[Any, Any]
    ) -> dict[str, Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]]:
        """Return the handler by the tool's name, if the tool is there."""
        there = offers_workflows(self._host.settings) and self._host.snapshot.catalog.active
        return {RUN_WORKFLOW: partial(self._run, ctx)} if there else {}

    async def _run(self, ctx: ServerRequestContext[Any, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
        async def work(exchange: ClientExchange) -> dict[str, Any]:
            assert plan is not None  # noqa: S101 - work is begun by a call that names one
            return await self._performed(exchange, plan)

        plan = None
        if not (arguments.get(CONTINUE) or arguments.get(CONFIRM)):
            name = string(arguments, "name", default="")
            if not name:
                return await anyio.to_thread.run_sync(self._listed)
            inputs = texts_of({"arguments": arguments.get(INPUTS)})
            plan = await anyio.to_thread.run_sync(self._planned, name, inputs)
        return await self._exchanges.converse(ctx, arguments, work)

    async def _performed(self, exchange: ClientExchange, plan: Plan) -> dict[str, Any]:
        service = await self._keeper.service()
        company = company_of(exchange, plan.workflow.name, self._host.settings)
        try:
            return _result(await service.perform_workflow(plan, company))
        except ConfigurationError as error:
            return tool_result([text_block(str(error))], is_error=True)

    def _planned(self, name: str, inputs: Mapping[str, str]) -> Plan:
        from server.workflows import UnknownWorkflowError, read_file
        from skills_core.errors import similar_to
        from skills_core.run.workflow.plan import prepare

        files = self._files()
        if name not in files:
            close = similar_to(name, files)
            hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise UnknownWorkflowError(f"There is no workflow {name[:100]!r}.{hint}")
        return prepare(read_file(files[name]), name, self._host.snapshot.catalog, inputs)

    def _listed(self) -> dict[str, Any]:
        from server.workflows import UnknownWorkflowError, read_file
        from skills_core.run.workflow.document import read_workflow

        found: list[dict[str, Any]] = []
        for name, file in self._files().items():
            try:
                workflow = read_workflow(read_file(file), name).workflow
            except UnknownWorkflowError:
                continue
            if workflow is not None:
                inputs = {
                    each.name: {"description": each.description, "required": each.required, "default": each.default}
                    for each in workflow.inputs.values()
                }
                found.append({"name": name, "description": workflow.description, "inputs": inputs})
        structured = {"status": "listed", "workflows": found}
        return {**tool_result([text_block(json.dumps(found, ensure_ascii=False))]), "structuredContent": structured}

    def _files(self) -> dict[str, Path]:
        from server.workflows import workflow_files

        return workflow_files(self._host.settings.workflows)


def _result(outcome: WorkflowOutcome) -> dict[str, Any]:
    """Return what the client's model is told: all but what became of each skill's own calls, which the traces hold."""
    from skills_core.run.outcome import RunStatus
    from skills_core.run.records import to_json

    steps = [{key: value for key, value in to_json(step).items() if key != "outcome"} for step in outcome.steps]
    about = [f"[{outcome.problem}] {outcome.message} (run {outcome.run_id})"] if outcome.problem else []
    content = [text_block(text) for text in (outcome.output, *about) if text]
    failed = outcome.status is not RunStatus.COMPLETED
    return {**tool_result(content, is_error=failed), "structuredContent": {**to_json(outcome), "steps": steps}}
