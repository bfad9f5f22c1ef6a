"""How long clients are waited for, and how much of it there may be at a time."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ExchangeLimits"]


@dataclass(frozen=True, slots=True)
class ExchangeLimits:
    """Bounds of the talk with clients. Times are in seconds."""

    parked: float = 600.0
    """How long a piece of work waits for its client's next request, before it is ended."""
    answer: float = 600.0
    """How long the answer to a question may take while the client is connected; people have to read it."""
    gather: float = 0.02
    """How long a round is kept open for further questions, as calls of tools at the same time ask at the same time."""
    rounds: int = 8
    """Rounds in one call. The clients of the SDKs give a call up after ten."""
    at_once: int = 64
    """Pieces of work at a time, those that wait for their client included."""
