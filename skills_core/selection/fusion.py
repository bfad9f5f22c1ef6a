"""Merge two rankings of the same skills by rank alone, because their scores are not comparable.

Source: reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009), with its constant of 60.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from skills_core.selection.policy import Band, Match

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from skills_core.skill import Skill

__all__ = ["FUSION_DEPTH", "Reranker", "fuse"]

_CONSTANT = 60

FUSION_DEPTH = 50
"""How many places of each ranking count."""


class Reranker(Protocol):
    """A second ranking for a query, for example by embeddings. It may be called from several threads."""

    def __call__(self, query: str, skills: Sequence[Skill], /) -> Iterable[Skill]:
        """Return the fitting ones of `skills`, best first; any other skill in the result is ignored.

        Skills are frozen, so a cached result such as an embedding is valid as long as `skill.digest` is the same.
        """


def fuse(matches: Sequence[Match], ranked: Iterable[Skill], top_k: int) -> list[Match]:
    """Return the best `top_k` of both rankings; ties are ordered by name, then by path.

    The score is the sum of 1 / (60 + place) over both rankings, at most 2 / 61. All other fields stay those of the word
    match, because places do not tell how close two skills are. A skill that only the reranker found has the band
    "trace" and a relative score of 0, but is not weak.
    """
    known = {match.skill.path: match for match in matches}
    scores: dict[str, float] = defaultdict(float)
    for place, match in enumerate(matches[:FUSION_DEPTH], 1):
        scores[match.skill.path] += 1 / (_CONSTANT + place)
    seen: set[str] = set()
    for skill in ranked:
        if skill.path in seen:
            continue
        seen.add(skill.path)
        scores[skill.path] += 1 / (_CONSTANT + len(seen))
        known.setdefault(skill.path, Match(skill, 0.0, Band.TRACE, relative=0.0))
        if len(seen) == FUSION_DEPTH:
            break
    found = [replace(known[path], score=score) for path, score in scores.items()]
    return sorted(found, key=lambda match: match.order)[:top_k]
