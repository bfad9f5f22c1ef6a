"""The object of `benchmark.json`: the runs of an iteration and what they add up to.

A case passes in an arm if more than half of its graded runs pass all of their assertions. Cases that come out
differently in both arms decide by McNemar's exact test. Runs of one case depend on each other, so they do not count
as cases. Means are over the graded runs of an arm, as skill-creator computes them. The patterns are after the guide's
"Analyzing patterns".
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

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
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from skills_core.evals.grading.results import EvalRun, RunScore
    from skills_core.evals.statistics import Interval
    from skills_core.format.yaml12 import JsonObject


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


@dataclass(frozen=True, slots=True)
class IterationScores:
    """The scores of the `runs` of an iteration; the first of the `arms` is that of the skill."""

    runs: tuple[RunScore, ...]
    arms: tuple[str, ...]
    baseline: str | None
    comparison: ArmComparison
    patterns: Patterns

    def to_json(self) -> JsonObject:
        """Return the fields of `benchmark.json` that say what the runs add up to."""
        summary: JsonObject = {
            arm: {metric: _spread(run.metric(metric) for run in self.runs if run.arm == arm) for metric in _METRICS}
            for arm in self.arms
        }
        delta: JsonObject = {metric: self._delta(metric) for metric in _METRICS}
        return {
            "run_summary": {**summary, "delta": delta},
            "intervals": self.comparison.to_json(),
            "patterns": self.patterns.to_json(),
        }

    def _delta(self, metric: str) -> float | None:
        """Return the mean difference, with the skill minus the baseline, of the cases that both arms have; else None.

        A case that an arm could not run would otherwise favour it, or the other.
        """
        values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for run in self.runs:
            if (value := run.metric(metric)) is not None:
                values[run.case][run.arm].append(value)
        differences = [
            statistics.fmean(arms[self.arms[0]]) - statistics.fmean(arms[self.baseline])
            for arms in values.values()
            if self.baseline is not None and {self.arms[0], self.baseline} <= arms.keys()
        ]
        return round(statistics.fmean(differences), 4) if differences else None


def score_iteration(runs: Iterable[RunScore], arms: Sequence[str], baseline: str | None) -> IterationScores:
    """Return the scores of runs that have ended; the first of the `arms` is compared with the baseline."""
    found = tuple(runs)
    comparison = compare_arms(found, arms[0], baseline)
    return IterationScores(found, tuple(arms), baseline, comparison, _patterns(found, arms, baseline))


def _spread(values: Iterable[float | None]) -> JsonObject:
    """Return the spread of the known values; nulls if there are none."""
    known = [value for value in values if value is not None]
    if not known:
        return dict.fromkeys(("mean", "stddev", "min", "max"))
    return {name: round(value, 4) for name, value in mean_stddev(known)._asdict().items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmComparison:
    """Both arms compared case by case. `passed` counts passing cases of the `cases` that have gradings in both arms.

    Without a baseline, the cases are those of the only arm. `more_cases` is how many further cases would show a
    difference of this size, None if none or too many would.
    """

    cases: int
    passed: Mapping[str, int]
    wins: int
    losses: int
    p_value: float
    delta: float | None
    interval: Interval | None
    verdict: ArmVerdict
    reason: str
    more_cases: int | None

    def to_json(self) -> JsonObject:
        """Return the object `intervals` of `benchmark.json`."""
        return {
            "cases": {arm: self._passed_to_json(passed) for arm, passed in self.passed.items()},
            "mcnemar": {"wins": self.wins, "losses": self.losses, "p_value": round(self.p_value, 6)},
            "pass_rate_delta": {
                "mean": None if self.delta is None else round(self.delta, 4),
                "interval": None if self.interval is None else _interval(self.interval),
            },
            "verdict": self.verdict.value,
            "reason": self.reason,
            "more_cases": self.more_cases,
        }

    def _passed_to_json(self, passed: int) -> JsonObject:
        rate = round(passed / self.cases, 4) if self.cases else None
        return {
            "passed": passed,
            "total": self.cases,
            "rate": rate,
            "interval": _interval(wilson(passed, self.cases)),
        }


def _interval(interval: Interval) -> JsonObject:
    return {"low": round(interval.low, 4), "high": round(interval.high, 4)}


def compare_arms(runs: Sequence[RunScore], subject: str, baseline: str | None) -> ArmComparison:
    """Return the comparison of the arm with the skill and the baseline."""
    compared = tuple(filter(None, (subject, baseline)))
    cases = [arms for arms in _rates(runs).values() if set(compared) <= arms.keys()]
    passed = {arm: sum(_passes(arms[arm]) for arms in cases) for arm in compared}
    pairs = [(arms[subject], arms[baseline]) for arms in cases] if baseline is not None else []
    wins = sum(_passes(ours) and not _passes(theirs) for ours, theirs in pairs)
    losses = sum(_passes(theirs) and not _passes(ours) for ours, theirs in pairs)
    differences = [statistics.fmean(ours) - statistics.fmean(theirs) for ours, theirs in pairs]
    p_value = mcnemar_exact(wins, losses)
    needed = cases_for_power(*(count / len(pairs) for count in passed.values())) if pairs else None
    more = None if needed is None else max(needed - len(pairs), 1)
    verdict, reason = _verdict(len(pairs), wins, losses, p_value, ungraded(runs), more)
    return ArmComparison(
        cases=len(cases),
        passed=passed,
        wins=wins,
        losses=losses,
        p_value=p_value,
        delta=statistics.fmean(differences) if differences else None,
        interval=paired_bootstrap(differences),
        verdict=verdict,
        reason=reason,
        more_cases=more if verdict is ArmVerdict.NONE else None,
    )


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


@dataclass(frozen=True, slots=True)
class AssertionPattern:
    """An assertion of a case, by the case's folder."""

    case: str
    assertion: str

    def to_json(self) -> JsonObject:
        """Return the pattern for `benchmark.json`."""
        return {"eval": self.case, "assertion": self.assertion}

    def __str__(self) -> str:
        """Return the assertion's name in notes."""
        return f"{self.case}: {self.assertion[:200]!r}"


