"""Rank a skill among all others for each of its trigger queries, as `find_skills` does, without a model.

The ranking is deterministic, so each query is asked once. It tells which skill a search finds, not what a model does
with the matches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from skills_core.selection import TOP_TEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from skills_core.evals.triggers.queries import Query
    from skills_core.selection import Match, SelectionPolicy
    from skills_core.skill import Skill

__all__ = ["DEEPEST", "RankedQuery", "Search", "rank_queries", "rank_query"]

DEEPEST: Final = 100
"""The last rank that is measured: `find_skills` returns no more matches."""

_MAX_ABOVE: Final = 5


class Search(Protocol):
    """A search over the skills of a catalog."""

    def __call__(self, query: str, policy: SelectionPolicy, /) -> Sequence[Match]:
        """Return the skills that match best, best first."""


@dataclass(frozen=True, slots=True)
class RankedQuery:
    """Where a query finds the skill.

    `match` is that of the skill at its `rank`, counted from 1; both are None if the search does not find it. `above`
    are the keys of the first skills with a better rank. `expected_rank` is the rank of the skill that the query names
    as expected, None if it names none or this one is not found.
    """

    query: Query
    rank: int | None
    match: Match | None
    above: tuple[str, ...]
    expected_rank: int | None = None

    @property
    def is_false_trigger(self) -> bool:
        """Whether the skill is the best match for a query that should not trigger it, and no weak one."""
        return not self.query.should_trigger and self.rank == 1 and self.match is not None and not self.match.weak

    @property
    def is_right(self) -> bool:
        """Whether a query that should trigger finds the skill first, or one that should not does not."""
        return self.rank == 1 if self.query.should_trigger else not self.is_false_trigger


def rank_queries(search: Search, skill: Skill, queries: Iterable[Query]) -> tuple[RankedQuery, ...]:
    """Return the rank of `skill` for each query."""
    return tuple(rank_query(search, skill, query) for query in queries)


def rank_query(search: Search, skill: Skill, query: Query) -> RankedQuery:
    """Return the rank of `skill` for one query.

    The first ranks are those of the search with its default number of matches, because a reranker may rank otherwise
    where more are asked for.
    """
    matches = list(search(query.query, TOP_TEN))
    if len(matches) == TOP_TEN.top_k and (_rank_of(matches, skill) is None or _lacks_expected(matches, query)):
        first = {match.skill.path for match in matches}
        deeper = search(query.query, replace(TOP_TEN, top_k=DEEPEST))
        matches += [match for match in deeper if match.skill.path not in first]
    rank = _rank_of(matches, skill)
    above = matches[: rank - 1] if rank else matches
    keys = tuple(match.skill.key for match in above[:_MAX_ABOVE])
    return RankedQuery(query, rank, matches[rank - 1] if rank else None, keys, _expected_rank(matches, query))


def _rank_of(matches: Sequence[Match], skill: Skill) -> int | None:
    ranks = (rank for rank, match in enumerate(matches, 1) if match.skill.path == skill.path)
    return next(ranks, None)


def _lacks_expected(matches: Sequence[Match], query: Query) -> bool:
    return query.expected_skill is not None and _expected_rank(matches, query) is None


def _expected_rank(matches: Sequence[Match], query: Query) -> int | None:
    ranks = (
        rank for rank, match in enumerate(matches, 1) if query.expected_skill in {match.skill.key, match.skill.name}
    )
    return next(ranks, None)
