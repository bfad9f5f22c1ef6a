"""Two rankings of the same skills made into one, by places alone: their scores have no common measure.

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

__all__ = ["DEPTH", "Reranker", "fused"]

_CONSTANT = 60

DEPTH = 50
"""How far down each ranking counts."""


class Reranker(Protocol):
    """A second opinion on a query, such as one by embeddings. It may be called from several threads."""

    def __call__(self, query: str, skills: Sequence[Skill], /) -> Iterable[Skill]:
        """Return those of `skills` that fit, best first; what is not among them counts for nothing.

        Skills are frozen: `skill.digest` tells whether what was worked out for one still holds.
        """


def fused(matches: Sequence[Match], ranked: Iterable[Skill], top_k: int) -> list[Match]:
    """Return the best `top_k` of both rankings; ties are ordered by name, then by path.

    The score is the sum of 1 / (60 + place) over both, and 2 / 61 at most. All else stays as the words have it, for
    places do not tell how close two skills lie; a skill without any word of the query is a trace, with nothing of the
    best one's score, and is not called weak, for it was found otherwise.
    """
    known = {match.skill.path: match for match in matches}
    scores: dict[str, float] = defaultdict(float)
    for place, match in enumerate(matches[:DEPTH], 1):
        scores[match.skill.path] += 1 / (_CONSTANT + place)
    seen: set[str] = set()
    for skill in ranked:
        if skill.path in seen:
            continue
        seen.add(skill.path)
        scores[skill.path] += 1 / (_CONSTANT + len(seen))
        known.setdefault(skill.path, Match(skill, 0.0, Band.TRACE, relative=0.0))
        if len(seen) == DEPTH:
            break
    found = [replace(known[path], score=score) for path, score in scores.items()]
    return sorted(found, key=lambda match: match.order)[:top_k]
