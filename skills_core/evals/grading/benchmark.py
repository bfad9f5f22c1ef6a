"""Aggregate the runs of an iteration into `benchmark.json`.

Means are over the graded runs of an arm, as skill-creator computes them; errors and timeouts are counted apart. The
delta pairs cases: one that an arm could not run would otherwise favour it, or the other.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Final

from skills_core.diagnostics import agreeing, counted
from skills_core.evals.grading.patterns import find_patterns
from skills_core.evals.grading.results import Arm
from skills_core.evals.grading.verdict import compare_arms
from skills_core.evals.statistics import mean_stddev

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from skills_core.evals.grading.results import EvalRun
    from skills_core.run.ports import JsonObject

__all__ = ["BenchmarkMetadata", "benchmark_of"]

_METRICS: Final = ("pass_rate", "time_seconds", "tokens")
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
    runs: Sequence[EvalRun],
    baseline: Arm,
    metadata: BenchmarkMetadata,
    transcripts: Mapping[tuple[str, Arm, int], str],
    notes: Sequence[str] = (),
) -> JsonObject:
    """Return the object of `benchmark.json`; `transcripts` are paths by run, `notes` further remarks."""
    summary: JsonObject = {
        arm.value: {
            metric: _spread([_metric(run, metric) for run in runs if run.key.arm is arm]) for metric in _METRICS
        }
        for arm in (Arm.WITH_SKILL, baseline)
    }
    patterns, comparison = find_patterns(runs), compare_arms(runs, baseline)
    lacking = [*(f"{run.key}: {run.problem}" for run in runs if run.problem), *_unpaired(runs, baseline)]
    further = [*_load_notes(runs), *notes]
    return {
        "metadata": {
            "skill_name": metadata.skill_name,
            "skill_path": metadata.skill_path,
            "iteration": metadata.iteration,
            "timestamp": metadata.timestamp,
            "runs_per_configuration": metadata.runs_per_configuration,
            "evals_run": list({run.key.folder: run.case.id for run in runs}.values()),
            "model": metadata.model,
            "executor_model": metadata.model,
            "analyzer_model": metadata.judge,
            "baseline": metadata.baseline,
        },
        "run_summary": {**summary, "delta": {metric: _delta(runs, baseline, metric) for metric in _METRICS}},
        "runs": [_run_to_json(run) for run in runs],
        "notes": [
            f"Verdict: {comparison.verdict}. {comparison.reason}",
            *lacking,
            *patterns.notes(transcripts),
            *further,
        ],
        # The notes that `intervals` and `patterns` do not say.
        "remarks": [*lacking, *further],
        "intervals": comparison.to_json(),
        "patterns": patterns.to_json(transcripts),
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


def _metric(run: EvalRun, metric: str) -> float | None:
    if run.problem:
        return None
    if metric == "pass_rate":
        return run.pass_rate
    return run.outcome.duration_ms / 1000 if metric == "time_seconds" else run.outcome.total_tokens


def _spread(values: Sequence[float | None]) -> JsonObject:
    """Return the spread of the known values; nulls if there are none."""
    known = [value for value in values if value is not None]
    if not known:
        return dict.fromkeys(("mean", "stddev", "min", "max"))
    return {name: round(value, 4) for name, value in mean_stddev(known)._asdict().items()}


def _delta(runs: Sequence[EvalRun], baseline: Arm, metric: str) -> float | None:
    """Return the mean difference, with the skill minus the baseline, of the cases that both arms have; else None."""
    values: dict[str, dict[Arm, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        if (value := _metric(run, metric)) is not None:
            values[run.key.folder][run.key.arm].append(value)
    differences = [
        fmean(arms[Arm.WITH_SKILL]) - fmean(arms[baseline])
        for arms in values.values()
        if {Arm.WITH_SKILL, baseline} <= arms.keys()
    ]
    return round(fmean(differences), 4) if differences else None


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
