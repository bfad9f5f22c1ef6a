"""Lint a catalog: skills that compete, collide on queries or are the same, and skills that are never activated."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from server.evals.lint.collisions import check_queries
from server.evals.lint.duplicates import duplicates
from server.hosting.reranker import load_reranker
from server.visibility.similar_descriptions import similar_descriptions
from skills_core.selection import SkillSearch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from server.config.settings import Settings
    from server.evals.lint.collisions import Collision, QueryCheck
    from server.evals.lint.duplicates import Duplicates
    from server.visibility.similar_descriptions import SimilarPair
    from skills_core.skill import Skill

__all__ = ["CatalogLint", "Competition", "lint_catalog"]


@dataclass(frozen=True, slots=True)
class Competition:
    """Two skills that compete: `pair` by their descriptions, None if they do not; and the queries on which they do."""

    skills: tuple[Skill, Skill]
    pair: SimilarPair | None
    collisions: tuple[Collision, ...]

    @property
    def order(self) -> tuple[int, float, str, str]:
        """The sort key: most collisions first, then the closest descriptions."""
        return -len(self.collisions), -(self.pair.share if self.pair else 0.0), self.skills[0].key, self.skills[1].key


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
        """Whether something should be changed; what was never used may only be new."""
        return bool(self.competing or self.duplicates or self.queries.errors)


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
        skills, _competing(similar.pairs, queries.collisions), similar.compared, queries, duplicates(skills), unused
    )


def _trigger_text(skill: Skill) -> str:
    """Return all that is written to say when the skill applies."""
    front = skill.frontmatter
    return "\n".join(filter(None, (front.description, front.when_to_use, *front.triggers)))


def _competing(pairs: Iterable[SimilarPair], collisions: Iterable[Collision]) -> tuple[Competition, ...]:
    by_pair: dict[frozenset[str], SimilarPair] = {frozenset((p.skill.path, p.rival.path)): p for p in pairs}
    found: dict[frozenset[str], list[Collision]] = defaultdict(list)
    for each in collisions:
        found[frozenset((each.skill.path, each.rival.path))].append(each)
    competing = [
        Competition((pair.skill, pair.rival), pair, tuple(found.pop(key, ()))) for key, pair in by_pair.items()
    ]
    competing += [Competition((these[0].skill, these[0].rival), None, tuple(these)) for these in found.values()]
    return tuple(sorted(competing, key=lambda competition: competition.order))
