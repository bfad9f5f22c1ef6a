"""Skills that a model may confuse: pairs whose names and descriptions share the words that tell them from the others.

What a model sees of a skill before it loads one is its front: name, description, `when_to_use` and triggers. A word of
it weighs the more the fewer skills have it. The overlap of two fronts is the cosine of their weighted words (Salton,
Wong and Yang, 1975), so that it is high only if each shares much with the other.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from math import log, sqrt
from typing import TYPE_CHECKING, Final

from skills_core.selection.fulltext import MAX_WORDS, Stems, content_words

if TYPE_CHECKING:
    from skills_core.skills.skill import Skill


LEAST_OVERLAP: Final = 0.26
"""Smallest overlap of a pair, where both names have a word that the other skill has.

This and the next two were chosen on some 170 pairs of public skills that were judged by hand.
"""

ONE_NAME_OVERLAP: Final = 0.34
"""Smallest overlap of a pair where only one name has such a word."""

ONE_WORD_OVERLAP: Final = 0.45
"""Smallest overlap of a pair that shares a single word, which may be an accident."""

NEAREST: Final = 3
"""How many skills a description finds that count as confused with its own."""

# The form of descriptions, not their subject: "Use when the user asks to create …", "A comprehensive guide to …",
# "Expert in …". In a large catalog most of these show by their number; in one of a few skills nothing else tells that
# such a word is shared by chance. Taken from the words that most of some 18,000 public descriptions have, without
# those that name a subject, such as "code" or "data".
_FORM_TEXT: Final = (
    "ability advanced agent ai allow apply approach appropriate ask assist assistance automate automatically based "
    "best build claude complete comprehensive cover create creation develop developing development effective "
    "enable ensure example existing expert expertise generate generation guidance guide guideline handle help "
    "helper implement implementation include including invoke manage management master mention mentions modern "
    "multiple need pattern practice pro production professional provide ready request require requirement robust "
    "scalable set setup skill specialist specific step support task tool trigger user various whenever work "
    "workflow"
)

_SUBJECTS: Final = ("skill", "agent", "task", "workflow")
# Words of form that some skills are about: they count for a skill that has them in its name and its text.

_SELF: Final = re.compile(r"\b(?:this|the)\s+skill\b", re.IGNORECASE)
# "Use this skill when …" does not make "skill" the subject.

_EXCLUDED: Final = re.compile(
    r"(?:\b(?:do not|don['\u2019]?t|never) (?:use|trigger|invoke|apply|activate)\b"
    r"|\bnot (?:for|to|intended|needed|suitable|when|use)\b)[^.\n]*",
    re.IGNORECASE,
)
# What a skill says it is not for sets it apart from the skill that it names.

_MOST: Final = 0.5
_MOST_FROM: Final = 10
_COMMON_SHARE: Final = 0.3
_COMMON_COUNT: Final = 200
# A word that most skills of a catalog of at least ten have tells nothing, nor one that this share of the catalog with
# the background has, or this number of skills. The number bounds the time for large catalogs.

_BACKGROUND: Final = 200
_BACKGROUND_SHARE: Final = 0.01
# Each catalog is counted together with this many other skills, of which this share has a word. Otherwise a word that
# two of three skills have would be a common one. The share is about that of a word of 18,000 public descriptions.


@dataclass(frozen=True, slots=True)
class Rivals:
    """Two skills whose fronts overlap.

    The words of `skill`, as a query, give `rival` this `share` of the score that `skill` itself has; `back` is the
    share in the other direction, and `share` the larger one. A rival that repeats the words more often may have more
    than 1. `words` are the shared ones, rarest first. `nearest` tells that each is among the first others that the
    words of the other one find. `names` is how many of the two names have a word that the other skill has too.
    """

    skill: Skill
    rival: Skill
    share: float
    back: float
    words: tuple[str, ...]
    nearest: bool
    names: int

    @property
    def overlap(self) -> float:
        """The geometric mean of both shares, from 0 to 1: high only if both directions are."""
        return sqrt(self.share * self.back)

    @property
    def least(self) -> float:
        """The overlap from which the pair is close: higher the less their names say."""
        least = LEAST_OVERLAP if self.names > 1 else ONE_NAME_OVERLAP
        return max(least, ONE_WORD_OVERLAP) if len(self.words) == 1 else least

    @property
    def is_alike(self) -> bool:
        """Whether a model may take one for the other: each is near the other, also by a name."""
        return self.nearest and self.names > 0


@dataclass(frozen=True, slots=True)
class _Front:
    """The weights of a skill's words by stem, the largest ones, and the stems of its name."""

    weights: Mapping[str, float]
    name: frozenset[str]
    length: float


