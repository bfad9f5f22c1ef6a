"""The object of `benchmark.json`: the runs of an iteration, and what they add up to.

Means are over the graded runs of an arm, as skill-creator computes them; errors and timeouts are counted apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skills_core.diagnostics import agreeing, counted
from skills_core.evals.grading.results import Arm
from skills_core.evals.grading.scores import score_iteration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from skills_core.evals.grading.results import EvalRun
    from skills_core.format.yaml12 import JsonObject

__all__ = ["BENCHMARK_FILE", "BenchmarkMetadata", "benchmark_of"]

BENCHMARK_FILE: Final = "benchmark.json"
"""The file in the folder of an iteration."""

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
    scores = score_iteration([run.score(per_arm) for run in runs], arms, baseline.value)
    comparison, found = scores.comparison, scores.to_json()
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
            f"Verdict: {comparison.verdict}. {comparison.reason}",
            *lacking,
            *scores.patterns.notes(),
            *further,
        ],
        # The notes that `intervals` and `patterns` do not say.
        "remarks": [*lacking, *further],
        "intervals": found["intervals"],
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
