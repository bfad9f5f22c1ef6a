"""Why a skill was found: which words of the query are in which of its fields, and how much of the query that is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skills_core.selection.policy import Band
from skills_core.selection.texts import FIELDS, texts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from skills_core.skill import SkillContent

__all__ = ["Asked", "Reasons", "reasons_for"]

_WORD = re.compile(r"[^\W_]+")

# Shares of what was asked for, found on the first half of the labelled queries.
_HIGH, _SPECIFIC, _BROAD = 0.6, 0.35, 0.12
_BROAD_ANYWHERE = 0.5


@dataclass(frozen=True, slots=True)
class Asked:
    """A query's words by their stem, what each stem weighs, and how many skills have it."""

    words: Mapping[str, str]
    weights: Mapping[str, float]
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Reasons:
    """Which fields have which words of the query.

    `front` and `whole` are the shares of the query's weight, from 0 to 1, that the skill says of itself (name,
    description and tags), and that it has anywhere.
    """

    fields: tuple[tuple[str, tuple[str, ...]], ...]
    front: float
    whole: float

    @property
    def band(self) -> Band:
        """What the match means: most of what was asked for in front is high, hardly any of it a trace."""
        if self.front >= _HIGH:
            return Band.HIGH
        if self.front >= _SPECIFIC:
            return Band.SPECIFIC
        return Band.BROAD if self.front >= _BROAD or self.whole >= _BROAD_ANYWHERE else Band.TRACE


def reasons_for(
    contents: Sequence[SkillContent], asked: Asked, stems_of: Callable[[Iterable[str]], Mapping[str, str]]
) -> list[Reasons]:
    """Return the reasons for each of `contents`; `stems_of` maps words to their stems."""
    if not asked.words:
        return [Reasons((), 0.0, 0.0) for _ in contents]
    # A stem differs from its word in the ending alone, and in its own last letter.
    beginnings = tuple({stem[: max(1, len(stem) - 1)] for stem in asked.words})
    words = [[_beginning(text, beginnings) for text in texts_of(content)] for content in contents]
    stems = stems_of(word for fields in words for field in fields for word in field)
    return [_reasons([{stems.get(word, "") for word in field} for field in fields], asked) for fields in words]


def _beginning(text: str, beginnings: tuple[str, ...]) -> list[str]:
    return [word for word in set(_WORD.findall(text)) if word.startswith(beginnings)]


def _reasons(fields: Sequence[set[str]], asked: Asked) -> Reasons:
    found = [[stem for stem in asked.words if stem in stems] for stems in fields]
    total = sum(asked.weights.values()) or 1.0

    def share(parts: Sequence[Sequence[str]]) -> float:
        return sum(asked.weights[stem] for stem in {stem for part in parts for stem in part}) / total

    named = zip(FIELDS, found, strict=True)
    why = tuple((field, tuple(asked.words[stem] for stem in stems)) for field, stems in named if stems)
    return Reasons(why, share(found[:-1]), share(found))
