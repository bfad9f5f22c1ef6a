"""How far one run may go. Reaching a limit ends what it bounds, with a reason, and never silently."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DEFAULT_LIMITS", "RunLimits"]


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Bounds of a run. Those of tools hold for each call."""

    turns: int = 25
    """Answers of the model, in all attempts together; those that give a score count too."""
    tokens: int = 500_000
    """Tokens in and out, as the model's provider counts them."""
    calls: int = 200
    """Calls of tools, those that were turned down too."""
    seconds: float = 900.0
    output_characters: int = 200_000
    """Of the model's last answer; beyond it the output is cut, and the outcome says so."""
    tool_seconds: float = 120.0
    tool_characters: int = 50_000
    """Of what a tool says that the model is given."""


DEFAULT_LIMITS = RunLimits()
"""Those of a run for which nobody sets others."""
