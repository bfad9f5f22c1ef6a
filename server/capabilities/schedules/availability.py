"""Whether skills can be scheduled here."""

from __future__ import annotations

from importlib.util import find_spec

__all__ = ["can_schedule"]


def can_schedule() -> bool:
    """Tell whether the libraries for times are installed; they come with the extra `run`."""
    return find_spec("cronsim") is not None and find_spec("dbos") is not None