class CatalogWords:
    """The words of the fronts of some skills, and how rare they are among these."""

    def __init__(self, skills: Iterable[Skill]) -> None:
        """Count the words of all skills."""
        self.skills = tuple(skills)
        self._stems_of = _stemmer()
        self._form = frozenset(self._stems_of(_FORM_TEXT.split()).values())
        self._subjects = frozenset(self._stems_of(_SUBJECTS).values())
        self._spelled: dict[str, str] = {}
        counted = [self._count(skill) for skill in self.skills]
        self._with = Counter(stem for words, _ in counted for stem in words)
        self._fronts = [self._front(words, name) for words, name in counted]
        self._having: dict[str, list[int]] = defaultdict(list)
        for number, front in enumerate(self._fronts):
            for stem in front.weights:
                self._having[stem].append(number)

    def has_rare(self, words: Iterable[str]) -> bool:
        """Tell whether one of the words is neither one of form nor common among the skills."""
        return any(stem not in self._form and self._weight(stem) for stem in self._stems_of(words).values())

    def rivals(self) -> Iterator[Rivals]:
        """Yield the pairs of skills that are close, of the nearest ones of each skill.

        The time grows with the number of skills, not with that of pairs.
        """
        near = [self._nearest(number) for number in range(len(self.skills))]
        for number, others in enumerate(near):
            for other, overlap in others.items():
                mutual = number in near[other]
                # A pair that each finds is made once.
                if overlap >= LEAST_OVERLAP and (number < other or not mutual):
                    pair = self._pair(number, other, nearest=mutual)
                    if overlap >= pair.least:
                        yield pair

    def _count(self, skill: Skill) -> tuple[Counter[str], frozenset[str]]:
        front = skill.frontmatter
        text = "\n".join(filter(None, (front.description, front.when_to_use, *front.triggers)))
        words = self._stemmed(_EXCLUDED.sub(" ", _SELF.sub(" ", text)))
        name = frozenset(self._stemmed(skill.name))
        about = {stem for stem in self._subjects & name if words[stem]}
        # A word of the name counts once more.
        words.update(name)
        counted = Counter({stem: count for stem, count in words.items() if stem not in self._form or stem in about})
        return counted, name & counted.keys()

    def _stemmed(self, text: str) -> Counter[str]:
        words = [word for word in content_words(text) if not word.isdecimal()]
        stems = self._stems_of(words)
        for word, stem in stems.items():
            self._spelled.setdefault(stem, word)
        return Counter(stems[word] for word in words if word in stems)

    def _weight(self, stem: str) -> float:
        having = self._with[stem]
        skills = len(self.skills)
        share = (having + _BACKGROUND * _BACKGROUND_SHARE) / (skills + _BACKGROUND)
        is_common = (
            share > _COMMON_SHARE or having > _COMMON_COUNT or (skills >= _MOST_FROM and having > _MOST * skills)
        )
        return 0.0 if is_common else log(_MOST / share)

    def _front(self, words: Counter[str], name: frozenset[str]) -> _Front:
        weighed = ((stem, self._weight(stem) * (1 + log(count))) for stem, count in words.items())
        most = nsmallest(MAX_WORDS, (each for each in weighed if each[1]), key=lambda each: (-each[1], each[0]))
        weights = dict(most)
        return _Front(weights, name & weights.keys(), sqrt(sum(weight**2 for weight in weights.values())))

    def _nearest(self, number: int) -> dict[int, float]:
        """Return the numbers of the skills that overlap most with one, each with the overlap."""
        front = self._fronts[number]
        scores: dict[int, float] = defaultdict(float)
        for stem, weight in front.weights.items():
            for other in self._having[stem]:
                scores[other] += weight * self._fronts[other].weights[stem]
        scores.pop(number, None)
        overlaps = [(other, score / front.length / self._fronts[other].length) for other, score in scores.items()]
        return dict(nsmallest(NEAREST, overlaps, key=lambda each: (-each[1], self.skills[each[0]].path)))

    def _pair(self, one: int, other: int, *, nearest: bool) -> Rivals:
        fronts: Sequence[_Front] = (self._fronts[one], self._fronts[other])
        shared = fronts[0].weights.keys() & fronts[1].weights.keys()
        score = sum(fronts[0].weights[stem] * fronts[1].weights[stem] for stem in shared)
        shares = [score / front.length**2 for front in fronts]
        names = sum(not shared.isdisjoint(front.name) for front in fronts)
        words = tuple(self._spelled[stem] for stem in sorted(shared, key=lambda stem: (self._with[stem], stem)))
        first, second = (one, other) if shares[0] >= shares[1] else (other, one)
        return Rivals(self.skills[first], self.skills[second], max(shares), min(shares), words, nearest, names)


def _stemmer() -> Callable[[Iterable[str]], dict[str, str]]:
    """Return a function from words to their stems, or to the words themselves if this SQLite has no full-text index."""
    try:
        return Stems().of
    except sqlite3.Error:
        return lambda words: {word: word for word in words}
