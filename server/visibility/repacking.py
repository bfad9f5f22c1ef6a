"""What shorter texts, another order or pins would change in a catalog of a given budget.

Everything is found by rendering: a catalog with shorter texts is made and rendered as any other, so that whatever the
rendering does counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from xml.sax.saxutils import unescape

from server.visibility.served import entries_in
from skills_core.catalog import Catalog
from skills_core.diagnostics import printable
from skills_core.rendering import render_catalog, render_entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core.skill import Skill

__all__ = ["LENGTHS", "Repacker", "Repacking", "largest", "text_of"]

LENGTHS = (300, 250, 200, 150, 100)
"""Lengths of texts that are tried; below the last, a description tells a model little more than the name."""

_LONGEST = 5


@dataclass(frozen=True, slots=True)
class Repacking:
    """What would change how many of `offered` skills a budget shows.

    `lengths` are what texts of at most so many characters would show, `best` the longest that shows all (None where
    not even the names fit), `shortest_first` how many the order by length would show. `longest` are the longest texts
    by skill, `unseen` the skills that are not shown, in their order.
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
        """The longest of the lengths that shows most, with how many it shows; None where none shows more."""
        most = max((shown for _, shown in self.lengths), default=0)
        fitting = [(length, shown) for length, shown in self.lengths if shown == most > self.shown]
        return fitting[0] if fitting else None


class Repacker:
    """Renders one catalog again and again; what it made for one budget serves the next."""

    def __init__(self, catalog: Catalog) -> None:
        """Nothing is rendered yet."""
        self._offered = catalog.offered
        self._texts = [text_of(skill) for skill in catalog.offered]
        self._catalogs: dict[int, Catalog] = {}
        self._found: dict[int, Repacking] = {}

    def repacking(self, budget: int) -> Repacking:
        """Return what would change for a catalog of at most `budget` characters."""
        if budget not in self._found:
            self._found[budget] = self._repacking(budget)
        return self._found[budget]

    def _repacking(self, budget: int) -> Repacking:
        total, longest = len(self._offered), max(map(len, self._texts), default=0)
        rendered = render_catalog(self._cut(longest), budget)
        seen, shown = entries_in(rendered.text, len(rendered.text)), rendered.shown
        lengths = [] if shown == total else [length for length in LENGTHS if length < longest]
        return Repacking(
            budget,
            total,
            shown,
            tuple((length, _shown(self._cut(length), budget)) for length in lengths),
            self._best(budget, longest),
            self._shortest_first(budget),
            self._longest(),
            tuple(skill for skill in self._offered if printable(skill.key) not in seen),
        )

    def _best(self, budget: int, longest: int) -> int | None:
        def shows_all(length: int) -> bool:
            return _shown(self._cut(length), budget) == len(self._offered)

        return largest(0, longest, shows_all)

    def _shortest_first(self, budget: int) -> int:
        ordered = sorted(self._offered, key=lambda skill: len(render_entry(skill)))

        def all_fit(count: int) -> bool:
            # Those that are not shown are counted in the text, so the others must be there.
            return _shown(Catalog(tuple(ordered[:count])), budget) == count

        return largest(0, len(ordered), all_fit) or 0

    def _longest(self) -> tuple[tuple[Skill, int], ...]:
        sized = [(skill, len(text)) for skill, text in zip(self._offered, self._texts, strict=True)]
        return tuple(sorted(sized, key=lambda pair: (-pair[1], pair[0].key))[:_LONGEST])

    def _cut(self, length: int) -> Catalog:
        """Return the catalog with every text cut to `length` characters."""
        if length not in self._catalogs:
            skills = (
                skill if len(text) <= length else _with_text(skill, text, length)
                for skill, text in zip(self._offered, self._texts, strict=True)
            )
            self._catalogs[length] = Catalog(tuple(skills))
        return self._catalogs[length]


def text_of(skill: Skill) -> str:
    """Return what the catalog says of a skill beside its name."""
    entry = render_entry(skill)
    return unescape(entry[entry.index(">") + 1 : entry.rindex("<")])


def _with_text(skill: Skill, text: str, length: int) -> Skill:
    front = skill.frontmatter
    # The trigger that stands for "always" is no text, and decides the order.
    triggers = tuple(trigger for trigger in front.triggers if trigger == "*")
    short = text[: max(0, length - 1)].rstrip() + "…" if length else ""
    front = replace(front, description=short, triggers=triggers, when_to_use=None)
    instructions = replace(skill.content.instructions, frontmatter=front)
    return replace(skill, content=replace(skill.content, instructions=instructions))


def _shown(catalog: Catalog, budget: int) -> int:
    return render_catalog(catalog, budget).shown


def largest(low: int, high: int, holds: Callable[[int], bool]) -> int | None:
    """Return the largest of the numbers from `low` to `high` for which `holds` holds, as it then does for all below."""
    if holds(high):
        return high
    if not holds(low):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
