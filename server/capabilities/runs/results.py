"""The results of runs as tool results. They leave out the results of tool calls, which traces contain.

A client that receives no structure has in the text what its model needs of it: how the run ended, its score, and what
was not done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.capabilities.runs.additions import lines_of_change
from server.listing.envelope import text_block, tool_result
from skills_core.guard.tool import CallDecision
from skills_core.rendering.escaping import escape_line, escape_tags
from skills_core.runs.json_codec import to_json
from skills_core.runs.outcome import RunStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from skills_core.runs.outcome import RunOutcome
    from skills_core.runs.workflow.model import WorkflowOutcome

    Improvements = Sequence[Mapping[str, Any]]

__all__ = ["skill_result", "workflow_result"]

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
