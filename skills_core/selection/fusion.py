"""Merge the answer of a reranker with the word ranking.

An order is merged by rank alone, because it does not tell how close skills are. Source: reciprocal rank fusion
(Cormack, Clarke and Büttcher, 2009), with its constant of 60. Similarities are added to the word scores, which count
less the less of the query the best match has.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from skills_core.diagnostics import one_line
from skills_core.selection.policy import Band, Match

if TYPE_CHECKING:
    from skills_core.skills.skill import Skill


_CONSTANT = 60

FUSION_DEPTH = 50
"""How many places of each ranking count."""

# Chosen for all-MiniLM-L6-v2 on the first half of the labelled queries; bench/README.md has the figures.
SIMILARITY_WEIGHT = 3.0
"""What a cosine of 1 counts beside the word score of the best match, which counts 1."""

FITTING_SIMILARITY = 0.25
"""The cosine from which a skill fits although the words do not show it."""

_LISTED_SHARE = 0.4
# Of the cosine from which a skill fits: from there it is found too, as a weak match.

_MAX = 1.01
# Cosines of vectors in single precision may exceed 1 by rounding.


@dataclass(frozen=True, slots=True)
class Similarities:
    """How similar skills are to a query, as cosines from -1 to 1; a skill without a cosine counts 0.

    `weight` is what a cosine of 1 counts beside the best word score. A skill with a cosine of at least `fits` is found
    without a word of the query, and is not weak; from two fifths of `fits` it is found as a weak match. Both numbers
    depend on the model that computes the cosines.

    Raises:
        ValueError: a number is out of range.
    """

    cosines: Iterable[tuple[Skill, float]]
    weight: float = SIMILARITY_WEIGHT
    fits: float = FITTING_SIMILARITY

    def __post_init__(self) -> None:
        """Check the numbers; read the cosines once."""
        cosines = tuple(self.cosines)
        object.__setattr__(self, "cosines", cosines)
        if not (math.isfinite(self.weight) and self.weight >= 0):
            raise ValueError(f"weight: expected a number from 0, not {self.weight!r:.100}")
        if not math.isfinite(self.fits):
            raise ValueError(f"fits: expected a cosine, not {self.fits!r:.100}")
        numbers = [cosine for _, cosine in cosines]
        # A comparison of all is fast; only a failure needs to know which one.
        if not (
            all(map(math.isfinite, numbers)) and -_MAX <= min(numbers, default=0) <= max(numbers, default=0) <= _MAX
        ):
            skill, cosine = next(pair for pair in cosines if not abs(pair[1]) <= _MAX)
            raise ValueError(f"{one_line(skill.key)[:200]}: expected a cosine from -1 to 1, not {cosine!r:.100}")


class Reranker(Protocol):
    """A second ranking for a query, for example by embeddings. It may be called from several threads."""

    def __call__(self, query: str, skills: Sequence[Skill], /) -> Iterable[Skill] | Similarities | None:
        """Return the fitting ones of `skills`, best first, or the similarities of some or all of them.

        None leaves this search to the words, for example while a model is being loaded.

        An order may contain other skills, which are ignored; similarities must not. Skills are frozen, so a cached
        result such as an embedding is valid as long as `skill.digest` is the same.
        """


@dataclass(frozen=True, slots=True)
class Reranking:
    """A checked answer of a reranker: the skills that it finds, best first, and all cosines of similarities."""

    skills: tuple[Skill, ...]
    cosines: Mapping[str, float] | None = None
    weight: float = 0.0
    fits: float = 0.0


def checked(answer: Iterable[Skill] | Similarities, candidates: Mapping[str, Skill], depth: int) -> Reranking:
    """Check a reranker's answer about `candidates`, which are keyed by path; keep the first `depth` skills it finds.

    Raises:
        ValueError: similarities have two cosines of a skill, or one of a skill that is not a candidate.
    """
    if not isinstance(answer, Similarities):
        return Reranking(tuple(islice(_known(answer, candidates), depth)))
    pairs = tuple(answer.cosines)
    cosines = {skill.path: float(cosine) for skill, cosine in pairs}
    if len(cosines) < len(pairs):
        raise ValueError("expected one cosine for each skill, but a skill has two")
    if unknown := cosines.keys() - candidates.keys():
        raise ValueError(f"{one_line(min(unknown))[:200]}: expected similarities of the passed skills only")
    least = min(answer.fits, answer.fits * _LISTED_SHARE)
    listed = [path for path, cosine in cosines.items() if cosine >= least]
    found = nsmallest(depth, listed, key=lambda path: (-cosines[path], path))
    return Reranking(tuple(candidates[path] for path in found), cosines, answer.weight, answer.fits)


def _known(order: Iterable[Skill], candidates: Mapping[str, Skill]) -> Iterator[Skill]:
    """Yield each candidate once; other skills may be of an earlier catalog."""
    seen: set[str] = set()
    for skill in order:
        if skill.path in candidates and skill.path not in seen:
            seen.add(skill.path)
            yield candidates[skill.path]


@dataclass(frozen=True, slots=True)
class Fused:
    """A skill with its score in both rankings together; `firm` tells that it is not weak, whatever its words say."""

    skill: Skill
    score: float
    relative: float
    firm: bool

    def match(self, words: Match | None) -> Match:
        """Return the match: the reasons are those of the word match, None if there is none."""
        base = words or Match(self.skill, 0.0, Band.TRACE, weak=True)
        return replace(base, score=self.score, relative=self.relative, weak=base.weak and not self.firm)


def fuse(ranked: Sequence[tuple[Skill, float]], reranking: Reranking, top_k: int, full: float = 0.0) -> list[Fused]:
    """Return the best `top_k` of both rankings; ties are ordered by name, then by path.

    `ranked` are the skills with their word scores, best first. Beside similarities, a word score counts as the share of
    the best one or of `full`, the score of a skill with the whole query, whichever is higher: the best of poor matches
    must not count as much as a good one.
    """
    best = ranked[0][1] if ranked else 0.0
    most = best if reranking.cosines is None else max(best, full)
    shares = {skill.path: score / most if most else 0.0 for skill, score in ranked}
    skills = {skill.path: skill for skill in (*reranking.skills, *(skill for skill, _ in ranked))}
    merge = _by_places if reranking.cosines is None else _by_similarity
    found = merge(skills, shares, reranking)
    return nsmallest(top_k, found, key=lambda fused: (-fused.score, fused.skill.name, fused.skill.path))


def _by_places(skills: Mapping[str, Skill], shares: Mapping[str, float], reranking: Reranking) -> list[Fused]:
    """Score with the sum of 1 / (60 + place) over both rankings, at most 2 / 61.

    The relative score stays that of the words, because places do not tell how close two skills are.
    """
    scores: dict[str, float] = defaultdict(float)
    for ranked in (shares, (skill.path for skill in reranking.skills)):
        for place, path in enumerate(islice(ranked, FUSION_DEPTH), 1):
            scores[path] += 1 / (_CONSTANT + place)
    return [Fused(skills[path], score, shares.get(path, 0.0), path not in shares) for path, score in scores.items()]


def _by_similarity(skills: Mapping[str, Skill], shares: Mapping[str, float], reranking: Reranking) -> list[Fused]:
    """Score with the share of the word score plus the weighted cosine, at least 0."""
    cosines = reranking.cosines or {}
    scores = {path: max(0.0, shares.get(path, 0.0) + reranking.weight * cosines.get(path, 0.0)) for path in skills}
    best = max(scores.values(), default=0.0) or 1.0
    fitting = {path for path, cosine in cosines.items() if cosine >= reranking.fits}
    return [Fused(skills[path], score, score / best, path in fitting) for path, score in scores.items()]
