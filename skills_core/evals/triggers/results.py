"""Results of trigger tests: outcomes of runs, results of queries and sets, and the rounds of an optimization.

The report and the commands judge by these types as well. The JSON is that of the published guides and of skill-creator,
with intervals and errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Final

from skills_core.diagnostics import agreeing, counted
from skills_core.evals.agents.kind import ANY_SKILL
from skills_core.evals.statistics import DIGITS, Interval, rounded, too_many_failed, wilson

if TYPE_CHECKING:
    from skills_core.evals.agents.kind import AgentRun, Transcript
    from skills_core.evals.triggers.parts import Part
    from skills_core.evals.triggers.queries import Query
    from skills_core.format.yaml12 import JsonValue

_MOST_RUNS: Final = 200


class Outcome(StrEnum):
    """How a run ended, as far as the skill is concerned."""

    LOADED = "loaded"
    NOT_LOADED = "not_loaded"
    DENIED = "denied"
    ERROR = "error"
    TIMEOUT = "timeout"


FAULTS: Final = (Outcome.ERROR, Outcome.TIMEOUT)
"""Outcomes that say nothing about the skill, and so do not count as runs."""


def is_decided(transcript: Transcript, skill: str, max_calls: int) -> bool:
    """Tell whether the outcome is clear while the agent still works."""
    return skill in transcript.loaded or transcript.is_error or transcript.tool_calls >= max_calls


def outcome_of(run: AgentRun, skill: str, *, installed: bool) -> tuple[Outcome, str]:
    """Return the outcome of a run, and the reason if there is one to tell.

    `installed` tells that the skill lies in the agent's own folder of skills.
    """
    return next((outcome, why) for applies, outcome, why in _rules(run, skill, installed=installed) if applies)


def _rules(run: AgentRun, skill: str, *, installed: bool) -> Iterator[tuple[bool, Outcome, str]]:
    """Yield possible outcomes with whether they apply; the first that does counts."""
    record, said = run.transcript, run.errors or "it gave no message"
    listed = record.available if installed else None
    yield skill in record.loaded, Outcome.LOADED, ""
    yield run.timed_out, Outcome.TIMEOUT, f"the run took longer than {run.seconds:.0f} seconds"
    yield record.is_error, Outcome.ERROR, record.error
    yield bool(run.fault), Outcome.ERROR, run.fault
    denied = skill in record.denied or ANY_SKILL in record.denied
    yield denied, Outcome.DENIED, "the agent wanted to load the skill, and a permission stopped it"
    failure = f"the agent's own tool failed to load the skill: {record.failed.get(skill) or 'it gave no reason'}"
    yield skill in record.failed, Outcome.ERROR, failure
    ended = f"the agent ended with exit code {run.exit_code}: {said}"
    yield run.exit_code not in {0, None}, Outcome.ERROR, ended
    unread = f"nothing that the agent printed can be read as its record: {said}"
    yield not record.recognized, Outcome.ERROR, unread
    absent = listed is not None and skill not in listed
    yield absent, Outcome.ERROR, "the agent does not list the skill among those that it has"
    twice = listed is not None and listed.count(skill) > 1
    yield twice, Outcome.ERROR, "the agent lists two skills of this name"
    yield True, Outcome.NOT_LOADED, ""


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


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What became of the runs of one query, or of its ranking.

    `rate` is the trigger rate: how many of the runs that count loaded the skill. `errors` are runs that do not count.
    `passed` is None if no run counts. `transcripts` are paths, in the order of `outcomes`.
    `seen` says in words what the counts do not, and `error` why there are none.
    """

    query: Query
    rate: Rate
    errors: int = 0
    denied: int = 0
    passed: bool | None = None
    outcomes: tuple[str, ...] = ()
    transcripts: tuple[str, ...] = ()
    seen: str = ""
    error: str = ""


def query_result(
    query: Query, outcomes: Sequence[Outcome], threshold: float = 0.5, transcripts: tuple[str, ...] = ()
) -> QueryResult:
    """Return the result of a query from the outcomes of its runs."""
    errors = sum(outcome in FAULTS for outcome in outcomes)
    rate = Rate(outcomes.count(Outcome.LOADED), len(outcomes) - errors)
    share, should = rate.value, query.should_trigger
    passed = None if share is None else passes(share, should_trigger=should, threshold=threshold)
    return QueryResult(query, rate, errors, outcomes.count(Outcome.DENIED), passed, tuple(outcomes), transcripts)


def passes(rate: float, *, should_trigger: bool, threshold: float) -> bool:
    """Tell whether a trigger rate is on the right side of the threshold; a rate equal to it is on neither side."""
    return rate > threshold if should_trigger else rate < threshold


