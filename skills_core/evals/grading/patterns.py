"""Patterns that averages hide: assertions that say nothing about the skill, flaky ones, and outliers.

After the guide's "Analyzing patterns".
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skills_core.diagnostics import counted
from skills_core.evals.grading.results import Arm

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from skills_core.evals.grading.results import EvalRun
    from skills_core.run.ports import JsonObject

__all__ = ["OUTLIER_TIMES", "Flaky", "Outlier", "Pattern", "Patterns", "find_patterns"]

OUTLIER_TIMES: Final = 3
"""A run is an outlier if it takes so many times the median of the other runs of its arm."""

_MIN_OTHERS: Final = 2
_MIN_SECONDS: Final = 1.0
# Shorter runs differ by chance, and no one reads their transcripts.


@dataclass(frozen=True, slots=True)
class Pattern:
    """An assertion of a case, by the case's folder."""

    folder: str
    assertion: str


@dataclass(frozen=True, slots=True)
class Flaky(Pattern):
    """An assertion that passed in some runs of an arm and failed in others."""

    arm: Arm
    passed: int
    runs: int


@dataclass(frozen=True, slots=True)
class Outlier:
    """A run that took many times as long, or as many tokens, as the others of its arm."""

    folder: str
    arm: Arm
    number: int
    metric: str
    value: float
    median: float

    @property
    def times(self) -> float:
        """How many times the median of the others it took."""
        return self.value / self.median


@dataclass(frozen=True, slots=True)
class Patterns:
    """The patterns of an iteration.

    `gained` are assertions that pass in all runs with the skill and in none of the baseline, `lost` the reverse.
    """

    always_pass: tuple[Pattern, ...] = ()
    always_fail: tuple[Pattern, ...] = ()
    gained: tuple[Pattern, ...] = ()
    lost: tuple[Pattern, ...] = ()
    flaky: tuple[Flaky, ...] = ()
    outliers: tuple[Outlier, ...] = ()
    baseline: Arm = Arm.WITHOUT_SKILL

    def to_json(self, transcripts: Mapping[tuple[str, Arm, int], str]) -> JsonObject:
        """Return the patterns for `benchmark.json`; `transcripts` are the paths to read, by run."""
        return {
            "always_pass": [_pattern_to_json(each) for each in self.always_pass],
            "always_fail": [_pattern_to_json(each) for each in self.always_fail],
            "gained": [_pattern_to_json(each) for each in self.gained],
            "lost": [_pattern_to_json(each) for each in self.lost],
            "flaky": [
                {**_pattern_to_json(each), "configuration": each.arm.value, "passed": each.passed, "runs": each.runs}
                for each in self.flaky
            ],
            "outliers": [
                {
                    "eval": each.folder,
                    "configuration": each.arm.value,
                    "run_number": each.number,
                    "metric": each.metric,
                    "value": round(each.value, 3),
                    "median_of_others": round(each.median, 3),
                    "transcript": transcripts.get((each.folder, each.arm, each.number)),
                }
                for each in self.outliers
            ],
        }

    def notes(self, transcripts: Mapping[tuple[str, Arm, int], str]) -> Iterator[str]:
        """Yield what to do about each pattern, in sentences."""
        if self.baseline is Arm.WITHOUT_SKILL:
            for each in self.always_pass:
                yield f"{_named(each)} passes in both arms: it shows nothing about the skill; replace or remove it."
        elif self.always_pass:
            # Such an assertion may still show what the skill is worth, and keeps a version from losing it.
            yield f"Assertions that pass with both versions of the skill: {len(self.always_pass)}."
        for each in self.always_fail:
            yield f"{_named(each)} fails in both arms: it is wrong, or the case is too hard; fix it."
        other = "without the skill" if self.baseline is Arm.WITHOUT_SKILL else "with the old version"
        for each in self.lost:
            yield f"{_named(each)} passes {other} and fails with the skill: read the transcript."
        for flaky in self.flaky:
            counts = f"{flaky.passed} of {counted(flaky.runs, 'run')} {flaky.arm}"
            yield f"{_named(flaky)} passes in {counts}: make the instructions or the assertion more specific."
        for run in self.outliers:
            where = transcripts.get((run.folder, run.arm, run.number), "its transcript")
            what = f"{run.times:.1f} times the {run.metric} of the other runs"
            yield f"{run.folder} {run.arm} run {run.number} took {what}: read {where}."


def find_patterns(runs: Sequence[EvalRun]) -> Patterns:
    """Return the patterns in the runs of an iteration, which have at most two arms."""
    results = _by_assertion(runs)
    found: dict[tuple[bool, bool], list[Pattern]] = defaultdict(list)
    for (folder, text), arms in results.items():
        if len(arms) < len(Arm) - 1:
            continue  # without runs of both arms there is no comparison
        with_skill = arms[Arm.WITH_SKILL]
        baseline = next(passed for arm, passed in arms.items() if arm is not Arm.WITH_SKILL)
        if all(with_skill) == any(with_skill) and all(baseline) == any(baseline):
            found[all(with_skill), all(baseline)].append(Pattern(folder, text))
    flaky = (
        Flaky(folder, text, arm, sum(passed), len(passed))
        for (folder, text), arms in results.items()
        for arm, passed in arms.items()
        if any(passed) and not all(passed)
    )
    return Patterns(
        always_pass=tuple(found[True, True]),
        always_fail=tuple(found[False, False]),
        gained=tuple(found[True, False]),
        lost=tuple(found[False, True]),
        flaky=tuple(flaky),
        outliers=tuple(_outliers(runs)),
        baseline=Arm.OLD_SKILL if any(run.key.arm is Arm.OLD_SKILL for run in runs) else Arm.WITHOUT_SKILL,
    )


def _by_assertion(runs: Iterable[EvalRun]) -> dict[tuple[str, str], dict[Arm, list[bool]]]:
    found: dict[tuple[str, str], dict[Arm, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        for result in run.results or ():
            found[run.key.folder, result.text][run.key.arm].append(result.passed)
    return found


def _outliers(runs: Sequence[EvalRun]) -> Iterator[Outlier]:
    for metric, least in (("time", _MIN_SECONDS), ("tokens", 0.0)):
        for arm in Arm:
            measured = [(run, value) for run in runs if run.key.arm is arm and (value := _value(run, metric))]
            for run, value in measured:
                others = [other for each, other in measured if each is not run]
                if len(others) < _MIN_OTHERS or value < least:
                    continue
                median = statistics.median(others)
                if median and value >= OUTLIER_TIMES * median:
                    yield Outlier(run.key.folder, arm, run.key.number, metric, value, median)


def _value(run: EvalRun, metric: str) -> float | None:
    if run.outcome.error:
        return None
    return run.outcome.duration_ms / 1000 if metric == "time" else run.outcome.total_tokens


def _pattern_to_json(pattern: Pattern) -> JsonObject:
    return {"eval": pattern.folder, "assertion": pattern.assertion}


def _named(pattern: Pattern) -> str:
    return f"{pattern.folder}: {pattern.assertion[:200]!r}"
