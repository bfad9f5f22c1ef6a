"""How much the tests try: each rule at any time, and all of its combinations where EVERY_CASE is set, as on CI."""

from __future__ import annotations

import os

__all__ = ["EVERY_CASE", "examples"]

EVERY_CASE = bool(os.environ.get("EVERY_CASE"))
"""Whether all combinations of parameters are tried, where else each value of each parameter is."""


def examples(count: int) -> int:
    """Return how many random examples are tried: `count` of them where each case is wanted, else some."""
    return count if EVERY_CASE else max(12, count // 4)
