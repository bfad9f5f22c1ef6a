"""The tools that perform, as they stand in `tools/list`: `run_skill` and `run_workflow`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.listing.runs import CONFIRM, CONTINUE, RUN, RUN_WORKFLOW, offers_tool, offers_workflows
from server.listing.schemas import TEXT, list_of, object_of, or_null
from skills_core.run.outcome import CallDecision, RunStatus

if TYPE_CHECKING:
    from server.config.settings import Settings

__all__ = ["tools"]


def tools(settings: Settings) -> list[dict[str, Any]]:
    """Return those that are there."""
    skill = [_RUN_SKILL] if offers_tool(settings) else []
    return [*skill, *([_RUN_WORKFLOW] if offers_workflows(settings) else [])]


def _hints(title: str) -> dict[str, Any]:
    """Return what is said of a tool that performs: what a run does is what its tools do, and its model."""
    return {
        "title": title,
        "readOnlyHint": False,
        "destructiveHint": True,
        "idempotentHint": False,
        "openWorldHint": True,
    }


_ENTRANCE: dict[str, Any] = {
    CONTINUE: {"type": "string", "description": "Go on with a run, as its last result says."},
    CONFIRM: {"type": "string", "description": "The user agrees to what the last result asks."},
}
"""The properties by which a call comes back to a run that waits."""

_WAITING: dict[str, Any] = {
    "question": {**TEXT, "description": "What the user has to agree to."},
    CONTINUE: TEXT,
    CONFIRM: TEXT,
}
"""What is told of a run that waits for its client."""

_ENDS = [each.value for each in RunStatus if each is not RunStatus.INTERRUPTED]
# A run that was interrupted has no outcome yet that a client could be told.
_STATUSES = [*_ENDS, "not_finished", "needs_consent"]

_SCORE = object_of(overall={"type": "number"}, finding=TEXT)

_CALL = object_of(tool=TEXT, decision={"type": "string", "enum": [each.value for each in CallDecision]}, reason=TEXT)

_COUNT = {"type": "integer", "minimum": 0}

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
        **_WAITING,
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
            **_ENTRANCE,
        },
        "additionalProperties": False,
    },
    "outputSchema": _OUTCOME,
    "annotations": _hints("Run a skill"),
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
            **_ENTRANCE,
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
            **_WAITING,
        ),
        "required": ["status"],
    },
    "annotations": _hints("Run a workflow"),
}
