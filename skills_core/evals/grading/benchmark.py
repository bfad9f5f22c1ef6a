"""The object of `benchmark.json`: the runs of an iteration and what they add up to.

A case passes in an arm if more than half of its graded runs pass all of their assertions. Cases that come out
differently in both arms decide by McNemar's exact test. Runs of one case depend on each other, so they do not count
as cases. Means are over the graded runs of an arm, as skill-creator computes them. The patterns are after the guide's
"Analyzing patterns".
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from skills_core.diagnostics import agreeing, counted
from skills_core.evals.grading.results import Arm
from skills_core.evals.statistics import (
    MIN_DISCORDANT,
    SIGNIFICANCE,
    cases_for_power,
    mcnemar_exact,
    mean_stddev,
    paired_bootstrap,
    too_many_failed,
    wilson,
)

if TYPE_CHECKING:
    from skills_core.evals.grading.results import EvalRun, RunScore
    from skills_core.evals.statistics import Interval
    from skills_core.format.yaml12 import JsonObject, JsonValue


_METRICS: Final = ("pass_rate", "time_seconds", "tokens")

OUTLIER_TIMES: Final = 3
"""A run is an outlier if it takes so many times the median of the other runs of its arm."""

_MIN_OTHERS: Final = 2
_MIN_SECONDS: Final = 1.0
# Shorter runs differ by chance, and no one reads their transcripts.


class ArmVerdict(StrEnum):
    """Whether the skill does better than the baseline."""

    BETTER = "better"
    WORSE = "worse"
    NONE = "no verdict"


def score_iteration(runs: Sequence[RunScore], arms: Sequence[str], baseline: str | None) -> JsonObject:
    """Return the fields of `benchmark.json` that say what runs that have ended add up to.

    The first of the `arms` is that of the skill; it is compared with the baseline.
    """
    summary: JsonObject = {
        arm: {metric: _spread(run.metric(metric) for run in runs if run.arm == arm) for metric in _METRICS}
        for arm in arms
    }
    delta: JsonObject = {metric: _delta(runs, metric, arms[0], baseline) for metric in _METRICS}
    return {
        "run_summary": {**summary, "delta": delta},
        "intervals": compare_arms(runs, arms[0], baseline),
        "patterns": _patterns(runs, arms, baseline),
    }


def _delta(runs: Iterable[RunScore], metric: str, subject: str, baseline: str | None) -> float | None:
    """Return the mean difference, with the skill minus the baseline, of the cases that both arms have; else None.

    A case that an arm could not run would otherwise favour it, or the other.
    """
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        if (value := run.metric(metric)) is not None:
            values[run.case][run.arm].append(value)
    differences = [
        statistics.fmean(arms[subject]) - statistics.fmean(arms[baseline])
        for arms in values.values()
        if baseline is not None and {subject, baseline} <= arms.keys()
    ]
    return round(statistics.fmean(differences), 4) if differences else None


def _spread(values: Iterable[float | None]) -> JsonObject:
    """Return the spread of the known values; nulls if there are none."""
    known = [value for value in values if value is not None]
    if not known:
        return dict.fromkeys(("mean", "stddev", "min", "max"))
    return {name: round(value, 4) for name, value in mean_stddev(known)._asdict().items()}


def _passed_to_json(passed: int, total: int) -> JsonObject:
    rate = round(passed / total, 4) if total else None
    return {"passed": passed, "total": total, "rate": rate, "interval": _interval(wilson(passed, total))}


def _interval(interval: Interval) -> JsonObject:
    return {"low": round(interval.low, 4), "high": round(interval.high, 4)}


def compare_arms(runs: Sequence[RunScore], subject: str, baseline: str | None) -> JsonObject:
    """Return the object `intervals` of `benchmark.json`: both arms, compared by the cases that are graded in both.

    Without a baseline, the cases are those of the only arm. `more_cases` is how many further cases would show a
    difference of this size, null if none or too many would.
    """
    compared = tuple(filter(None, (subject, baseline)))
    cases = [arms for arms in _rates(runs).values() if set(compared) <= arms.keys()]
    passed = {arm: sum(_passes(arms[arm]) for arms in cases) for arm in compared}
    pairs = [(arms[subject], arms[baseline]) for arms in cases] if baseline is not None else []
    wins = sum(_passes(ours) and not _passes(theirs) for ours, theirs in pairs)
    losses = sum(_passes(theirs) and not _passes(ours) for ours, theirs in pairs)
    differences = [statistics.fmean(ours) - statistics.fmean(theirs) for ours, theirs in pairs]
    p_value, interval = mcnemar_exact(wins, losses), paired_bootstrap(differences)
    needed = cases_for_power(*(count / len(pairs) for count in passed.values())) if pairs else None
    more = None if needed is None else max(needed - len(pairs), 1)
    verdict, reason = _verdict(len(pairs), wins, losses, p_value, ungraded(runs), more)
    return {
        "cases": {arm: _passed_to_json(count, len(cases)) for arm, count in passed.items()},
        "mcnemar": {"wins": wins, "losses": losses, "p_value": round(p_value, 6)},
        "pass_rate_delta": {
            "mean": round(statistics.fmean(differences), 4) if differences else None,
            "interval": None if interval is None else _interval(interval),
        },
        "verdict": verdict.value,
        "reason": reason,
        "more_cases": more if verdict is ArmVerdict.NONE else None,
    }


def ungraded(runs: Iterable[RunScore]) -> tuple[int, int]:
    """Return how many runs have no grading, of how many that should have one."""
    gradable = [run for run in runs if run.is_gradable]
    return sum(not run.is_graded for run in gradable), len(gradable)


def _rates(runs: Iterable[RunScore]) -> dict[str, dict[str, list[float]]]:
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        if run.rate is not None:
            found[run.case][run.arm].append(run.rate)
    return found


def _passes(rates: Sequence[float]) -> bool:
    return sum(rate == 1 for rate in rates) * 2 > len(rates)


def _verdict(
    cases: int, wins: int, losses: int, p_value: float, lacking: tuple[int, int], more: int | None
) -> tuple[ArmVerdict, str]:
    """Return the verdict and its reason; `lacking` are the runs without a grading, and all runs."""
    if not cases:
        return ArmVerdict.NONE, "No case has assertions that were graded in both arms."
    if too_many_failed(*lacking):
        failed, total = lacking
        have = f"{failed} of {counted(total, 'run')} {agreeing(failed, 'has', 'have')} no grading"
        return ArmVerdict.NONE, f"{have}, more than a tenth; run the command again."
    gained = f"{counted(wins, 'case')} {agreeing(wins, 'passes', 'pass')}"
    counts = f"{gained} only with the skill and {losses} only in the baseline"
    if wins + losses >= MIN_DISCORDANT and p_value < SIGNIFICANCE:
        verdict = ArmVerdict.BETTER if wins > losses else ArmVerdict.WORSE
        return verdict, f"{counts} (p = {p_value:.3g})."
    further = f"about {counted(more, 'more case')} would" if more else "more cases of this kind would hardly"
    if wins + losses < MIN_DISCORDANT:
        why = f"fewer than {MIN_DISCORDANT} that differ cannot show a difference"
    else:
        why = f"that may be chance (p = {p_value:.2g})"
    return ArmVerdict.NONE, f"{counts}: {why}; if the rates stay as they are, {further} show it."


def _patterns(runs: Sequence[RunScore], arms: Sequence[str], baseline: str | None) -> JsonObject:
    """Return the object `patterns` of `benchmark.json`.

    `gained` are assertions that pass in all runs with the skill and in none of the baseline, `lost` the reverse.
    """
    constant: dict[tuple[bool, bool], list[JsonValue]] = defaultdict(list)
    flaky: list[JsonValue] = []
    for (case, text), by_arm in _by_assertion(runs).items():
        assertion: JsonObject = {"eval": case, "assertion": text}
        ours, theirs = by_arm.get(arms[0]), by_arm.get(baseline or "")
        # Without runs of both arms there is no comparison.
        if ours and theirs and all(ours) == any(ours) and all(theirs) == any(theirs):
            constant[all(ours), all(theirs)].append(assertion)
        flaky += [
            {**assertion, "configuration": arm, "passed": sum(passed), "runs": len(passed)}
            for arm, passed in by_arm.items()
            if any(passed) and not all(passed)
        ]
    return {
        "always_pass": constant[True, True],
        "always_fail": constant[False, False],
        "gained": constant[True, False],
        "lost": constant[False, True],
        "flaky": flaky,
        "outliers": list(_outliers(runs, arms)),
    }


def _pattern_notes(patterns: Mapping[str, Any], baseline: Arm) -> Iterator[str]:
    """Yield what to do about each pattern, in sentences."""
    named = {
        name: [f"{each['eval']}: {each['assertion'][:200]!r}" for each in patterns[name]]
        for name in ("always_pass", "always_fail", "lost", "flaky")
    }
    without_skill = baseline is Arm.WITHOUT_SKILL
    if without_skill:
        for assertion in named["always_pass"]:
            yield f"{assertion} passes in both arms: it shows nothing about the skill; replace or remove it."
    elif named["always_pass"]:
        # Such an assertion may still show what the skill is worth, and keeps a version from losing it.
        yield f"Assertions that pass with both versions of the skill: {len(named['always_pass'])}."
    for assertion in named["always_fail"]:
        yield f"{assertion} fails in both arms: it is wrong, or the case is too hard; fix it."
    other = "without the skill" if without_skill else "with the old version"
    for assertion in named["lost"]:
        yield f"{assertion} passes {other} and fails with the skill: read the transcript."
    for assertion, each in zip(named["flaky"], patterns["flaky"], strict=True):
        counts = f"{each['passed']} of {counted(each['runs'], 'run')} {each['configuration']}"
        yield f"{assertion} passes in {counts}: make the instructions or the assertion more specific."
    for each in patterns["outliers"]:
        run = f"{each['eval']} {each['configuration']} run {each['run_number']}"
        times = f"{each['value'] / each['median_of_others']:.1f} times the {each['metric']} of the other runs"
        yield f"{run} took {times}: read {each['transcript'] or 'its transcript'}."


def _by_assertion(runs: Iterable[RunScore]) -> dict[tuple[str, str], dict[str, list[bool]]]:
    found: dict[tuple[str, str], dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        for result in run.results:
            found[run.case, result.text][run.arm].append(result.passed)
    return found


def _outliers(runs: Sequence[RunScore], arms: Sequence[str]) -> Iterator[JsonObject]:
    """Yield the runs that took many times as long, or as many tokens, as the others of their arm."""
    for metric, least in (("time", _MIN_SECONDS), ("tokens", 0.0)):
        for arm in arms:
            values = [(run, run.seconds if metric == "time" else run.tokens) for run in runs if run.arm == arm]
            known = [(run, value) for run, value in values if value]
            for run, value in known:
                others = [other for each, other in known if each is not run]
                if len(others) < _MIN_OTHERS or value < least:
                    continue
                median = statistics.median(others)
                if median and value >= OUTLIER_TIMES * median:
                    yield {
                        "eval": run.case,
                        "configuration": arm,
                        "run_number": run.number,
                        "metric": metric,
                        "value": round(value, 3),
                        "median_of_others": round(median, 3),
                        "transcript": run.transcript or None,
                    }


_NAMED: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkMetadata:
    """What an iteration measured; `model` is the model or the agent's command, `timestamp` in ISO 8601."""

    skill_name: str
    skill_path: str
    iteration: int
    timestamp: str
    runs_per_configuration: int
    model: str
    judge: str | None
    baseline: str | None


