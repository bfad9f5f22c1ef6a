"""Figures of the reloads of a catalog."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ReloadFigures"]


@dataclass(frozen=True, slots=True)
class ReloadFigures:
    """The reloads since the start: how many were done and failed, and the seconds that they took together."""

    done: int = 0
    failed: int = 0
    seconds: float = 0.0

    def after(self, seconds: float, *, failed: bool) -> ReloadFigures:
        """Return the figures after one more reload."""
        return ReloadFigures(self.done + (not failed), self.failed + failed, self.seconds + seconds)
