"""Lint a catalog: skills that compete, collide on queries or are the same, and skills that are never activated."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from server.evals.lint.collisions import check_queries
from server.evals.lint.duplicates import duplicates
from server.hosting.searches import load_reranker
from server.visibility.report import similar_descriptions
from skills_core.selection import SkillSearch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from server.config.settings import Settings
    from server.evals.lint.collisions import Collision, QueryCheck
    from server.evals.lint.duplicates import Duplicates
    from server.visibility.report import SimilarPair
    from skills_core.skill import Skill

__all__ = ["MIN_COLLISIONS", "CatalogLint", "Competition", "lint_catalog"]


MIN_COLLISIONS: Final = 2
"""Fewest queries, found by no weak match, on which skills collide that compete by queries alone."""


@dataclass(frozen=True, slots=True)
class Competition:
    """Two skills that compete: `pair` by their descriptions, None if they do not; and the queries on which they do.

    `asked` is how many queries both have.
    """

    skills: tuple[Skill, Skill]
    pair: SimilarPair | None
    collisions: tuple[Collision, ...]
    asked: int

    @property
    def is_strong(self) -> bool:
        """Whether the descriptions compete, or so many queries collide that it is no accident of one of them."""
        return self.pair is not None or sum(not each.weak for each in self.collisions) >= MIN_COLLISIONS

    @property
    def order(self) -> tuple[bool, int, float, str, str]:
        """The sort key: strong evidence first, then most collisions, then the closest descriptions."""
        share, keys = self.pair.share if self.pair else 0.0, (self.skills[0].key, self.skills[1].key)
        return not self.is_strong, -len(self.collisions), -share, *keys


@dataclass(frozen=True, slots=True)
class CatalogLint:
    """What was found in the `skills` that are offered to models.

    Descriptions of `compared` skills were compared with all others. `unused` is None if no use was recorded.
    """

    skills: tuple[Skill, ...]
    competing: tuple[Competition, ...]
    compared: int
    queries: QueryCheck
    duplicates: tuple[Duplicates, ...]
    unused: tuple[Skill, ...] | None

    @property
    def has_findings(self) -> bool:
        """Whether something should be changed; one query is weak evidence, and what was never used may only be new."""
        return bool(any(each.is_strong for each in self.competing) or self.duplicates or self.queries.errors)


def lint_catalog(offered: Sequence[Skill], settings: Settings, used: Mapping[str, int]) -> CatalogLint:
    """Lint the skills that are offered to models; `used` counts the recorded activations by key.

    Raises:
        ConfigurationError: the reranker of the settings cannot be loaded.
    """
    skills = tuple(offered)
    search = SkillSearch(load_reranker(settings.search.reranker), many=True)
    similar = similar_descriptions(skills, text_of=_trigger_text)
    queries = check_queries(skills, partial(search.select, skills))
    unused = tuple(skill for skill in skills if not used.get(skill.key)) if used else None
    return CatalogLint(
        skills, _competing(similar.pairs, queries), similar.compared, queries, duplicates(skills), unused
    )


def _trigger_text(skill: Skill) -> str:
    """Return all that is written to say when the skill applies."""
    front = skill.frontmatter
    return "\n".join(filter(None, (front.description, front.when_to_use, *front.triggers)))


def _competing(pairs: Iterable[SimilarPair], queries: QueryCheck) -> tuple[Competition, ...]:
    by_pair: dict[frozenset[str], SimilarPair] = {frozenset((p.skill.path, p.rival.path)): p for p in pairs}
    found: dict[frozenset[str], list[Collision]] = defaultdict(list)
    for each in queries.collisions:
        found[frozenset((each.skill.path, each.rival.path))].append(each)
    asked = {key: sum(queries.by_skill.get(path, 0) for path in key) for key in {*by_pair, *found}}
    competing = [
        Competition((pair.skill, pair.rival), pair, tuple(found.pop(key, ())), asked[key])
        for key, pair in by_pair.items()
    ]
    competing += [
        Competition((these[0].skill, these[0].rival), None, tuple(these), asked[key]) for key, these in found.items()
    ]
    return tuple(sorted(competing, key=lambda competition: competition.order))