def runs_needed(rate: Rate, threshold: float) -> int | None:
    """Return how many runs with this rate would show on which side of the threshold it is.

    None if these runs show it already, or no number that is worth its cost would.
    """
    if not rate.total or not _covers(rate.interval, threshold):
        return None
    return _runs_for(rate.count, rate.total, threshold)


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

    results: tuple[QueryResult, ...] = ()

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
        """How many of the queries that should not trigger do so all the same: the false alarms."""
        right = self._share(should_trigger=False)
        return Rate(right.total - right.count, right.total)

    def _share(self, *, should_trigger: bool) -> Rate:
        chosen = [each for each in self.judged if each.query.should_trigger is should_trigger]
        return Rate(sum(each.passed is True for each in chosen), len(chosen))

    @property
    def faults(self) -> Rate:
        """How many of the runs ended with an error or a timeout."""
        errors = sum(each.errors for each in self.results)
        return Rate(errors, errors + sum(each.rate.total for each in self.results))

    @property
    def no_verdict(self) -> str:
        """Why these results carry no verdict; empty if they do."""
        faults, unjudged = self.faults, len(self.results) - len(self.judged)
        if not self.results:
            return "there are no queries"
        if too_many_failed(faults.count, faults.total):
            runs = counted(faults.total, "run")
            return f"{faults.count} of {runs} ended with an error or a timeout; at most a tenth may"
        queries, have = counted(len(self.results), "query", "queries"), agreeing(unjudged, "has", "have")
        return f"{unjudged} of {queries} {have} no run that counts" if unjudged else ""


@dataclass(frozen=True, slots=True)
class Round:
    """A description with its results in training and validation; round 0 has the old description."""

    number: int
    description: str
    train: SetResult
    validation: SetResult


def best_round(rounds: Sequence[Round]) -> Round:
    """Return the round that passes most of validation; of equal ones the earlier, then the shorter."""
    usable = [each for each in rounds if not each.validation.no_verdict] or rounds[:1]
    return min(usable, key=lambda each: (-(each.validation.passed.value or 0.0), each.number, len(each.description)))


def loaded_by_kind(recall: Rate, false_alarms: Rate, did: str = "loaded it") -> tuple[str, str]:
    """Return in words how many queries of each kind loaded the skill."""
    count = false_alarms.count
    alarms = f": {counted(count, 'false alarm')}" if count else ""
    return (
        f"of {recall.total} that should load the skill, {recall.count or 'none'} {did}",
        f"of {false_alarms.total} that should not, {count or 'none'} {did}{alarms}",
    )


def query_object(result: QueryResult, threshold: float, part: Part | None = None) -> dict[str, JsonValue]:
    """Return the JSON object of the result of a query."""
    query, rate = result.query, result.rate
    found: dict[str, JsonValue] = {
        "id": query.id,
        "query": query.text,
        "should_trigger": query.should_trigger,
        "runs": rate.total,
        "triggers": rate.count,
        "errors": result.errors,
        "denied": result.denied,
        "outcomes": list(result.outcomes),
        "transcripts": list(result.transcripts),
        "trigger_rate": rounded(rate.value),
        "pass": result.passed,
        "interval": interval_list(rate.interval),
        "runs_needed": runs_needed(rate, threshold),
    }
    if part is not None:
        found["split"] = part.value
    return found


def set_object(results: SetResult, threshold: float) -> dict[str, JsonValue]:
    """Return the JSON object of a set: its summary and the results of its queries."""
    return {**summary_object(results), "results": [query_object(each, threshold) for each in results.results]}


def summary_object(results: SetResult) -> dict[str, JsonValue]:
    """Return the JSON object of the summary of a set."""
    passed, judged = results.passed, results.passed.total
    return {
        "total": len(results.results),
        "passed": passed.count,
        "failed": judged - passed.count,
        "no_verdict": len(results.results) - judged,
        "pass_rate": rounded(passed.value),
        "interval": interval_list(passed.interval),
        "recall": _rate(results.recall),
        "false_positive_rate": _rate(results.false_positives),
        "runs": results.faults.total,
        "errors": results.faults.count,
        "verdict": _verdict(results),
        "reason": results.no_verdict or None,
    }


def _verdict(results: SetResult) -> str:
    if results.no_verdict:
        return "no verdict"
    return "pass" if results.passed.count == results.passed.total else "fail"


def round_object(each: Round, threshold: float) -> dict[str, JsonValue]:
    """Return the JSON object of a round."""
    return {
        "number": each.number,
        "description": each.description,
        "characters": len(each.description),
        "train": summary_object(each.train),
        "validation": summary_object(each.validation),
        "results": [query_object(result, threshold) for result in (*each.train.results, *each.validation.results)],
    }


def _rate(rate: Rate) -> dict[str, JsonValue]:
    return {
        "count": rate.count,
        "total": rate.total,
        "rate": rounded(rate.value),
        "interval": interval_list(rate.interval),
    }


def interval_list(interval: Interval) -> list[JsonValue]:
    """Return the ends of an interval as files of results have them."""
    return [round(interval.low, DIGITS), round(interval.high, DIGITS)]
