"""Sum up ranked queries: recall, false triggers, confusions by rival, and a verdict where the numbers carry one."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from skills_core.evals.statistics import Interval, wilson

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from skills_core.evals.triggers.query_ranking import RankedQuery

__all__ = ["MIN_QUERIES", "Confusion", "Limits", "QuerySummary", "Rate", "Verdict", "summarize"]

MIN_QUERIES: Final = 8
"""Fewest queries of a kind that carry a verdict: the guides ask for 8 to 10 of each."""

_FIVE: Final = 5
# As many matches as the menu of close ones has.


class Verdict(StrEnum):
    """Whether the rates keep within their limits."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    NONE = "no verdict"


@dataclass(frozen=True, slots=True)
class Limits:
    """The least recall@1, and the largest share of false triggers; None is unlimited."""

    min_recall: float | None = None
    max_false: float | None = None


@dataclass(frozen=True, slots=True)
class Rate:
    """A share of queries."""

    hits: int
    total: int

    @property
    def share(self) -> float | None:
        """The share from 0 to 1; None without queries."""
        return self.hits / self.total if self.total else None

    @property
    def interval(self) -> Interval:
        """Wilson's interval: how far the share may be from that of all queries of this kind."""
        return wilson(self.hits, self.total)


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
    verdict: Verdict | None
    reasons: tuple[str, ...]


def summarize(ranked: Sequence[RankedQuery], skills: int, limits: Limits | None = None) -> QuerySummary:
    """Return the summary of ranked queries in a catalog of `skills` skills."""
    limits = limits or Limits()
    should = [each for each in ranked if each.query.should_trigger]
    should_not = [each for each in ranked if not each.query.should_trigger]
    named = [each for each in should_not if each.query.expected_skill is not None]
    recall = Rate(sum(each.is_right for each in should), len(should))
    in_five = Rate(sum(each.rank is not None and each.rank <= _FIVE for each in should), len(should))
    false = Rate(sum(each.is_false_trigger for each in should_not), len(should_not))
    lacking = tuple(_lacking(recall, false, skills, limits))
    missed = tuple(_missed(recall, false, limits))
    verdict = Verdict.NONE if lacking else Verdict.FAIL if missed else None
    if verdict is None and limits != Limits():
        verdict = Verdict.PASS
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


def _lacking(recall: Rate, false: Rate, skills: int, limits: Limits) -> Iterator[str]:
    """Yield what is missing for a verdict: on both rates, or on the one that has a limit."""
    if skills < 2:  # noqa: PLR2004 - the skill and a rival
        yield "the catalog has no other skill to confuse this one with; name folders with --catalog"
    both = limits == Limits()
    for rate, kind, wanted in (
        (recall, "should trigger", both or limits.min_recall is not None),
        (false, "should not trigger", both or limits.max_false is not None),
    ):
        if wanted and rate.total < MIN_QUERIES:
            yield f"a verdict takes {MIN_QUERIES} queries that {kind}, {MIN_QUERIES - rate.total} more than there are"


def _missed(recall: Rate, false: Rate, limits: Limits) -> Iterator[str]:
    if limits.min_recall is not None and (recall.share or 0.0) < limits.min_recall:
        yield f"recall@1 is {recall.share or 0.0:.2f}, below {limits.min_recall:.2f}"
    if limits.max_false is not None and (false.share or 0.0) > limits.max_false:
        yield f"{false.share or 0.0:.2f} of the near-misses trigger, above {limits.max_false:.2f}"


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
