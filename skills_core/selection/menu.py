"""Whether the first matches lie so close together that somebody should choose between them."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skills_core.selection.policy import Match

__all__ = ["CLOSE", "MAX_MENU", "menu_of"]

CLOSE = 0.9
"""Close is at least this share of the best score: adk-skill's 0.5 at 5.0, where its highest band begins."""

MAX_MENU = 5


def menu_of(matches: Sequence[Match]) -> tuple[Match, ...]:
    """Return the first of `matches`, which are in order, that lie close together; empty where one stands out.

    Weak matches make no menu: a choice between skills that do not fit helps nobody.
    """
    close = tuple(takewhile(lambda match: match.relative >= CLOSE and not match.weak, matches[:MAX_MENU]))
    return close if len(close) > 1 else ()
