"""What is offered to models that want a skill performed here: the tool `run_skill`, where there is a model for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.config import OptionalTool
from server.listing.schemas import TEXT, list_of, object_of, or_null
from skills_core.run.models import ModelUnavailableError, parse_model
from skills_core.run.outcome import CallDecision, RunStatus

if TYPE_CHECKING:
    from server.config import Settings

__all__ = [
    "CONFIRM",
    "CONTINUE",
    "ENTRANCE",
    "RUN",
    "may_ask",
    "offers_runs",
    "offers_tool",
    "offers_workflows",
    "runs_object",
    "tools",
    "why_no_runs",
]

RUN = OptionalTool.RUN_SKILL.value
_WORKFLOW = OptionalTool.RUN_WORKFLOW.value

CONTINUE = "continue"
"""The argument by which a call goes on with a run that has not finished, or whose user said no."""
CONFIRM = "confirm"
"""The argument by which a call says that the user agrees."""


ENTRANCE: dict[str, Any] = {
    CONTINUE: {"type": "string", "description": "Go on with a run, as its last result says."},
    CONFIRM: {"type": "string", "description": "The user agrees to what the last result asks."},
}
"""The properties by which a call comes back to a run that waits."""


def why_no_runs(settings: Settings) -> str | None:
    """Return why no skill can be performed, None where one can."""
    if settings.model is None:
        return "no model is set; name one with --model"
    try:
        parse_model(settings.model)
    except ModelUnavailableError as error:
        return str(error)
    return None


def offers_tool(settings: Settings) -> bool:
    """Tell whether the tool `run_skill` is there: it is where settings name it, and a model."""
    return OptionalTool.RUN_SKILL in settings.tools and why_no_runs(settings) is None


def offers_workflows(settings: Settings) -> bool:
    """Tell whether the tool `run_workflow` is there: it is where settings name it, a model, and workflows."""
    named = OptionalTool.RUN_WORKFLOW in settings.tools and bool(settings.workflows)
    return named and why_no_runs(settings) is None


def offers_runs(settings: Settings) -> bool:
    """Tell whether clients can have anything performed."""
    return offers_tool(settings) or offers_workflows(settings)


def may_ask(settings: Settings) -> bool:
    """Tell whether a tool may have to ask the user, or tell of its progress, before it answers."""
    scripts = OptionalTool.RUN_SKILL_SCRIPT in settings.tools or bool(settings.skill_tools)
    return scripts or offers_runs(settings)


def runs_object(settings: Settings) -> dict[str, Any]:
    """Return what status says of runs: the model, and for each tool that performs whether it is there, and why not."""
    reason = why_no_runs(settings)
    model = str(parse_model(settings.model)) if settings.model and reason is None else None
    skill, workflow = reason or _not_switched_on(RUN, settings), reason or _not_switched_on(_WORKFLOW, settings)
    if workflow is None and not settings.workflows:
        workflow = "no workflow is named; name a file or a folder with --workflow"
    return {
        "model": model,
        RUN: skill is None,
        "reason": skill,
        _WORKFLOW: workflow is None,
        "workflow_reason": workflow,
    }


def _not_switched_on(tool: str, settings: Settings) -> str | None:
    return None if tool in settings.tools else f"the tool {tool} is not switched on; do so with --tool {tool}"


def tools(settings: Settings) -> list[dict[str, Any]]:
    """Return the tool as it stands in `tools/list`, if it is there."""
    return [_RUN_SKILL] if offers_tool(settings) else []


_SCORE = object_of(overall={"type": "number"}, finding=TEXT)

_CALL = object_of(tool=TEXT, decision={"type": "string", "enum": [each.value for each in CallDecision]}, reason=TEXT)

_COUNT = {"type": "integer", "minimum": 0}

_OUTCOME: dict[str, Any] = {
    **object_of(
        status={"type": "string", "enum": [*(each.value for each in RunStatus), "not_finished", "needs_consent"]},
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
        question={**TEXT, "description": "What the user has to agree to."},
        **{CONTINUE: TEXT, CONFIRM: TEXT},
    ),
    # A run that waits for its client has no more to say than that.
    "required": ["status"],
}

_RUN_SKILL: dict[str, Any] = {
    "name": RUN,
    "title": "Run a skill",
    "description": (
        "Have a skill performed here, by a model of its own that sees the skill, your message and nothing else, and "
        "get the result. Use it for a task that stands on its own; to follow a skill yourself, call activate_skill. "
        "Say in the message all that the task needs. The result may ask you to call again."
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
            **ENTRANCE,
        },
        "additionalProperties": False,
    },
    "outputSchema": _OUTCOME,
    # What a run does is what its tools do, and its model.
    "annotations": {
        "title": "Run a skill",
        "readOnlyHint": False,
        "destructiveHint": True,
        "idempotentHint": False,
        "openWorldHint": True,
    },
}
