"""Predict what a client would show of the same skills if it read their folders itself."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, assert_never

from server.capabilities.visibility.served_listing import EntryState
from server.clients.profile import NativeListing, Overflow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skills_core.skills.skill import Skill

__all__ = ["NativeSkills", "native_skills"]


@dataclass(frozen=True, slots=True)
class NativeSkills:
    """What the client's own list shows; `skills` are in its order, `budget` is None if unknown."""

    skills: tuple[tuple[Skill, EntryState], ...]
    budget: int | None
    length: int
    """Characters that the list needs for all entries, each within its limit."""


def native_skills(skills: Sequence[Skill], listing: NativeListing, window: int) -> NativeSkills:
    """Return what a client with this `listing` and a context of `window` tokens shows of `skills`.

    The list is ordered by name: clients that order by use are assumed to have recorded none yet.
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
    return NativeSkills(tuple(zip(ordered, shown, strict=True)), budget, length)


def _given(kept: Sequence[int], names: Sequence[int], budget: int, overflow: Overflow) -> tuple[list[int], int]:
    """Return the shown length of each description, and the number of listed skills."""
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


def _share(sizes: Sequence[int], budget: int) -> int:
    """Return the largest share such that the sizes, each cut to it, fit into `budget`."""
    left, remaining = budget, len(sizes)
    for size in sorted(sizes):
        if size * remaining > left:
            return left // remaining
        left -= size
        remaining -= 1
    return max(sizes, default=0)


def _entry(length: int, given: int, *, listed: bool) -> EntryState:
    if not listed:
        return EntryState.MISSING
    if given >= length:
        return EntryState.WHOLE
    return EntryState.CUT if given else EntryState.NAME


def _text(skill: Skill) -> str:
    """Return the text that clients list of a skill besides its name."""
    parts = (skill.description, skill.frontmatter.when_to_use or "")
    return " ".join(part.strip() for part in parts if part.strip())
