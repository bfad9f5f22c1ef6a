"""The object of `benchmark.json`: the runs of an iteration and what they add up to.

The verdict and its figures are in `effect`. Means of `run_summary` are over the graded runs of an arm, as skill-creator
computes them. The patterns are after the guide's "Analyzing patterns".
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from skills_core.diagnostics import agreeing, counted
from skills_core.evals.grading.effect import effect_of
from skills_core.evals.grading.results import Arm
from skills_core.evals.statistics import mean_stddev

if TYPE_CHECKING:
    from skills_core.evals.grading.results import EvalRun, RunScore
    from skills_core.format.yaml12 import JsonObject, JsonValue


_METRICS: Final = ("pass_rate", "time_seconds", "tokens")

OUTLIER_TIMES: Final = 3
"""A run is an outlier if it takes so many times the median of the other runs of its arm."""

_MIN_OTHERS: Final = 2
_MIN_SECONDS: Final = 1.0
# Shorter runs differ by chance, and no one reads their transcripts.


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
        "effect": effect_of(runs, arms[0], baseline),
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


def _patterns(runs: Sequence[RunScore], arms: Sequence[str], baseline: str | None) -> JsonObject:
    """Return the object `patterns` of `benchmark.json`.

    `gained` are assertions that pass in all runs with the skill and in none of the baseline, `lost` the reverse.
    `changed` are all that pass more or less often than in the baseline, those that differ most first.
    """
    changed: list[JsonObject] = []
    constant: dict[tuple[bool, bool], list[JsonValue]] = defaultdict(list)
    flaky: list[JsonValue] = []
    for (case, text), by_arm in _by_assertion(runs).items():
        assertion: JsonObject = {"eval": case, "assertion": text}
        ours, theirs = by_arm.get(arms[0]), by_arm.get(baseline or "")
        # Without runs of both arms there is no comparison.
        if baseline is not None and ours and theirs and (gain := round(_share(ours) - _share(theirs), 4)):
            counts: JsonObject = {arms[0]: _counts(ours), baseline: _counts(theirs)}
            changed.append({**assertion, "difference": gain, **counts})
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
        "changed": [*sorted(changed, key=_size_of_change, reverse=True)],
        "flaky": flaky,
        "outliers": list(_outliers(runs, arms)),
    }


def _share(passed: Sequence[bool]) -> float:
    return sum(passed) / len(passed)


def _counts(passed: Sequence[bool]) -> JsonObject:
    return {"passed": sum(passed), "runs": len(passed)}


def _size_of_change(changed: Mapping[str, Any]) -> float:
    return abs(float(changed["difference"]))


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
    effect = found["effect"]
    lacking = [*(f"{run.key}: {run.problem}" for run in runs if run.problem), *_unpaired(runs, baseline)]
    further = [*_repeat_notes(runs), *_load_notes(runs), *notes]
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
            f"Verdict: {effect['verdict']}. {effect['reason']}",
            *lacking,
            *_pattern_notes(found["patterns"], baseline),
            *further,
        ],
        # The notes that `effect` and `patterns` do not say.
        "remarks": [*lacking, *further],
        "effect": effect,
        "patterns": found["patterns"],
    }


def _repeat_notes(runs: Sequence[EvalRun]) -> Iterator[str]:
    """Yield a remark for each arm in which runs failed before they came to an end."""
    for arm in Arm:
        ours = [run for run in runs if run.key.arm is arm]
        if repeated := sum(run.outcome.attempt > 1 for run in ours):
            yield (
                f"{arm}: {repeated} of {counted(len(ours), 'run')} failed before and "
                f"{agreeing(repeated, 'was', 'were')} repeated. "
                "A repetition is not independent of the failure, so `failures_as_zero` counts it as 0."
            )


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