def benchmark_of(
    runs: Sequence[EvalRun], baseline: Arm, metadata: BenchmarkMetadata, notes: Sequence[str] = ()
) -> JsonObject:
    """Return the object of `benchmark.json`; `notes` are further remarks."""
    per_arm = metadata.runs_per_configuration
    arms = (Arm.WITH_SKILL.value, baseline.value)
    found: dict[str, Any] = score_iteration([run.score() for run in runs], arms, baseline.value)
    intervals = found["intervals"]
    lacking = [*(f"{run.key}: {run.problem}" for run in runs if run.problem), *_unpaired(runs, baseline)]
    further = [*_load_notes(runs), *notes]
    return {
        "metadata": {
            "skill_name": metadata.skill_name,
            "skill_path": metadata.skill_path,
            "iteration": metadata.iteration,
            "timestamp": metadata.timestamp,
            "runs_per_configuration": per_arm,
            "evals_run": list({run.key.folder: run.case.id for run in runs}.values()),
            "model": metadata.model,
            "executor_model": metadata.model,
            "analyzer_model": metadata.judge,
            "baseline": metadata.baseline,
        },
        "run_summary": found["run_summary"],
        "runs": [_run_to_json(run) for run in runs],
        "notes": [
            f"Verdict: {intervals['verdict']}. {intervals['reason']}",
            *lacking,
            *_pattern_notes(found["patterns"], baseline),
            *further,
        ],
        # The notes that `intervals` and `patterns` do not say.
        "remarks": [*lacking, *further],
        "intervals": intervals,
        "patterns": found["patterns"],
    }


