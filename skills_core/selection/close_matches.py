"""Tell whether the best matches are so close that the user or the model should choose between them."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skills_core.selection.policy import Match

__all__ = ["CLOSE_SHARE", "MAX_MENU", "menu_of"]

CLOSE_SHARE = 0.9
"""Minimum share of the best score that counts as close: adk-skill's 0.5 below 5.0, where its highest band begins."""

MAX_MENU = 5


def menu_of(matches: Sequence[Match]) -> tuple[Match, ...]:
    """Return the leading ones of the ordered `matches` that are close together; empty if the best one stands out.

    Weak matches are left out, because a choice between skills that do not fit is useless.
    """
    close = tuple(takewhile(lambda match: match.relative >= CLOSE_SHARE and not match.weak, matches[:MAX_MENU]))
    return close if len(close) > 1 else ()
