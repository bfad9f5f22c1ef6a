"""Find the queries on which skills of a catalog collide: those of one skill that find another one first."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from server.evals.triggers.query_files import queries_of_skill
from skills_core.evals.triggers.queries import QueryFileError
from skills_core.evals.triggers.ranks import rank_query
from skills_core.selection import TOP_TEN
from skills_core.sources import SkillKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from skills_core.evals.triggers.queries import Query
    from skills_core.evals.triggers.ranks import RankedQuery, Search
    from skills_core.skill import Skill

__all__ = ["Collision", "QueryCheck", "check_queries"]

_FIRST = replace(TOP_TEN, top_k=1)


@dataclass(frozen=True, slots=True)
class Collision:
    """A query of `skill` that another skill takes, or that `skill` takes from another; `rival` is the other one.

    `rank` is that of `skill`, None if the search does not find it. A `weak` first match covers little of the query.
    """

    skill: Skill
    rival: Skill
    query: Query
    rank: int | None
    weak: bool = False


@dataclass(frozen=True, slots=True)
class QueryCheck:
    """The collisions on the queries of all skills, how many each skill has by its path, and the files' errors."""

    collisions: tuple[Collision, ...]
    by_skill: Mapping[str, int]
    errors: tuple[str, ...]

    @property
    def asked(self) -> int:
        """How many queries were asked."""
        return sum(self.by_skill.values())

    @property
    def files(self) -> int:
        """How many skills have queries."""
        return len(self.by_skill)


def check_queries(skills: Sequence[Skill], search: Search) -> QueryCheck:
    """Ask the trigger queries of all `skills`, as far as they have any."""
    by_key = {name: skill for skill in reversed(skills) for name in (skill.name, skill.key)}
    collisions: list[Collision] = []
    errors: list[str] = []
    by_skill: dict[str, int] = {}
    for skill in skills:
        try:
            queries = _queries(skill)
        except QueryFileError as error:
            errors.append(str(error))
            continue
        if queries:
            by_skill[skill.path] = len(queries)
        for query in queries:
            first = next(iter(search(query.text, _FIRST)), None)
            if first is None or (first.skill.path == skill.path) is query.should_trigger:
                # The usual case takes a fraction of the time of a ranking.
                continue
            ranked = rank_query(search, skill, query)
            collisions += [
                Collision(skill, by_key[rival], query, ranked.rank, first.weak) for rival in _rivals(ranked, by_key)
            ]
    return QueryCheck(tuple(collisions), by_skill, tuple(errors))


def _queries(skill: Skill) -> tuple[Query, ...]:
    if skill.content.kind is not SkillKind.FOLDER:
        return ()
    folder = skill.source.root / skill.content.folder
    # Most skills have no such folder, and one look is faster than three.
    if not os.path.isdir(folder / "evals") and not os.path.lexists(folder / "eval_queries.json"):  # noqa: PTH112
        return ()
    found = queries_of_skill(folder)
    return found[1] if found else ()


def _rivals(ranked: RankedQuery, known: dict[str, Skill]) -> Iterator[str]:
    """Yield the skill that takes the query of the skill, or the one from which the skill takes the query."""
    if ranked.query.should_trigger:
        yield from ranked.above[:1]
    elif ranked.is_false_trigger and ranked.query.expected_skill in known:
        yield ranked.query.expected_skill
