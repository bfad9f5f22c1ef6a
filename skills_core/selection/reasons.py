"""Why a skill was found: which words of the query are in which of its fields, and how much of the query that is.

A skill is found again and again, so its distinct words are kept: to split its texts anew takes longer than the search.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skills_core.selection.fields import FIELDS, texts_of
from skills_core.selection.policy import Band

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from skills_core.skill import SkillContent

__all__ = ["Asked", "Reasons", "Vocabulary", "reasons_for"]

_WORD = re.compile(r"[^\W_]+")
_GAP = "\n"
# Between words: no word holds it.

# Shares of what was asked for, found on the first half of the labelled queries.
_HIGH, _SPECIFIC, _BROAD = 0.6, 0.35, 0.12
_BROAD_ANYWHERE = 0.5


@dataclass(frozen=True, slots=True)
class Asked:
    """A query's words by their stem, what each stem weighs, and how many skills have it."""

    words: Mapping[str, str]
    weights: Mapping[str, float]
    counts: Mapping[str, int]


class Vocabulary:
    """The distinct words of a skill, field by field; they are collected when they are first asked for."""

    __slots__ = ("_content", "_fields")

    def __init__(self, content: SkillContent) -> None:
        """Nothing is collected yet."""
        self._content = content
        self._fields: tuple[str, ...] | None = None

    def beginning(self, beginnings: Iterable[str]) -> list[list[str]]:
        """Return the words of each field that begin so. Threads that ask at once do the same work twice at most."""
        if self._fields is None:
            # One text takes a fraction of the memory of a set, and is searched as fast.
            self._fields = tuple(
                f"{_GAP}{_GAP.join(dict.fromkeys(_WORD.findall(text)))}{_GAP}" for text in texts_of(self._content)
            )
        wanted = [_GAP + beginning for beginning in beginnings]
        return [[word for each in wanted for word in _words(field, each)] for field in self._fields]


def _words(field: str, wanted: str) -> Iterator[str]:
    at = field.find(wanted)
    while at >= 0:
        end = field.index(_GAP, at + 1)
        yield field[at + 1 : end]
        at = field.find(wanted, end)


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
    vocabularies: Sequence[Vocabulary], asked: Asked, stems_of: Callable[[Iterable[str]], Mapping[str, str]]
) -> list[Reasons]:
    """Return the reasons for each of `vocabularies`; `stems_of` maps words to their stems."""
    if not asked.words:
        return [Reasons((), 0.0, 0.0) for _ in vocabularies]
    # A stem differs from its word in the ending alone, and in its own last letter.
    beginnings = {stem[: max(1, len(stem) - 1)] for stem in asked.words}
    words = [vocabulary.beginning(beginnings) for vocabulary in vocabularies]
    stems = stems_of(word for fields in words for field in fields for word in field)
    return [_reasons([{stems.get(word, "") for word in field} for field in fields], asked) for fields in words]


def _reasons(fields: Sequence[set[str]], asked: Asked) -> Reasons:
    found = [[stem for stem in asked.words if stem in stems] for stems in fields]
    total = sum(asked.weights.values()) or 1.0

    def share(parts: Sequence[Sequence[str]]) -> float:
        return sum(asked.weights[stem] for stem in {stem for part in parts for stem in part}) / total

    named = zip(FIELDS, found, strict=True)
    why = tuple((field, tuple(asked.words[stem] for stem in stems)) for field, stems in named if stems)
    return Reasons(why, share(found[:-1]), share(found))
