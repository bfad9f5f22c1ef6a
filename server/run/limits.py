"""The limits of runs that settings give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.run.limits import RunLimits

if TYPE_CHECKING:
    from server.config import Settings

__all__ = ["limits_of"]


def limits_of(settings: Settings) -> RunLimits:
    """Return how far each run may go."""
    return RunLimits(turns=settings.run_turns, tokens=settings.run_tokens, seconds=settings.run_seconds)
