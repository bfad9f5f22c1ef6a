"""Compute how shorter texts or another order would change the skills that the texts for a client show.

Every number comes from rendering the catalog, so that it agrees with what clients receive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.sax.saxutils import unescape

from msgspec.structs import replace

from server.listing.catalog_texts import catalog_texts
from server.listing.layout import CatalogPlace, ListingLayout
from skills_core.catalog.catalog import MAX_ENTRY
from skills_core.rendering.catalog import listing_order, render_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from server.listing.snapshot import Snapshot
    from skills_core.skills.skill import Skill

__all__ = ["LENGTHS", "Repacker", "Repacking", "largest", "text_of"]

LENGTHS = (300, 250, 200, 150, 100)
"""The text lengths to try; a description shorter than the last tells a model little more than the name."""

_MAX_LONGEST = 5
_ENTRY = '<skill name="'


@dataclass(frozen=True, slots=True)
class Repacking:
    """How many of the `offered` skills the texts of a layout show with an entry, and would show after a change.

    `budget` is the number of characters of these texts. `lengths` pairs a maximum text length with the number of skills
    that it would show, `best` is the largest length that shows all (None if not even the names fit), `shortest_first`
    the number shown in order of length. `longest` are the longest texts by skill, `unseen` the hidden skills in order.
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
    """Renders the catalog of one snapshot repeatedly, and caches the result for each place and size of its texts."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Measure the texts of the snapshot's skills."""
        self._catalog = snapshot.catalog
        self._first = snapshot.first
        self._settings = snapshot.settings.catalog
        self._limit = self._settings.entry_limit
        self._texts = [(skill, len(text_of(skill, self._limit))) for skill in listing_order(self._catalog, self._first)]
        self._found: dict[ListingLayout, Repacking] = {}

    def repacking(self, layout: ListingLayout) -> Repacking:
        """Return the possible changes for the texts of a layout."""
        # All else in a layout changes no entry.
        places = ListingLayout(layout.catalog, layout.place, layout.instructions)
        if places not in self._found:
            self._found[places] = self._repacking(places)
        return self._found[places]

    def _repacking(self, layout: ListingLayout) -> Repacking:
        total, longest = len(self._texts), max((size for _, size in self._texts), default=0)
        entries = self._entries(layout, self._limit, self._first)
        lengths = [] if len(entries) == total else [length for length in LENGTHS if length < longest]
        unseen = (skill for skill, _ in self._texts if render_entry(skill, self._limit) not in entries)
        return Repacking(
            layout.catalog + (layout.instructions if layout.place is CatalogPlace.BOTH else 0),
            total,
            len(entries),
            tuple((length, self._shown(layout, length)) for length in lengths),
            largest(0, longest, lambda length: self._shown(layout, length) == total),
            self._shortest_first(layout),
            self._longest(),
            tuple(unseen) if len(entries) < total else (),
        )

    def _shown(self, layout: ListingLayout, length: int) -> int:
        return len(self._entries(layout, length, self._first))

    def _shortest_first(self, layout: ListingLayout) -> int:
        ordered = sorted((skill for skill, _ in self._texts), key=lambda skill: len(render_entry(skill, self._limit)))
        return len(self._entries(layout, self._limit, ordered))

    def _entries(self, layout: ListingLayout, length: int, first: Sequence[Skill]) -> frozenset[str]:
        """Return the distinct entries, with texts of at most `length`, that both texts of a layout show."""
        texts = catalog_texts(self._catalog, first, layout, replace(self._settings, entry_limit=length))
        lines = f"{texts.description}\n{texts.instructions}".split("\n")
        return frozenset(line for line in lines if line.startswith(_ENTRY))

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
