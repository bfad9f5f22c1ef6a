"""Skills whose descriptions compete: what one says of itself finds the other nearly as well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skills_core.selection import SelectionPolicy, SkillSearch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skills_core.selection import Match
    from skills_core.skill import Skill

__all__ = ["MAX_LOOKS", "THRESHOLD", "MeaningClash", "MeaningClashes", "meaning_clashes"]

THRESHOLD = 0.6
"""Least share of a skill's own score. Distinct skills of curated collections stay below 0.55: see
docs/guides/check-visibility.md."""

MAX_LOOKS = 2_000_000
"""Most times that a description is held against a skill: all of 1,400 skills, 200 of 10,000."""

_RIVALS = SelectionPolicy(top_k=4, min_score=0.0)
"""The skill itself and the three next to it."""

_FIELDS = frozenset({"name", "description", "tags"})


@dataclass(frozen=True, slots=True)
class MeaningClash:
    """The description of `skill` finds `rival` with that `share` of its own score; `back` is the other way round.

    `words` are what both have, of what the first says of itself.
    """

    skill: Skill
    rival: Skill
    share: float
    back: float
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MeaningClashes:
    """The pairs that compete, the closest first, and how many skills were asked and how many were not."""

    pairs: tuple[MeaningClash, ...]
    compared: int
    left_out: int


def meaning_clashes(skills: Sequence[Skill], threshold: float = THRESHOLD, looks: int = MAX_LOOKS) -> MeaningClashes:
    """Compare descriptions with all of `skills`: those of the first ones, where there are too many for all."""
    search, listed = SkillSearch(), tuple(skills)
    asked = listed[: looks // max(1, len(listed))]
    found: dict[tuple[int, int], tuple[Skill, Match, float]] = {}
    for skill in asked:
        matches = search.select(listed, skill.description, _RIVALS)
        own = next((match.score for match in matches if match.skill is skill), 0.0)
        for match in matches:
            if match.skill is not skill and own:
                found[id(skill), id(match.skill)] = (skill, match, match.score / own)
    pairs = [_pair(found, key) for key in found if found[key][2] >= threshold and _is_closer(found, key)]
    pairs.sort(key=lambda pair: (-pair.share, -pair.back, pair.skill.key, pair.rival.key))
    return MeaningClashes(tuple(pairs), len(asked), len(listed) - len(asked))


def _is_closer(found: dict[tuple[int, int], tuple[Skill, Match, float]], key: tuple[int, int]) -> bool:
    """Tell whether this way round says more than the other; of two that say the same, the first one asked does."""
    other = found.get((key[1], key[0]))
    if other is None or found[key][2] != other[2]:
        return other is None or found[key][2] > other[2]
    return found[key][0].key < other[0].key


def _pair(found: dict[tuple[int, int], tuple[Skill, Match, float]], key: tuple[int, int]) -> MeaningClash:
    skill, match, share = found[key]
    _, _, back = found.get((key[1], key[0]), (None, None, 0.0))
    words = dict.fromkeys(word for field, these in match.why if field in _FIELDS for word in these)
    return MeaningClash(skill, match.skill, share, back, tuple(words))
