"""Verdicts on queries and on sets of them, with intervals, and without a verdict where the numbers carry none."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from skills_core.diagnostics import agreeing, counted
from skills_core.evals.statistics import SIGNIFICANCE, Interval, cases_for_power, mcnemar_exact, wilson
from skills_core.evals.triggers.outcomes import FAULTS, Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skills_core.evals.triggers.queries import Query

__all__ = ["MAX_FAULTS", "Comparison", "QueryResult", "Rate", "SetResult", "compare", "is_settled", "passes"]

MAX_FAULTS: Final = 0.1
"""Share of runs with an error or a timeout above which a set has no verdict."""

_MOST_RUNS: Final = 200


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate with its 95 % interval; `value` is None if nothing was counted."""

    count: int
    total: int

    @property
    def value(self) -> float | None:
        """The share, from 0 to 1."""
        return self.count / self.total if self.total else None

    @property
    def interval(self) -> Interval:
        """Wilson's interval."""
        return wilson(self.count, self.total)


def passes(rate: float, *, should_trigger: bool, threshold: float) -> bool:
    """Tell whether a trigger rate is on the right side of the threshold; a rate equal to it is on neither side."""
    return rate > threshold if should_trigger else rate < threshold


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The outcomes of the runs of one query, in their order, and where their transcripts are."""

    query: Query
    outcomes: tuple[Outcome, ...]
    threshold: float = 0.5
    transcripts: tuple[str, ...] = ()

    @property
    def rate(self) -> Rate:
        """The trigger rate: how many of the runs without an error loaded the skill."""
        counts = Counter(self.outcomes)
        return Rate(counts[Outcome.LOADED], len(self.outcomes) - self.faults)

    @property
    def faults(self) -> int:
        """How many runs ended with an error or a timeout."""
        return sum(outcome in FAULTS for outcome in self.outcomes)

    @property
    def denied(self) -> int:
        """How many runs were denied the skill."""
        return self.outcomes.count(Outcome.DENIED)

    @property
    def passed(self) -> bool | None:
        """Whether the query passes; None if no run counts."""
        rate = self.rate.value
        if rate is None:
            return None
        return passes(rate, should_trigger=self.query.should_trigger, threshold=self.threshold)

    @property
    def runs_needed(self) -> int | None:
        """How many runs with this rate would show on which side of the threshold it is.

        None if these runs show it already, or no number that is worth its cost would.
        """
        rate = self.rate
        if rate.value is None or not _covers(rate.interval, self.threshold):
            return None
        return _runs_for(rate.count, rate.total, self.threshold)


def _covers(interval: Interval, threshold: float) -> bool:
    return interval.low <= threshold <= interval.high


@cache
def _runs_for(count: int, total: int, threshold: float) -> int | None:
    for runs in range(total + 1, _MOST_RUNS + 1):
        if not _covers(wilson(round(count / total * runs), runs), threshold):
            return runs
    return None


def is_settled(outcomes: Sequence[Outcome], planned: int, threshold: float) -> bool:
    """Tell whether no outcome of the runs that are left can change on which side of the threshold the rate is."""
    loaded = outcomes.count(Outcome.LOADED)
    counted = sum(outcome not in FAULTS for outcome in outcomes)
    left = planned - len(outcomes)
    if left <= 0:
        return True
    if counted == 0:
        return False
    sides = {
        _side((loaded + more) / (counted + more + others), threshold)
        for more in range(left + 1)
        for others in range(left - more + 1)
    }
    return len(sides) == 1


def _side(rate: float, threshold: float) -> int:
    return (rate > threshold) - (rate < threshold)


@dataclass(frozen=True, slots=True)
class SetResult:
    """The results of a set of queries under one description."""

    results: tuple[QueryResult, ...]

    @property
    def judged(self) -> tuple[QueryResult, ...]:
        """The queries with at least one run that counts."""
        return tuple(each for each in self.results if each.passed is not None)

    @property
    def passed(self) -> Rate:
        """How many queries pass, of those that were judged."""
        return Rate(sum(each.passed is True for each in self.judged), len(self.judged))

    @property
    def recall(self) -> Rate:
        """How many of the queries that should trigger do so."""
        return self._share(should_trigger=True)

    @property
    def false_positives(self) -> Rate:
        """How many of the queries that should not trigger do so all the same."""
        right = self._share(should_trigger=False)
        return Rate(right.total - right.count, right.total)

    def _share(self, *, should_trigger: bool) -> Rate:
        chosen = [each for each in self.judged if each.query.should_trigger is should_trigger]
        return Rate(sum(each.passed is True for each in chosen), len(chosen))

    @property
    def runs(self) -> int:
        """How many runs there were."""
        return sum(len(each.outcomes) for each in self.results)

    @property
    def faults(self) -> Rate:
        """How many of the runs ended with an error or a timeout."""
        return Rate(sum(each.faults for each in self.results), self.runs)

    @property
    def no_verdict(self) -> str:
        """Why these results carry no verdict; empty if they do."""
        faults, unjudged = self.faults, len(self.results) - len(self.judged)
        if not self.results:
            return "there are no queries"
        if (faults.value or 0.0) > MAX_FAULTS:
            runs = counted(faults.total, "run")
            return f"{faults.count} of {runs} ended with an error or a timeout; at most a tenth may"
        queries, have = counted(len(self.results), "query", "queries"), agreeing(unjudged, "has", "have")
        return f"{unjudged} of {queries} {have} no run that counts" if unjudged else ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two descriptions on the same queries: how many only one of them passes, and whether that is more than chance."""

    wins: int
    losses: int
    probability: float
    verdict: str
    queries_needed: int | None


def compare(new: SetResult, old: SetResult) -> Comparison:
    """Compare results query by query, by McNemar's exact test; queries that one side could not judge are left out."""
    before = {each.query: each.passed for each in old.judged}
    pairs = [(each.passed, before[each.query]) for each in new.judged if each.query in before]
    wins, losses = pairs.count((True, False)), pairs.count((False, True))
    probability = mcnemar_exact(wins, losses)
    if probability < SIGNIFICANCE:
        return Comparison(wins, losses, probability, "better" if wins > losses else "worse", None)
    total = len(pairs)
    rates = [sum(side is True for side in sides) / total for sides in zip(*pairs, strict=True)] if pairs else []
    needed = cases_for_power(*rates) if rates and rates[0] != rates[1] else None
    return Comparison(wins, losses, probability, "no verdict", needed)
