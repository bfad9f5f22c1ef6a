"""What is offered to models that want several skills performed one after another: the tool `run_workflow`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.config import OptionalTool
from server.listing.runs import CONFIRM, CONTINUE, ENTRANCE, offers_workflows
from server.listing.schemas import TEXT, list_of, object_of, or_null
from skills_core.run.outcome import RunStatus

if TYPE_CHECKING:
    from server.config import Settings

__all__ = ["INPUTS", "RUN_WORKFLOW", "tools"]

RUN_WORKFLOW = OptionalTool.RUN_WORKFLOW.value
INPUTS = "inputs"


def tools(settings: Settings) -> list[dict[str, Any]]:
    """Return the tool as it stands in `tools/list`, if it is there."""
    return [_RUN_WORKFLOW] if offers_workflows(settings) else []


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
            INPUTS: {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "Values for the workflow's inputs, by name.",
            },
            **ENTRANCE,
        },
        "additionalProperties": False,
    },
    "outputSchema": {
        **object_of(
            status={
                "type": "string",
                "enum": [*(each.value for each in RunStatus), "not_finished", "needs_consent", "listed"],
            },
            run_id=TEXT,
            workflow=TEXT,
            digest=TEXT,
            output=TEXT,
            problem=or_null(TEXT, "Why it ended before its end."),
            message=TEXT,
            steps=list_of(_STEP),
            workflows=list_of(object_of(name=TEXT, description=TEXT, inputs={"type": "object"})),
            question={**TEXT, "description": "What the user has to agree to."},
            **{CONTINUE: TEXT, CONFIRM: TEXT},
        ),
        "required": ["status"],
    },
    "annotations": {
        "title": "Run a workflow",
        "readOnlyHint": False,
        "destructiveHint": True,
        "idempotentHint": False,
        "openWorldHint": True,
    },
}
