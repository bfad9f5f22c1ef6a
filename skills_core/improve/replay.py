"""Judge what a model does with the improved text at the step that failed; none of its calls is carried out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skills_core.diagnostics import one_line
from skills_core.improve.failures import failed_calls
from skills_core.improve.reasons import ImprovementReason, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from skills_core.format.yaml12 import JsonValue
    from skills_core.guard.tool import ToolCall
    from skills_core.run.outcome import RunOutcome

__all__ = ["MAX_STEPS", "NextCall", "refusal_of_replay", "steps_before_failure"]

MAX_STEPS = 40
"""Steps before the failed one with which a replay is possible; more would fill the model's context."""

_MAX_NAME = 100


@dataclass(frozen=True, slots=True)
class NextCall:
    """A tool call that the model wants to make in the replay; `arguments` is None if they are not a JSON object."""

    tool: str
    arguments: Mapping[str, JsonValue] | None


def steps_before_failure(outcome: RunOutcome) -> tuple[ToolCall, ...] | None:
    """Return the tool calls before the first failed one; None if there are too many."""
    first = min(call.number for call in failed_calls(outcome))
    steps = tuple(call for call in outcome.tool_calls if call.number < first)
    return steps if len(steps) <= MAX_STEPS else None


def refusal_of_replay(
    outcome: RunOutcome, wanted: Sequence[NextCall], fault_of: Callable[[NextCall], str]
) -> Refusal | None:
    """Return why the replayed step fails again, None if it does not.

    `fault_of` says why a call could not even be made, and is empty for a call that could be. A model that calls no tool
    avoids the failure.
    """
    failed = [(call.tool, dict(call.arguments)) for call in failed_calls(outcome)]
    for call in wanted:
        name = one_line(call.tool)[:_MAX_NAME]
        if call.arguments is not None and (call.tool, dict(call.arguments)) in failed:
            message = f"with the new text, the model made the call of {name} that had failed"
            return Refusal(ImprovementReason.SAME_FAILURE, message)
        if fault := fault_of(call):
            message = f"with the new text, the model called {name}, which fails too: {one_line(fault)[:300]}"
            return Refusal(ImprovementReason.SAME_FAILURE, message)
    return None
