"""The entries of `run_skill` and `run_workflow` in `tools/list`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.listing.runs import RUN, RUN_WORKFLOW, offers_tool, offers_workflows
from server.listing.schemas import TEXT, list_of, object_of, or_null
from server.wire.arguments import CONFIRM, CONTINUE
from skills_core.guard.tool import CallDecision
from skills_core.run.outcome import Origin, RunStatus

if TYPE_CHECKING:
    from server.config.settings import Settings

__all__ = ["tools"]


def tools(settings: Settings) -> list[dict[str, Any]]:
    """Return the entries of the tools that are available."""
    skill = [_RUN_SKILL] if offers_tool(settings) else []
    return [*skill, *([_RUN_WORKFLOW] if offers_workflows(settings) else [])]


def _hints(title: str) -> dict[str, Any]:
    """Return the annotations: the effects of a run are those of its tools and its model."""
    return {
        "title": title,
        "readOnlyHint": False,
        "destructiveHint": True,
        "idempotentHint": False,
        "openWorldHint": True,
    }


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
    skill=TEXT, digest=or_null(TEXT), origin={"type": "string", "enum": [each.value for each in Origin]}
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
    "name": RUN,
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
    "annotations": _hints("Run a workflow"),
}
