"""What a client would show of the same skills if it read their folders by itself."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, assert_never

from server.clients.profile import NativeListing, Overflow
from server.visibility.entry_state import Entry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skills_core.skill import Skill

__all__ = ["Native", "native"]


@dataclass(frozen=True, slots=True)
class Native:
    """What the client's own list shows; `skills` are in its order, `budget` is None where none is known."""

    skills: tuple[tuple[Skill, Entry], ...]
    budget: int | None
    length: int
    """Characters that the list would need for all entries, each within its own limit."""


def native(skills: Sequence[Skill], listing: NativeListing, window: int) -> Native:
    """Return what a client with such a `listing` and a context of `window` tokens shows of `skills`.

    Names count first. A client that puts the most used first is taken to know no use yet.
    """
    ordered = sorted(skills, key=lambda skill: skill.name)
    texts = [_text(skill) for skill in ordered]
    kept = [min(len(text), listing.entry or len(text)) for text in texts]
    names = [len(skill.name) + listing.frame for skill in ordered]
    budget = listing.budget(window)
    length = sum(kept) + sum(names)
    if budget is None or length <= budget:
        given = list(kept)
        listed = len(ordered)
    else:
        given, listed = _given(kept, names, budget, listing.overflow)
    shown = [_entry(len(text), given[number], listed=number < listed) for number, text in enumerate(texts)]
    return Native(tuple(zip(ordered, shown, strict=True)), budget, length)


def _given(kept: Sequence[int], names: Sequence[int], budget: int, overflow: Overflow) -> tuple[list[int], int]:
    """Return how much of each description is shown, and how many skills are listed at all."""
    left = budget - sum(names)
    match overflow:
        case Overflow.OMITTED:
            fit = sum(used <= budget for used in accumulate(map(sum, zip(kept, names, strict=True))))
            return [size if number < fit else 0 for number, size in enumerate(kept)], fit
        case Overflow.NAMES:
            fit = sum(used <= left for used in accumulate(kept))
            return [size if number < fit else 0 for number, size in enumerate(kept)], len(kept)
        case Overflow.SHORTENED:
            if left < 0:
                return [0] * len(kept), sum(used <= budget for used in accumulate(names))
            share = _share(kept, left)
            return [min(size, share) for size in kept], len(kept)
        case _:
            assert_never(overflow)


def _share(sizes: Sequence[int], room: int) -> int:
    """Return the largest share such that the sizes, each cut to it, fit into `room`."""
    waiting = len(sizes)
    for size in sorted(sizes):
        if size * waiting > room:
            return room // waiting
        room -= size
        waiting -= 1
    return max(sizes, default=0)


def _entry(length: int, given: int, *, listed: bool) -> Entry:
    if not listed:
        return Entry.MISSING
    if given >= length:
        return Entry.WHOLE
    return Entry.CUT if given else Entry.NAME


def _text(skill: Skill) -> str:
    """Return what clients list of a skill beside its name."""
    parts = (skill.description, skill.frontmatter.when_to_use or "")
    return " ".join(part.strip() for part in parts if part.strip())
