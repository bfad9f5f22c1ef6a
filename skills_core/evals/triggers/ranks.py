"""Rank a skill among all others for its trigger queries, as `find_skills` does, without a model.

The ranking is deterministic, so each query is asked once. It tells which skill a search finds, not what a model does
with the matches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from skills_core.evals.triggers.results import Rate
from skills_core.selection.ranking import TOP_TEN

if TYPE_CHECKING:
    from skills_core.evals.triggers.queries import Query
    from skills_core.selection.policy import Match, SelectionPolicy
    from skills_core.skills.skill import Skill


DEEPEST: Final = 100
"""The last rank that is measured: `find_skills` returns no more matches."""

_MAX_ABOVE: Final = 5

MIN_QUERIES: Final = 8
"""Fewest queries of a kind that carry a verdict: the guides ask for 8 to 10 of each."""

_FIVE: Final = 5
# As many matches as the menu of close ones has.


Search = Callable[[str, "SelectionPolicy"], "Sequence[Match]"]
"""Returns the skills of a catalog that match a query best, best first."""


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
    matches = list(search(query.text, TOP_TEN))
    if len(matches) == TOP_TEN.top_k and (_rank_of(matches, skill) is None or _lacks_expected(matches, query)):
        first = {match.skill.path for match in matches}
        deeper = search(query.text, replace(TOP_TEN, top_k=DEEPEST))
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


class LimitVerdict(StrEnum):
    """Whether the rates keep within their limits."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    NONE = "no verdict"


@dataclass(frozen=True, slots=True)
class RankLimits:
    """The least recall@1, and the largest share of false triggers; None is unlimited."""

    min_recall: float | None = None
    max_false: float | None = None


@dataclass(frozen=True, slots=True)
class Confusion:
    """The queries on which a rival and the skill are confused, by their IDs.

    `above` should trigger the skill, but the rival ranks above it. `displaced` should trigger the rival, but the skill
    ranks above it.
    """

    rival: str
    above: tuple[str, ...]
    displaced: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QuerySummary:
    """The rates of a set of queries.

    `recall_at_1` and `recall_at_5` are shares of the queries that should trigger. `false_triggers` is one of those
    that should not, `first_of_near_misses` the same with weak matches. `expected_first` is the share of the queries
    that find the skill that they name as expected first. `verdict` is None without limits; `reasons` say why there is
    no verdict, or which limit is exceeded.
    """

    recall_at_1: Rate
    recall_at_5: Rate
    false_triggers: Rate
    first_of_near_misses: Rate
    expected_first: Rate
    confusions: tuple[Confusion, ...]
    verdict: LimitVerdict | None
    reasons: tuple[str, ...]


def summarize(ranked: Sequence[RankedQuery], skills: int, limits: RankLimits | None = None) -> QuerySummary:
    """Return the summary of ranked queries in a catalog of `skills` skills."""
    limits = limits or RankLimits()
    should = [each for each in ranked if each.query.should_trigger]
    should_not = [each for each in ranked if not each.query.should_trigger]
    named = [each for each in should_not if each.query.expected_skill is not None]
    recall = Rate(sum(each.is_right for each in should), len(should))
    in_five = Rate(sum(each.rank is not None and each.rank <= _FIVE for each in should), len(should))
    false = Rate(sum(each.is_false_trigger for each in should_not), len(should_not))
    lacking = tuple(_lacking(recall, false, skills, limits))
    missed = tuple(_missed(recall, false, limits))
    verdict = LimitVerdict.NONE if lacking else LimitVerdict.FAIL if missed else None
    if verdict is None and limits != RankLimits():
        verdict = LimitVerdict.PASS
    return QuerySummary(
        recall,
        in_five,
        false,
        Rate(sum(each.rank == 1 for each in should_not), len(should_not)),
        Rate(sum(each.expected_rank == 1 for each in named), len(named)),
        _confusions(ranked),
        verdict,
        lacking or missed,
    )


def _lacking(recall: Rate, false: Rate, skills: int, limits: RankLimits) -> Iterator[str]:
    """Yield what is missing for a verdict: on both rates, or on the one that has a limit."""
    if skills < 2:  # noqa: PLR2004 - the skill and a rival
        yield "the catalog has no other skill to confuse this one with; name folders with --catalog"
    both = limits == RankLimits()
    for rate, kind, wanted in (
        (recall, "should trigger", both or limits.min_recall is not None),
        (false, "should not trigger", both or limits.max_false is not None),
    ):
        if wanted and rate.total < MIN_QUERIES:
            yield f"a verdict takes {MIN_QUERIES} queries that {kind}, {MIN_QUERIES - rate.total} more than there are"


def _missed(recall: Rate, false: Rate, limits: RankLimits) -> Iterator[str]:
    if limits.min_recall is not None and (recall.value or 0.0) < limits.min_recall:
        yield f"recall@1 is {recall.value or 0.0:.2f}, below {limits.min_recall:.2f}"
    if limits.max_false is not None and (false.value or 0.0) > limits.max_false:
        yield f"{false.value or 0.0:.2f} of the near-misses trigger, above {limits.max_false:.2f}"


def _confusions(ranked: Iterable[RankedQuery]) -> tuple[Confusion, ...]:
    above: dict[str, list[str]] = defaultdict(list)
    displaced: dict[str, list[str]] = defaultdict(list)
    for each in ranked:
        if each.query.should_trigger:
            for rival in each.above:
                above[rival].append(each.query.id)
        elif each.is_false_trigger and each.query.expected_skill is not None:
            displaced[each.query.expected_skill].append(each.query.id)
    rivals = sorted({*above, *displaced}, key=lambda rival: (-len(above[rival]) - len(displaced[rival]), rival))
    return tuple(Confusion(rival, tuple(above[rival]), tuple(displaced[rival])) for rival in rivals)
