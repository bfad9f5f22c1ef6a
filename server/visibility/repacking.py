"""Compute how shorter texts or another order would change the skills shown within a budget.

Every number comes from rendering the catalog, so that it agrees with what clients receive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.sax.saxutils import unescape

from skills_core.rendering import (
    MAX_ENTRY,
    entries_budget,
    entries_within,
    listing_order,
    render_catalog,
    render_entry,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from server.listing.snapshot import Snapshot
    from skills_core.skill import Skill

__all__ = ["LENGTHS", "Repacker", "Repacking", "largest", "text_of"]

LENGTHS = (300, 250, 200, 150, 100)
"""The text lengths to try; a description shorter than the last tells a model little more than the name."""

_MAX_LONGEST = 5


@dataclass(frozen=True, slots=True)
class Repacking:
    """How many of the `offered` skills a budget shows, and would show after a change.

    `lengths` pairs a maximum text length with the number of skills that it would show, `best` is the largest length
    that shows all (None if not even the names fit), `shortest_first` the number shown in order of length. `longest` are
    the longest texts by skill, `unseen` the hidden skills in order.
    """

    budget: int
    offered: int
    shown: int
    lengths: tuple[tuple[int, int], ...]
    best: int | None
    shortest_first: int
    longest: tuple[tuple[Skill, int], ...]
    unseen: tuple[Skill, ...]

    @property
    def advised(self) -> tuple[int, int] | None:
        """The largest length that shows the most skills, with their number; None if none shows more than now."""
        most = max((shown for _, shown in self.lengths), default=0)
        fitting = [(length, shown) for length, shown in self.lengths if shown == most > self.shown]
        return fitting[0] if fitting else None


class Repacker:
    """Renders the catalog of one snapshot repeatedly, and caches the result for each budget."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Measure the texts of the snapshot's skills."""
        self._catalog = snapshot.catalog
        self._first = snapshot.first
        self._limit = snapshot.settings.catalog.entry_limit
        self._texts = [(skill, len(text_of(skill, self._limit))) for skill in listing_order(self._catalog, self._first)]
        self._found: dict[int, Repacking] = {}

    def repacking(self, budget: int) -> Repacking:
        """Return the possible changes for a catalog of at most `budget` characters."""
        if budget not in self._found:
            self._found[budget] = self._repacking(budget)
        return self._found[budget]

    def _repacking(self, budget: int) -> Repacking:
        total, longest = len(self._texts), max((size for _, size in self._texts), default=0)
        shown = self._shown(budget, self._limit)
        lengths = [] if shown == total else [length for length in LENGTHS if length < longest]
        return Repacking(
            budget,
            total,
            shown,
            tuple((length, self._shown(budget, length)) for length in lengths),
            largest(0, longest, lambda length: self._shown(budget, length) == total),
            self._shortest_first(budget),
            self._longest(),
            tuple(self._unseen(budget)) if shown < total else (),
        )

    def _shown(self, budget: int, length: int) -> int:
        return render_catalog(self._catalog, budget, self._first, length).shown

    def _unseen(self, budget: int) -> Iterator[Skill]:
        order = [skill for skill, _ in self._texts]
        shown = set(entries_within(entries_budget(budget), order, self._limit))
        return (skill for skill in order if render_entry(skill, self._limit) not in shown)

    def _shortest_first(self, budget: int) -> int:
        ordered = sorted((skill for skill, _ in self._texts), key=lambda skill: len(render_entry(skill, self._limit)))
        return len(entries_within(entries_budget(budget), ordered, self._limit))

    def _longest(self) -> tuple[tuple[Skill, int], ...]:
        return tuple(sorted(self._texts, key=lambda pair: (-pair[1], pair[0].key))[:_MAX_LONGEST])


def text_of(skill: Skill, longest: int = MAX_ENTRY) -> str:
    """Return the catalog's text for a skill besides its name, with at most `longest` characters."""
    entry = render_entry(skill, longest)
    return unescape(entry[entry.index(">") + 1 : entry.rindex("<")])


def largest(low: int, high: int, holds: Callable[[int], bool]) -> int | None:
    """Return the largest number from `low` to `high` for which the monotonic `holds` is true; None if there is none."""
    if holds(high):
        return high
    if not holds(low):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
