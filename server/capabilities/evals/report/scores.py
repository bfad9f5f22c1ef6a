"""What the results add up to: the scores of an iteration as `benchmark.json` has them, and how numbers are shown.

Only where no eval of ours has written them (the work runs, or another tool did it), the runs are scored here, by the
same rules. Runs that ended in an error or a timeout count in no rate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from server.capabilities.evals.report.folder import count, number, text
from server.capabilities.evals.report.model import (
    ArmScore,
    Bound,
    CaseScore,
    CheckScore,
    Pairing,
    PatternRow,
    Scores,
    ShownVerdict,
    Status,
    Tone,
)
from server.html.words import UNKNOWN, amount
from skills_core.diagnostics import counted
from skills_core.evals.agents.kind import record, records
from skills_core.evals.grading.benchmark import score_iteration
from skills_core.evals.grading.results import RunScore
from skills_core.evals.statistics import Interval, Spread

if TYPE_CHECKING:
    from server.capabilities.evals.report.model import Case, Iteration, Run


def points(value: float) -> str:
    """Return a difference of rates in percentage points, as in `+25 points`."""
    number = round(value * 100)
    return f"{_signed(number)}\u00a0{'point' if abs(number) == 1 else 'points'}"


def points_interval(interval: tuple[float, float] | None) -> str:
    """Return a 95 % interval of a difference of rates; empty if there is none."""
    if interval is None:
        return ""
    return f"(95\u00a0%: {_signed(round(interval[0] * 100))} to {_signed(round(interval[1] * 100))})"


def difference(value: float | None) -> str:
    """Return a difference of seconds or tokens."""
    if value is None:
        return UNKNOWN
    shown = amount(value)
    return f"+{shown}" if value > 0 and shown != "0.0" else shown.replace("-0.0", "0.0")


def _signed(value: int) -> str:
    return f"{value:+d}" if value else "0"


def spread_text(spread: Spread | None, shown: Callable[[float], str]) -> str:
    """Return a mean, with its standard deviation if the values differ."""
    if spread is None:
        return UNKNOWN
    return shown(spread.mean) + (f" ± {shown(spread.stddev)}" if spread.stddev else "")


def interval_text(interval: tuple[float, float] | None) -> str:
    """Return a 95 % interval of rates; empty if there is none."""
    return "" if interval is None else f"(95\u00a0%: {interval[0]:.2f} to {interval[1]:.2f})"


_VERDICTS: Final = {
    "better": (Tone.GOOD, "Better"),
    "worse": (Tone.BAD, "Worse"),
    "no verdict": (Tone.NONE, "No verdict"),
}

_KINDS: Final = {
    "lost": "only without",
    "always_fail": "always fails",
    "always_pass": "always passes",
    "flaky": "flaky",
    "outliers": "outlier",
    "gained": "only with the skill",
}


def read_verdict(values: Mapping[str, Any]) -> ShownVerdict | None:
    """Return the verdict in an object with `verdict` and `reason`; None if it does not say both."""
    known, reason = _VERDICTS.get(text(values.get("verdict"))), text(values.get("reason"))
    return ShownVerdict(*known, reason) if known and reason else None


def read_scores(benchmark: Mapping[str, Any], iteration: Iteration) -> Scores:
    """Return the scores in a `benchmark.json`; those of the runs if it is not a whole one of ours."""
    recorded = record(benchmark.get("effect"))
    is_ours = all(isinstance(benchmark.get(name), dict) for name in ("run_summary", "patterns"))
    values = benchmark if is_ours and record(recorded.get("arms")) else _scored(iteration)
    summary, effect = record(values.get("run_summary")), record(values.get("effect"))
    return Scores(
        arms=tuple(_arm(iteration, arm, record(summary.get(arm)), effect) for arm in iteration.arms),
        pairing=_pairing(iteration, effect, record(summary.get("delta"))),
        # Another tool may have a verdict of its own, which counts.
        verdict=read_verdict(recorded) or read_verdict(effect) or Scores().verdict,
        patterns=tuple(_patterns(record(values.get("patterns")), iteration)),
    )


def _scored(iteration: Iteration) -> Mapping[str, Any]:
    if not iteration.arms:
        return {}
    return score_iteration(run_scores(iteration), iteration.arms, iteration.baseline)


def run_scores(iteration: Iteration) -> list[RunScore]:
    """Return the runs that have ended, as they count."""
    runs = [(case, run) for case in iteration.cases for run in case.runs if run.status is not Status.PENDING]
    return [_run_score(iteration, case, run) for case, run in runs]


def _run_score(iteration: Iteration, case: Case, run: Run) -> RunScore:
    gradable = run.failed or run.graded or bool(case.assertions)
    return RunScore(
        case=case.key,
        arm=run.arm,
        number=run.number,
        results=() if run.failed else run.checks,
        rate=run.rate if run.graded else None,
        seconds=None if run.failed else run.seconds,
        tokens=None if run.failed else run.tokens,
        is_gradable=gradable,
        is_graded=run.graded or not gradable,
        is_repeated=run.attempt > 1,
        loaded=run.skill_loaded,
        cost_usd=run.cost,
        transcript=f"{run.path}/transcript.jsonl".removeprefix(f"{iteration.folder}/") if run.transcript else "",
    )


def _arm(iteration: Iteration, arm: str, summary: Mapping[str, Any], effect: Mapping[str, Any]) -> ArmScore:
    runs = [run for case in iteration.cases for run in case.of(arm)]
    ours = record(record(effect.get("arms")).get(arm))
    costs = [run.cost for run in runs if run.cost is not None]
    return ArmScore(
        arm=arm,
        runs=len(runs),
        graded=sum(run.graded for run in runs),
        failed=sum(run.failed for run in runs),
        rate=_spread(summary.get("pass_rate")),
        mean=number(ours.get("mean")),
        interval=_interval(ours.get("interval")),
        error_interval=_interval(ours.get("error_rate_interval")) if ours.get("runs") else None,
        seconds=_spread(summary.get("time_seconds")),
        tokens=_spread(summary.get("tokens")),
        cost=sum(costs) if costs else None,
    )


def _spread(values: Any) -> Spread | None:  # noqa: ANN401 - JSON
    mean, *others = (number(record(values).get(name)) for name in ("mean", "stddev", "min", "max"))
    return None if mean is None else Spread(mean, *(each or 0.0 for each in others))


def _interval(values: Any) -> Interval | None:  # noqa: ANN401 - JSON
    low, high = number(record(values).get("low")), number(record(values).get("high"))
    return None if low is None or high is None else Interval(low, high)


def _pairing(iteration: Iteration, effect: Mapping[str, Any], delta: Mapping[str, Any]) -> Pairing | None:
    cases, bound, treated = count(effect.get("cases")), _bound(effect), effect.get("as_treated")
    if iteration.baseline is None or not cases or bound.difference is None:
        return None
    return Pairing(
        cases=cases,
        difference=bound.difference,
        interval=bound.interval,
        probability=1.0 if bound.probability is None else bound.probability,
        method=text(effect.get("method")),
        failures_as_zero=_bound(effect.get("failures_as_zero")),
        as_treated=_bound(treated) if isinstance(treated, dict) else None,
        not_loaded=count(record(treated).get("not_loaded")) or 0,
        by_case=tuple(_case_scores(effect, iteration.subject, iteration.baseline)),
        more_cases=count(effect.get("more_cases")),
        gain=number(effect.get("gain")),
        seconds=number(delta.get("time_seconds")),
        tokens=number(delta.get("tokens")),
    )


def _bound(values: Any) -> Bound:  # noqa: ANN401 - JSON
    found = record(values)
    return Bound(number(found.get("mean")), _interval(found.get("interval")), number(found.get("p_value")))


def _case_scores(effect: Mapping[str, Any], subject: str, baseline: str) -> Iterator[CaseScore]:
    for each in records(effect.get("by_case")):
        ours, theirs = number(each.get(subject)), number(each.get(baseline))
        if ours is not None and theirs is not None:
            yield CaseScore(text(each.get("eval")), ours, theirs)


def _patterns(values: Mapping[str, Any], iteration: Iteration) -> Iterator[PatternRow]:
    """Yield what to look at first: assertions that say nothing, flaky ones, runs that took long; then what is gained.

    There is one row for each kind and case, in the order of the cases.
    """
    for field, kind in _KINDS.items():
        found: dict[tuple[str, str], list[str]] = {}
        for each in records(values.get(field)):
            unit = _unit(each)
            found.setdefault((f"{kind} in {unit}" if unit else kind, text(each.get("eval"))), []).append(
                _outlier(each, unit, iteration) if unit else _assertion(each)
            )
        for kind_shown in sorted({kind for kind, _ in found}):
            for case in iteration.cases:
                if lines := found.get((kind_shown, case.key)):
                    yield PatternRow(kind_shown, case.name, tuple(lines))


def _unit(values: Mapping[str, Any]) -> str:
    return {"time": "seconds", "tokens": "tokens"}.get(text(values.get("metric")), "")


def _assertion(values: Mapping[str, Any]) -> str:
    shown, runs = text(values.get("assertion")), count(values.get("runs"))
    if not runs:
        return shown
    arm = text(values.get("configuration")).replace("_", " ")
    return f"{shown} ({count(values.get('passed'))} of {counted(runs, 'run')} {arm})"


def _outlier(values: Mapping[str, Any], unit: str, iteration: Iteration) -> str:
    value, median = number(values.get("value")) or 0.0, number(values.get("median_of_others")) or 0.0
    times = f", {value / median:.1f} times the median of the others, {median:,.1f}" if median else ""
    place = text(values.get("transcript"))
    read = f"; read {f'{iteration.folder}/{place}'.lstrip('/')}" if place else ""
    arm = text(values.get("configuration")).replace("_", " ")
    return f"run {text(values.get('run_number'))} {arm}: {value:,.1f} {unit}{times}{read}"


def check_scores(case: Case, arms: Sequence[str]) -> tuple[CheckScore, ...]:
    """Return how often each assertion passed, in their order in the case."""
    names = dict.fromkeys(case.assertions)
    for run in case.runs:
        names |= dict.fromkeys(check.text for check in run.checks)
    return tuple(CheckScore(name, tuple((arm, *_passed(case, arm, name)) for arm in arms)) for name in names)


def _passed(case: Case, arm: str, name: str) -> tuple[int, int]:
    runs = (run for run in case.of(arm) if not run.failed)
    grades = [check.passed for run in runs for check in run.checks if check.text == name]
    return sum(grades), len(grades)
