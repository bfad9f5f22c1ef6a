"""The JSON shape of trigger results: that of the published guides and skill-creator, with intervals and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skills_core.evals.statistics import Interval
    from skills_core.evals.triggers.rounds import Decision, Round
    from skills_core.evals.triggers.split import Part
    from skills_core.evals.triggers.verdicts import Comparison, QueryResult, Rate, SetResult
    from skills_core.format.yaml12 import JsonValue

__all__ = ["comparison_object", "decision_object", "query_object", "round_object", "summary_object"]

_DIGITS = 4


def query_object(result: QueryResult, part: Part | None = None) -> dict[str, JsonValue]:
    """Return the result of a query."""
    query, rate = result.query, result.rate
    found: dict[str, JsonValue] = {
        "id": query.id,
        "query": query.query,
        "should_trigger": query.should_trigger,
        "runs": rate.total,
        "triggers": rate.count,
        "errors": result.faults,
        "denied": result.denied,
        "outcomes": [outcome.value for outcome in result.outcomes],
        "transcripts": list(result.transcripts),
        "trigger_rate": _rounded(rate.value),
        "pass": result.passed,
        "interval": _interval(rate.interval),
        "runs_needed": result.runs_needed,
    }
    if part is not None:
        found["split"] = part.value
    return found


def summary_object(results: SetResult) -> dict[str, JsonValue]:
    """Return the summary of a set."""
    passed, judged = results.passed, results.passed.total
    return {
        "total": len(results.results),
        "passed": passed.count,
        "failed": judged - passed.count,
        "no_verdict": len(results.results) - judged,
        "pass_rate": _rounded(passed.value),
        "interval": _interval(passed.interval),
        "recall": _rate(results.recall),
        "false_positive_rate": _rate(results.false_positives),
        "runs": results.runs,
        "errors": results.faults.count,
        "verdict": _verdict(results),
        "reason": results.no_verdict or None,
    }


def _verdict(results: SetResult) -> str:
    if results.no_verdict:
        return "no verdict"
    return "pass" if results.passed.count == results.passed.total else "fail"


def round_object(each: Round) -> dict[str, JsonValue]:
    """Return a round."""
    return {
        "number": each.number,
        "description": each.description,
        "characters": len(each.description),
        "train": summary_object(each.train),
        "validation": summary_object(each.validation),
        "results": [query_object(result) for result in (*each.train.results, *each.validation.results)],
    }


def decision_object(
    decision: Decision, description: str, tests: Mapping[str, SetResult], best: Round
) -> dict[str, JsonValue]:
    """Return the decision; `tests` are the results of the sealed test, empty if it was not opened."""
    return {
        "best_round": best.number,
        "best_description": best.description,
        "description": description,
        "adopted": decision.adopted,
        "reason": decision.reason,
        "test": {
            "opened": bool(tests),
            **{name: _with_results(results) for name, results in tests.items()},
            "comparison": comparison_object(decision.comparison),
        },
    }


def comparison_object(comparison: Comparison | None) -> JsonValue:
    """Return a comparison of two descriptions."""
    if comparison is None:
        return None
    return {
        "wins": comparison.wins,
        "losses": comparison.losses,
        "p": round(comparison.probability, _DIGITS),
        "verdict": comparison.verdict,
        "queries_needed": comparison.queries_needed,
    }


def _with_results(results: SetResult) -> dict[str, JsonValue]:
    return {**summary_object(results), "results": [query_object(each) for each in results.results]}


def _rate(rate: Rate) -> dict[str, JsonValue]:
    return {
        "count": rate.count,
        "total": rate.total,
        "rate": _rounded(rate.value),
        "interval": _interval(rate.interval),
    }


def _interval(interval: Interval) -> list[JsonValue]:
    return [round(interval.low, _DIGITS), round(interval.high, _DIGITS)]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)
