"""Limits of a run. Reaching one ends what it bounds, always with a reason."""

from __future__ import annotations

from dataclasses import dataclass

from skills_core.guard.tool import CallLimits

__all__ = ["DEFAULT_LIMITS", "RunLimits"]


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits of a run. Those of tools hold for each call."""

    turns: int = 25
    """Requests to the model in all attempts together, including those for scores."""
    tokens: int = 500_000
    """Tokens in and out, as the model's provider counts them."""
    calls: int = 200
    """Tool calls, including refused ones."""
    seconds: float = 900.0
    output_characters: int = 200_000
    """Most characters of the output; a longer one is cut, and the outcome says so."""
    tool_seconds: float = 120.0
    tool_characters: int = 50_000
    """Most characters of a tool's result that the model receives."""

    @property
    def of_calls(self) -> CallLimits:
        """The limits of each tool call."""
        return CallLimits(self.tool_seconds, self.tool_characters)


DEFAULT_LIMITS = RunLimits()
"""The limits of a run without settings."""
