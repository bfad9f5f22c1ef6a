"""The tools `run_skill` and `run_workflow`, which run while the client waits, and can ask it and report progress.

Results leave out the results of tool calls, which traces contain. For a client that receives no structure, the text
says what its model needs: how the run ended, its score, and what was not done.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from server.capabilities.runs.offered import offers_tool, offers_workflows
from server.capabilities.runs.settings import RUN_SKILL, RUN_WORKFLOW, RunSettings
from server.capabilities.runs.supervisor import RunsUnavailableError, RunSupervisor
from server.config.files import ConfigurationError
from server.hosting.activity import ActivityKind
from server.listing.envelope import text_block, tool_result
from server.listing.schemas import TEXT, UNKNOWN_EFFECTS, list_of, object_of, or_null
from server.protocol.tool_call import Tool, has_active, has_offered
from server.protocol.tools.activate_skill import invocable, texts_of
from server.requests import Use, note_skill
from server.wire.params import CONFIRM, CONTINUE, string
from skills_core.guard.tool import CallDecision
from skills_core.rendering.escaping import escape_line, escape_tags
from skills_core.runs.journal import to_json
from skills_core.runs.models import CLIENT
from skills_core.runs.outcome import ActivationOrigin, RunStatus

if TYPE_CHECKING:
    from server.capabilities.runs.skill_runner import RunParticipants
    from server.config.settings.model import Settings
    from server.conversation.client_exchange import ClientExchange
    from server.protocol.tool_call import ToolCall, ToolServices
    from skills_core.catalog.catalog import Catalog
    from skills_core.runs.outcome import RunOutcome
    from skills_core.runs.workflow.model import WorkflowOutcome

    Improvements = Sequence[Mapping[str, Any]]


_RESUME_ARGUMENTS: dict[str, Any] = {
    CONTINUE: {"type": "string", "description": "Go on with a run, as its last result says."},
    CONFIRM: {"type": "string", "description": "The user agrees to what the last result asks."},
}
"""The arguments by which a call resumes a run that waits for its client."""

_WAITING_FIELDS: dict[str, Any] = {
    "question": {**TEXT, "description": "What the user has to agree to."},
    CONTINUE: TEXT,
    CONFIRM: TEXT,
}
"""The fields of the result of a run that waits for its client."""

_ENDS = [each.value for each in RunStatus if each is not RunStatus.INTERRUPTED]
# An interrupted run has no outcome yet.
_STATUSES = [*_ENDS, "not_finished", "needs_consent"]

_SCORE = object_of(overall={"type": "number"}, finding=TEXT)

_CALL = object_of(tool=TEXT, decision={"type": "string", "enum": [each.value for each in CallDecision]}, reason=TEXT)

_ACTIVATED = object_of(
    skill=TEXT, digest=or_null(TEXT), origin={"type": "string", "enum": [each.value for each in ActivationOrigin]}
)

_COUNT = {"type": "integer", "minimum": 0}

_IMPROVEMENTS = list_of(
    object_of(id=TEXT, skill=TEXT, run_id=TEXT, status=TEXT, summary=TEXT, diff=TEXT),
    "Changes of skills that were made or proposed because a tool call failed.",
)

_OUTCOME: dict[str, Any] = {
    **object_of(
        status={"type": "string", "enum": _STATUSES},
        run_id=TEXT,
        skill=TEXT,
        digest=or_null(TEXT),
        output=TEXT,
        problem=or_null(TEXT, "Why something is missing."),
        message=TEXT,
        score=or_null(_SCORE),
        attempts=_COUNT,
        usage=object_of(requests=_COUNT, input_tokens=_COUNT, output_tokens=_COUNT),
        tool_calls=list_of(_CALL),
        activated_skills=list_of(_ACTIVATED, "Other skills whose instructions the run had."),
        improvements=_IMPROVEMENTS,
        **_WAITING_FIELDS,
    ),
    # The result of a run that waits for its client has no other field of an outcome.
    "required": ["status"],
}

_RUN_SKILL: dict[str, Any] = {
    "name": RUN_SKILL,
    "title": "Run a skill",
    "description": (
        "Have a skill performed here, by a model of its own that sees the skill, the skills that go with it and your "
        "message, and get the result. Use it for a task that stands on its own; to follow a skill yourself, call "
        "activate_skill. Say in the message all that the task needs. The result may ask you to call again."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "The skill's name, as activate_skill takes it."},
            "arguments": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "Values for the skill's {{parameters}}, by name.",
            },
            "message": {"type": "string", "description": "The task: what the user wants, in full."},
            **_RESUME_ARGUMENTS,
        },
        "additionalProperties": False,
    },
    "outputSchema": _OUTCOME,
    "annotations": {"title": "Run a skill", **UNKNOWN_EFFECTS},
}

_STEP = object_of(
    name=TEXT,
    kind=TEXT,
    status=TEXT,
    output=or_null(TEXT),
    held=or_null({"type": "boolean"}, "Whether the condition of the step held."),
)

_RUN_WORKFLOW: dict[str, Any] = {
    "name": RUN_WORKFLOW,
    "title": "Run a workflow",
    "description": (
        "Have a workflow run here: skills performed one after another by a model of its own, as the workflow says. "
        "Without a name it tells which workflows there are, and which inputs each takes. The result may ask you to "
        "call again."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "The workflow's name; none to list them."},
            "inputs": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "Values for the workflow's inputs, by name.",
            },
            **_RESUME_ARGUMENTS,
        },
        "additionalProperties": False,
    },
    "outputSchema": {
        **object_of(
            status={"type": "string", "enum": [*_STATUSES, "listed"]},
            run_id=TEXT,
            workflow=TEXT,
            digest=TEXT,
            output=TEXT,
            problem=or_null(TEXT, "Why it ended before its end."),
            message=TEXT,
            steps=list_of(_STEP),
            workflows=list_of(object_of(name=TEXT, description=TEXT, inputs={"type": "object"})),
            improvements=_IMPROVEMENTS,
            **_WAITING_FIELDS,
        ),
        "required": ["status"],
    },
    "annotations": {"title": "Run a workflow", **UNKNOWN_EFFECTS},
}


class _RunHandlers:
    """The handler of both tools. The modules that a run needs are imported when one begins."""

    def __init__(self, services: ToolServices) -> None:
        """Run the skills of the host of `services` by the service of its supervisor."""
        self._host, self._exchanges = services.host, services.exchanges
        self._supervisor = self._host.service(RunSupervisor)

    async def run_skill(self, call: ToolCall) -> dict[str, Any]:
        ctx, arguments, catalog = call.ctx, call.arguments, call.view.catalog
        if _resumes(arguments):
            return await self._exchanges.handle_call(ctx, arguments, _no_new_work)
        skill = invocable(catalog, string(arguments, "name"))
        note_skill(skill, Use.RAN)
        values, message = texts_of(arguments), string(arguments, "message", default="") or None

        async def work(exchange: ClientExchange) -> dict[str, Any]:
            service = await self._supervisor.service()
            from skills_core.runs.executor import RunRequest

            self._host.usage.add(skill.settings_key)
            # The event of the call itself comes at its end, which may be minutes later.
            self._host.activity.add(ActivityKind.RUN, f"{skill.settings_key} begins to run", skill=skill.settings_key)
            participants = self._participants(exchange, call, skill.key)
            outcome = await service.run_skill(RunRequest(skill, values, message), participants)
            improvements = await service.improvements([outcome.run_id])
            return skill_result(outcome, improvements, structured=call.structured)

        return await self._exchanges.handle_call(ctx, arguments, partial(_with_faults_of_server, work))

    async def run_workflow(self, call: ToolCall) -> dict[str, Any]:
        ctx, arguments, catalog = call.ctx, call.arguments, call.view.catalog
        if _resumes(arguments):
            return await self._exchanges.handle_call(ctx, arguments, _no_new_work)
        from server.capabilities.runs.workflows import listed, planned

        places, name = self._host.settings.section(RunSettings).workflows, string(arguments, "name", default="")
        # Workflows are read at each call, so that edits need no restart.
        if not name:
            return await anyio.to_thread.run_sync(listed, places, catalog if self._host.views_differ else None)
        inputs = texts_of({"arguments": arguments.get("inputs")})
        make_plan = partial(planned, places, name, catalog, inputs, is_view=self._host.views_differ)
        plan = await anyio.to_thread.run_sync(make_plan)

        async def work(exchange: ClientExchange) -> dict[str, Any]:
            service = await self._supervisor.service()
            participants = self._participants(exchange, call, plan.workflow.name)
            outcome = await service.run_workflow(plan, participants)
            steps = [step.outcome.run_id for step in outcome.steps if step.outcome is not None]
            return workflow_result(outcome, await service.improvements(steps), structured=call.structured)

        return await self._exchanges.handle_call(ctx, arguments, partial(_with_faults_of_server, work))

    def _participants(self, exchange: ClientExchange, call: ToolCall, name: str) -> RunParticipants:
        """Return the participants of a run that its user knows by `name`."""
        seen = (lambda: self._host.view(call.ctx).catalog) if self._host.views_differ else None
        return participants_of(exchange, name, self._host.settings, seen, call.view.allows, tool=call.name)


def participants_of(
    exchange: ClientExchange,
    name: str,
    settings: Settings,
    catalog: Callable[[], Catalog] | None,
    allows: Callable[[str], bool],
    *,
    tool: str,
) -> RunParticipants:
    """Return the client at the other end of `exchange`, whose user knows the run by `name`.

    `catalog` returns what the client sees, None if it sees everything, and `allows` tells which tools it may use.
    `tool` is the tool that the client called.
    """
    from server.capabilities.runs.skill_runner import RunParticipants
    from server.conversation.elicitation import user_of

    user, reason = user_of(exchange, name), f"client_call: {tool}"
    if settings.section(RunSettings).model != CLIENT:
        return RunParticipants(user, exchange.report, catalog=catalog, allows=allows, reason=reason)
    from server.conversation.client_model import ClientModel

    return RunParticipants(user, exchange.report, ClientModel(exchange), catalog, allows, reason)


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
    from skills_core.runs.durable.recorded_run import RunWithoutRecordError

    try:
        return await work(exchange)
    except ConfigurationError as error:
        return tool_result([text_block(escape_tags(str(error)))], is_error=True)
    except RunWithoutRecordError as error:
        why = RunsUnavailableError("its record of runs cannot be reached now")
        return tool_result([text_block(escape_tags(f"{why} {error.fate}"))], is_error=True)


TOOLS = (
    Tool(
        RUN_SKILL,
        lambda _: _RUN_SKILL,
        lambda services: _RunHandlers(services).run_skill,
        is_offered=offers_tool,
        is_listed=has_offered,
        is_callable=has_active,
    ),
    Tool(
        RUN_WORKFLOW,
        lambda _: _RUN_WORKFLOW,
        lambda services: _RunHandlers(services).run_workflow,
        is_offered=offers_workflows,
        is_listed=has_offered,
        is_callable=has_active,
    ),
)


_MAX_CALLS = 10
# Most calls that were not done that a text names.


def skill_result(outcome: RunOutcome, improvements: Improvements = (), *, structured: bool = True) -> dict[str, Any]:
    """Return the result of `run_skill`; without a structure, the text says more.

    `improvements` are the changes of skills that the run led to; the text has their diffs in any case.
    """
    score = outcome.score
    return _result(
        outcome,
        improvements,
        [] if structured else [_ending(outcome), *_facts(outcome)],
        score={"overall": score.overall, "finding": score.finding} if score else None,
        attempts=len(outcome.attempts),
        tool_calls=[
            {"tool": call.tool, "decision": call.decision.value, "reason": call.reason} for call in outcome.tool_calls
        ],
    )


def workflow_result(
    outcome: WorkflowOutcome, improvements: Improvements = (), *, structured: bool = True
) -> dict[str, Any]:
    """Return the result of `run_workflow`; without a structure, the text says more."""
    steps = [{key: value for key, value in to_json(step).items() if key != "outcome"} for step in outcome.steps]
    took = ", ".join(f"{step.name} {step.status}" for step in outcome.steps)
    facts = [] if structured else [_ending(outcome), f"Steps: {took}."]
    return _result(outcome, improvements, facts, steps=steps)


def _result(
    outcome: RunOutcome | WorkflowOutcome, improvements: Improvements, facts: list[str], **shorter: object
) -> dict[str, Any]:
    """Return the output, the problem if there is one, and all fields; `shorter` replaces some of them."""
    from server.capabilities.runs.additions import lines_of_change

    about = [f"[{outcome.problem}] {outcome.message} (run {outcome.run_id})"] if outcome.problem else []
    if facts:
        about = ["\n".join([*about, *facts])]
    about += ["\n".join(lines_of_change(each)) for each in improvements]
    content = [text_block(text) for text in (outcome.output, *map(escape_tags, about)) if text]
    failed = outcome.status is not RunStatus.COMPLETED
    # The client began the run, so it needs no reason.
    fields = {name: value for name, value in to_json(outcome).items() if name != "trigger_reason"}
    told = {**fields, **shorter, "improvements": [*improvements]}
    return {**tool_result(content, is_error=failed), "structuredContent": told}


def _ending(outcome: RunOutcome | WorkflowOutcome) -> str:
    return f"The run {outcome.run_id} ended: {outcome.status}."


def _facts(outcome: RunOutcome) -> Iterator[str]:
    if outcome.score:
        finding = f": {outcome.score.finding}" if outcome.score.finding else ""
        yield f"Score: {outcome.score.overall:g} of 1{finding}"
    refused = [call for call in outcome.tool_calls if call.decision is not CallDecision.DONE]
    for call in refused[:_MAX_CALLS]:
        yield f"Not done: {escape_line(call.tool)} ({call.decision}){f': {call.reason}' if call.reason else ''}"
    if len(refused) > _MAX_CALLS:
        yield f"Not done: {len(refused) - _MAX_CALLS} more calls"
