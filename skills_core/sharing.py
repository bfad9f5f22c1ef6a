"""Equal values as one object: thousands of skills have the same few licenses, lists of tools and names of folders."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

T = TypeVar("T", str, tuple[str, ...], frozenset[str])

_SHORT = 64
# Longer values are seldom equal.


def shared(value: T) -> T:
    """Return a value that equals this one: the same object for equal ones that come soon after one another."""
    return value if len(value) > _SHORT else _shared(value)  # type: ignore[return-value] # what it was given, or its like


@lru_cache(maxsize=2048)
def _shared(value: object) -> object:
    return value
