"""Find skills with competing descriptions: a search for one's description finds the other nearly as well."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from skills_core.selection import SelectionPolicy, SkillSearch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from skills_core.selection import Match
    from skills_core.skill import Skill

__all__ = ["MAX_COMPARISONS", "THRESHOLD", "SimilarDescriptions", "SimilarPair", "similar_descriptions"]

THRESHOLD = 0.6
"""Minimum share of a skill's own score. Curated collections of distinct skills stay below 0.55: see
docs/guides/check-visibility.md."""

MAX_COMPARISONS = 2_000_000
"""Maximum comparisons of a description with a skill: enough for all of 1,400 skills, or 200 of 10,000."""

_RIVALS = SelectionPolicy(top_k=4, min_score=0.0)
"""The skill itself and its three closest rivals."""

_FIELDS = frozenset({"name", "description", "tags"})


@dataclass(frozen=True, slots=True)
class SimilarPair:
    """A search for the description of `skill` finds `rival` with this `share` of the score of `skill` itself.

    `back` is the share in the other direction. `words` are the words of the description that the rival also has.
    """

    skill: Skill
    rival: Skill
    share: float
    back: float
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SimilarDescriptions:
    """The competing pairs, closest first, and how many descriptions were compared and left out."""

    pairs: tuple[SimilarPair, ...]
    compared: int
    left_out: int


def similar_descriptions(
    skills: Sequence[Skill],
    threshold: float = THRESHOLD,
    max_comparisons: int = MAX_COMPARISONS,
    text_of: Callable[[Skill], str] = attrgetter("description"),
) -> SimilarDescriptions:
    """Compare descriptions with all of `skills`: those of the first ones, where there are too many for all.

    `text_of` returns the text of a skill that is searched for.
    """
    search, listed = SkillSearch(many=True), tuple(skills)
    asked = listed[: max_comparisons // max(1, len(listed))]
    found: dict[tuple[int, int], tuple[Skill, Match, float]] = {}
    for skill in asked:
        matches = search.select(listed, text_of(skill), _RIVALS)
        own = next((match.score for match in matches if match.skill is skill), 0.0)
        for match in matches:
            if match.skill is not skill and own:
                found[id(skill), id(match.skill)] = (skill, match, match.score / own)
    pairs = [_pair(found, key) for key in found if found[key][2] >= threshold and _is_closer(found, key)]
    pairs.sort(key=lambda pair: (-pair.share, -pair.back, pair.skill.key, pair.rival.key))
    return SimilarDescriptions(tuple(pairs), len(asked), len(listed) - len(asked))


def _is_closer(found: dict[tuple[int, int], tuple[Skill, Match, float]], key: tuple[int, int]) -> bool:
    """Tell whether this way round says more than the other; of two that say the same, the first one asked does."""
    other = found.get((key[1], key[0]))
    if other is None or found[key][2] != other[2]:
        return other is None or found[key][2] > other[2]
    return found[key][0].key < other[0].key


def _pair(found: dict[tuple[int, int], tuple[Skill, Match, float]], key: tuple[int, int]) -> SimilarPair:
    skill, match, share = found[key]
    _, _, back = found.get((key[1], key[0]), (None, None, 0.0))
    words = dict.fromkeys(word for field, these in match.why if field in _FIELDS for word in these)
    return SimilarPair(skill, match.skill, share, back, tuple(words))