@dataclass(frozen=True, slots=True)
class Flaky(AssertionPattern):
    """An assertion that passed in some runs of an arm and failed in others."""

    arm: str
    passed: int
    runs: int

    def to_json(self) -> JsonObject:
        """Return the pattern for `benchmark.json`."""
        return {
            "eval": self.case,
            "assertion": self.assertion,
            "configuration": str(self.arm),
            "passed": self.passed,
            "runs": self.runs,
        }


@dataclass(frozen=True, slots=True)
class Outlier:
    """A run that took many times as long, or as many tokens, as the others of its arm."""

    run: RunScore
    metric: str
    value: float
    median: float

    def to_json(self) -> JsonObject:
        """Return the outlier for `benchmark.json`."""
        return {
            "eval": self.run.case,
            "configuration": str(self.run.arm),
            "run_number": self.run.number,
            "metric": self.metric,
            "value": round(self.value, 3),
            "median_of_others": round(self.median, 3),
            "transcript": self.run.transcript or None,
        }


@dataclass(frozen=True, slots=True)
class Patterns:
    """The patterns of an iteration.

    `gained` are assertions that pass in all runs with the skill and in none of the baseline, `lost` the reverse.
    """

    always_pass: tuple[AssertionPattern, ...] = ()
    always_fail: tuple[AssertionPattern, ...] = ()
    gained: tuple[AssertionPattern, ...] = ()
    lost: tuple[AssertionPattern, ...] = ()
    flaky: tuple[Flaky, ...] = ()
    outliers: tuple[Outlier, ...] = ()
    baseline: str | None = None

    def to_json(self) -> JsonObject:
        """Return the object `patterns` of `benchmark.json`."""
        names = ("always_pass", "always_fail", "gained", "lost", "flaky", "outliers")
        return {name: [each.to_json() for each in getattr(self, name)] for name in names}

    def notes(self) -> Iterator[str]:
        """Yield what to do about each pattern, in sentences."""
        without_skill = self.baseline == Arm.WITHOUT_SKILL
        if without_skill:
            for each in self.always_pass:
                yield f"{each} passes in both arms: it shows nothing about the skill; replace or remove it."
        elif self.always_pass:
            # Such an assertion may still show what the skill is worth, and keeps a version from losing it.
            yield f"Assertions that pass with both versions of the skill: {len(self.always_pass)}."
        for each in self.always_fail:
            yield f"{each} fails in both arms: it is wrong, or the case is too hard; fix it."
        other = "without the skill" if without_skill else "with the old version"
        for each in self.lost:
            yield f"{each} passes {other} and fails with the skill: read the transcript."
        for flaky in self.flaky:
            counts = f"{flaky.passed} of {counted(flaky.runs, 'run')} {flaky.arm}"
            yield f"{flaky} passes in {counts}: make the instructions or the assertion more specific."
        for outlier in self.outliers:
            run, what = (
                outlier.run,
                f"{outlier.value / outlier.median:.1f} times the {outlier.metric} of the other runs",
            )
            yield f"{run.case} {run.arm} run {run.number} took {what}: read {run.transcript or 'its transcript'}."


def _patterns(runs: Sequence[RunScore], arms: Sequence[str], baseline: str | None) -> Patterns:
    results = _by_assertion(runs)
    found: dict[tuple[bool, bool], list[AssertionPattern]] = defaultdict(list)
    for (case, text), by_arm in results.items():
        ours, theirs = by_arm.get(arms[0]), by_arm.get(baseline or "")
        # Without runs of both arms there is no comparison.
        if ours and theirs and all(ours) == any(ours) and all(theirs) == any(theirs):
            found[all(ours), all(theirs)].append(AssertionPattern(case, text))
    flaky = (
        Flaky(case, text, arm, sum(passed), len(passed))
        for (case, text), by_arm in results.items()
        for arm, passed in by_arm.items()
        if any(passed) and not all(passed)
    )
    return Patterns(
        always_pass=tuple(found[True, True]),
        always_fail=tuple(found[False, False]),
        gained=tuple(found[True, False]),
        lost=tuple(found[False, True]),
        flaky=tuple(flaky),
        outliers=tuple(_outliers(runs, arms)),
        baseline=baseline,
    )


def _by_assertion(runs: Iterable[RunScore]) -> dict[tuple[str, str], dict[str, list[bool]]]:
    found: dict[tuple[str, str], dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        for result in run.results:
            found[run.case, result.text][run.arm].append(result.passed)
    return found


def _outliers(runs: Sequence[RunScore], arms: Sequence[str]) -> Iterator[Outlier]:
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
                    yield Outlier(run, metric, value, median)


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