def _load_notes(runs: Sequence[EvalRun]) -> Iterator[str]:
    """Yield a remark for each arm in which agents had the skill and did not load it."""
    for arm in Arm:
        told = [run for run in runs if run.key.arm is arm and run.outcome.skill_loaded is not None]
        if left := [str(run.key) for run in told if not run.outcome.skill_loaded]:
            named = ", ".join(left[:_NAMED]) + (", …" if len(left) > _NAMED else "")
            yield (
                f"{arm}: {len(left)} of {counted(len(told), 'run')} never loaded the skill and "
                f"{agreeing(len(left), 'measures', 'measure')} nothing of it ({named}); "
                "test its description with `skillserve triggers`."
            )


def _unpaired(runs: Sequence[EvalRun], baseline: Arm) -> Iterator[str]:
    graded = {arm: {run.key.folder for run in runs if run.key.arm is arm and not run.problem} for arm in Arm}
    if single := sorted(graded[Arm.WITH_SKILL] ^ graded[baseline]):
        yield (
            f"Only one arm has graded runs of {', '.join(single)}: the means of the arms are of different cases, and "
            "the delta leaves these out."
        )


def _run_to_json(run: EvalRun) -> JsonObject:
    results = run.results or ()
    passed = sum(each.passed for each in results)
    return {
        "eval_id": run.case.id,
        "eval_name": run.case.name or run.case.slug,
        "configuration": run.key.arm.value,
        "run_number": run.key.number,
        "result": {
            "pass_rate": None if run.pass_rate is None else round(run.pass_rate, 4),
            "passed": passed,
            "failed": len(results) - passed,
            "total": len(results),
            "time_seconds": run.outcome.duration_ms / 1000,
            "tokens": run.outcome.total_tokens,
            "tool_calls": run.outcome.tool_calls,
            "errors": int(bool(run.problem)),
        },
        "expectations": [{"text": each.text, "passed": each.passed, "evidence": each.evidence} for each in results],
        "notes": [*([run.problem] if run.problem else []), *run.outcome.notes],
    }
