"""Explain why a skill was found: which words of the query are in which field, and how much of the query they cover.

A skill's distinct words are cached, because splitting its texts for every query takes longer than the search.
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

__all__ = ["QueryTerms", "Reasons", "Vocabulary", "reasons_for"]

_WORD = re.compile(r"[^\W_]+")
_GAP = "\n"
# Separates words; no word contains it.

# Minimum shares of the query for each band, tuned on the first half of the labelled queries.
_HIGH, _SPECIFIC, _BROAD = 0.6, 0.35, 0.12
_BROAD_ANYWHERE = 0.5


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """A query's words by stem, with the weight of each stem and the number of skills that contain it."""

    words: Mapping[str, str]
    weights: Mapping[str, float]
    counts: Mapping[str, int]


class Vocabulary:
    """The distinct words of a skill by field, collected on first use."""

    __slots__ = ("_content", "_fields")

    def __init__(self, content: SkillContent) -> None:
        """Keep the content; collect nothing yet."""
        self._content = content
        self._fields: tuple[str, ...] | None = None

    def words_with_prefix(self, prefixes: Iterable[str]) -> list[list[str]]:
        """Return the words of each field that have one of the prefixes. Concurrent first calls may collect twice."""
        if self._fields is None:
            # One joined text takes a fraction of a set's memory and is searched as fast.
            self._fields = tuple(
                f"{_GAP}{_GAP.join(dict.fromkeys(_WORD.findall(text)))}{_GAP}" for text in texts_of(self._content)
            )
        wanted = [_GAP + words_with_prefix for words_with_prefix in prefixes]
        return [[word for each in wanted for word in _words(field, each)] for field in self._fields]


def _words(field: str, wanted: str) -> Iterator[str]:
    at = field.find(wanted)
    while at >= 0:
        end = field.index(_GAP, at + 1)
        yield field[at + 1 : end]
        at = field.find(wanted, end)


@dataclass(frozen=True, slots=True)
class Reasons:
    """Which words of the query each field contains.

    `front` is the share of the query's weight, from 0 to 1, that the name, description and tags contain; `whole` is the
    share that all fields contain.
    """

    fields: tuple[tuple[str, tuple[str, ...]], ...]
    front: float
    whole: float

    @property
    def band(self) -> Band:
        """The band of the match, from "high" (the front has most of the query) to "trace" (hardly any of it)."""
        if self.front >= _HIGH:
            return Band.HIGH
        if self.front >= _SPECIFIC:
            return Band.SPECIFIC
        return Band.BROAD if self.front >= _BROAD or self.whole >= _BROAD_ANYWHERE else Band.TRACE


def reasons_for(
    vocabularies: Sequence[Vocabulary], terms: QueryTerms, stems_of: Callable[[Iterable[str]], Mapping[str, str]]
) -> list[Reasons]:
    """Return the reasons for each of `vocabularies`; `stems_of` maps words to their stems."""
    if not terms.words:
        return [Reasons((), 0.0, 0.0) for _ in vocabularies]
    # A stem is its word without the ending, except that its last letter may differ.
    prefixes = {stem[: max(1, len(stem) - 1)] for stem in terms.words}
    words = [vocabulary.words_with_prefix(prefixes) for vocabulary in vocabularies]
    stems = stems_of(word for fields in words for field in fields for word in field)
    return [_reasons([{stems.get(word, "") for word in field} for field in fields], terms) for fields in words]


def _reasons(fields: Sequence[set[str]], terms: QueryTerms) -> Reasons:
    found = [[stem for stem in terms.words if stem in stems] for stems in fields]
    total = sum(terms.weights.values()) or 1.0

    def share(parts: Sequence[Sequence[str]]) -> float:
        return sum(terms.weights[stem] for stem in {stem for part in parts for stem in part}) / total

    named = zip(FIELDS, found, strict=True)
    why = tuple((field, tuple(terms.words[stem] for stem in stems)) for field, stems in named if stems)
    return Reasons(why, share(found[:-1]), share(found))
