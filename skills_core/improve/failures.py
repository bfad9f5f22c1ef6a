"""Tell from the outcome of a run whether skills are due for improvement, and which steps failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skills_core.guard.tool import CallDecision

if TYPE_CHECKING:
    from skills_core.guard.tool import ToolCall
    from skills_core.run.outcome import RunOutcome

__all__ = ["failed_calls", "missing_tools", "skills_to_improve"]

_ERRORS: Final = frozenset(
    {
        CallDecision.FAILED,
        CallDecision.TIMED_OUT,
        CallDecision.UNKNOWN_TOOL,
        CallDecision.NOT_PERMITTED,
        CallDecision.INVALID_ARGUMENTS,
    }
)
# What a guard or a user denies is a decision, and a question that nobody answers says nothing about the text: neither
# is an error that another text should avoid.


def failed_calls(outcome: RunOutcome) -> tuple[ToolCall, ...]:
    """Return the tool calls that ended with an error."""
    return tuple(call for call in outcome.tool_calls if call.decision in _ERRORS)


def missing_tools(outcome: RunOutcome) -> frozenset[str]:
    """Return the names that the model called although no tool of the run has them."""
    return frozenset(call.tool for call in outcome.tool_calls if call.decision is CallDecision.UNKNOWN_TOOL)


def skills_to_improve(outcome: RunOutcome) -> tuple[str, ...]:
    """Return the keys of the activated skills, the performed one first; none if no tool call failed."""
    if not failed_calls(outcome):
        return ()
    return tuple(dict.fromkeys([outcome.skill, *(each.skill for each in outcome.activated_skills)]))
