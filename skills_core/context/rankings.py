"""Rankings of the skills that may be selected without being named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from skills_core.selection import SkillIndex, SkillSearch
from skills_core.selection.policy import Match, SelectionPolicy

if TYPE_CHECKING:
    from skills_core.skill import Skill

__all__ = ["Ranking", "by_full_text", "by_shared_words"]

Ranking: TypeAlias = Callable[[str, SelectionPolicy], Sequence[Match]]
"""A function that returns the best matches for a query, best first."""


def by_shared_words(skills: Iterable[Skill]) -> Ranking:
    """Return adk-skill's ranking of the active ones of `skills` that models may choose."""
    return SkillIndex().extended(_offered(skills)).select


def by_full_text(skills: Iterable[Skill]) -> Ranking:
    """Return the default ranking of the active ones of `skills` that models may choose."""
    offered, search = _offered(skills), SkillSearch()
    return lambda query, policy: search.select(offered, query, policy)


def _offered(skills: Iterable[Skill]) -> tuple[Skill, ...]:
    return tuple(skill for skill in skills if skill.is_offered)
