"""The results of runs as tool results. They leave out the results of tool calls, which traces contain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.listing.envelope import text_block, tool_result
from skills_core.rendering.escaping import escape_tags
from skills_core.run.json_codec import to_json
from skills_core.run.outcome import RunStatus

if TYPE_CHECKING:
    from skills_core.run.outcome import RunOutcome
    from skills_core.run.workflow.outcome import WorkflowOutcome

__all__ = ["skill_result", "workflow_result"]


def skill_result(outcome: RunOutcome) -> dict[str, Any]:
    """Return the result of `run_skill`."""
    score = outcome.score
    return _result(
        outcome,
        score={"overall": score.overall, "finding": score.finding} if score else None,
        attempts=len(outcome.attempts),
        tool_calls=[
            {"tool": call.tool, "decision": call.decision.value, "reason": call.reason} for call in outcome.tool_calls
        ],
    )


def workflow_result(outcome: WorkflowOutcome) -> dict[str, Any]:
    """Return the result of `run_workflow`."""
    steps = [{key: value for key, value in to_json(step).items() if key != "outcome"} for step in outcome.steps]
    return _result(outcome, steps=steps)


def _result(outcome: RunOutcome | WorkflowOutcome, **shorter: object) -> dict[str, Any]:
    """Return the output, the problem if there is one, and all fields; `shorter` replaces some of them."""
    about = [escape_tags(f"[{outcome.problem}] {outcome.message} (run {outcome.run_id})")] if outcome.problem else []
    content = [text_block(text) for text in (outcome.output, *about) if text]
    failed = outcome.status is not RunStatus.COMPLETED
    return {**tool_result(content, is_error=failed), "structuredContent": {**to_json(outcome), **shorter}}
