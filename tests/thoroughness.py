"""How much the tests try: each rule at any time, and all of its combinations where EVERY_CASE is set, as on CI."""

from __future__ import annotations

import os
from collections.abc import Collection
from itertools import cycle, product
from typing import TypeVar

__all__ = ["EVERY_CASE", "combined", "examples"]

One = TypeVar("One")
Other = TypeVar("Other")

EVERY_CASE = bool(os.environ.get("EVERY_CASE"))
"""Whether all combinations of parameters are tried, where else each value of each parameter is."""


def examples(count: int) -> int:
    """Return how many random examples are tried: `count` of them where each case is wanted, else some."""
    return count if EVERY_CASE else max(12, count // 4)


def combined(some: Collection[One], others: Collection[Other]) -> list[tuple[One, Other]]:
    """Return all combinations where each case is wanted, else each value at least once."""
    if EVERY_CASE:
        return [*product(some, others)]
    count = max(len(some), len(others))
    return [pair for pair, _ in zip(zip(cycle(some), cycle(others), strict=False), range(count), strict=False)]
