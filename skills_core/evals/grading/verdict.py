"""Whether the skill helps, as far as the numbers can carry a verdict.

A case passes in an arm if more than half of its graded runs pass all of their assertions. Cases that come out
differently in both arms decide by McNemar's exact test. Runs of one case depend on each other, so they do not count
as cases.
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
    paired_bootstrap,
    wilson,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skills_core.evals.grading.results import EvalRun
    from skills_core.evals.statistics import Interval
    from skills_core.run.ports import JsonObject

__all__ = ["MAX_ERROR_SHARE", "Comparison", "Verdict", "compare_arms"]

MAX_ERROR_SHARE: Final = 0.1
"""With a larger share of runs without a grading, those that are left do not stand for all."""


class Verdict(StrEnum):
    """Whether the skill does better than the baseline."""

    BETTER = "better"
    WORSE = "worse"
    NONE = "no verdict"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Both arms compared case by case. `passed` counts passing cases of the `cases` that have gradings in both arms.

    `more_cases` is how many further cases would show a difference of this size, None if none or too many would.
    """

    cases: int
    passed: Mapping[Arm, int]
    wins: int
    losses: int
    p_value: float
    delta: float | None
    interval: Interval | None
    verdict: Verdict
    reason: str
    more_cases: int | None

    def to_json(self) -> JsonObject:
        """Return the object `intervals` of `benchmark.json`."""
        arms: JsonObject = {}
        for arm, passed in self.passed.items():
            low, high = wilson(passed, self.cases)
            rate = round(passed / self.cases, 4) if self.cases else None
            interval: JsonObject = {"low": round(low, 4), "high": round(high, 4)}
            arms[arm.value] = {"passed": passed, "total": self.cases, "rate": rate, "interval": interval}
        return {
            "cases": arms,
            "mcnemar": {"wins": self.wins, "losses": self.losses, "p_value": round(self.p_value, 6)},
            "pass_rate_delta": {
                "mean": None if self.delta is None else round(self.delta, 4),
                "interval": None
                if self.interval is None
                else {"low": round(self.interval.low, 4), "high": round(self.interval.high, 4)},
            },
            "verdict": self.verdict.value,
            "reason": self.reason,
            "more_cases": self.more_cases,
        }


def compare_arms(runs: Sequence[EvalRun], baseline: Arm) -> Comparison:
    """Return the comparison of the arm with the skill and the baseline."""
    rates = _rates(runs)
    cases = [arms for arms in rates.values() if {Arm.WITH_SKILL, baseline} <= arms.keys()]
    outcomes = [(_passes(arms[Arm.WITH_SKILL]), _passes(arms[baseline])) for arms in cases]
    wins = sum(ours and not theirs for ours, theirs in outcomes)
    losses = sum(theirs and not ours for ours, theirs in outcomes)
    passed = {Arm.WITH_SKILL: sum(ours for ours, _ in outcomes), baseline: sum(theirs for _, theirs in outcomes)}
    differences = [statistics.fmean(arms[Arm.WITH_SKILL]) - statistics.fmean(arms[baseline]) for arms in cases]
    p_value = mcnemar_exact(wins, losses)
    gradable = [run for run in runs if run.case.assertions]
    errors = sum(bool(run.problem) for run in gradable)
    needed = cases_for_power(passed[Arm.WITH_SKILL] / len(cases), passed[baseline] / len(cases)) if cases else None
    more = None if needed is None else max(needed - len(cases), 1)
    verdict, reason = _verdict(len(cases), wins, losses, p_value, (errors, len(gradable)), more)
    return Comparison(
        cases=len(cases),
        passed=passed,
        wins=wins,
        losses=losses,
        p_value=p_value,
        delta=statistics.fmean(differences) if differences else None,
        interval=paired_bootstrap(differences),
        verdict=verdict,
        reason=reason,
        more_cases=more if verdict is Verdict.NONE else None,
    )


def _rates(runs: Sequence[EvalRun]) -> dict[str, dict[Arm, list[float]]]:
    found: dict[str, dict[Arm, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        if (rate := run.pass_rate) is not None:
            found[run.key.folder][run.key.arm].append(rate)
    return found


def _passes(rates: Sequence[float]) -> bool:
    return sum(rate == 1 for rate in rates) * 2 > len(rates)


def _verdict(
    cases: int, wins: int, losses: int, p_value: float, errors: tuple[int, int], more: int | None
) -> tuple[Verdict, str]:
    """Return the verdict and its reason; `errors` are the runs without a grading, and all runs."""
    if not cases:
        return Verdict.NONE, "No case has assertions that were graded in both arms."
    failed, total = errors
    if failed > MAX_ERROR_SHARE * total:
        lacking = f"{failed} of {counted(total, 'run')} {agreeing(failed, 'has', 'have')} no grading"
        return Verdict.NONE, f"{lacking}, more than a tenth; run the command again."
    gained = f"{counted(wins, 'case')} {agreeing(wins, 'passes', 'pass')}"
    counts = f"{gained} only with the skill and {losses} only in the baseline"
    if wins + losses >= MIN_DISCORDANT and p_value < SIGNIFICANCE:
        verdict = Verdict.BETTER if wins > losses else Verdict.WORSE
        return verdict, f"{counts} (p = {p_value:.3g})."
    further = f"about {counted(more, 'more case')} would" if more else "more cases of this kind would hardly"
    if wins + losses < MIN_DISCORDANT:
        why = f"fewer than {MIN_DISCORDANT} that differ cannot show a difference"
    else:
        why = f"that may be chance (p = {p_value:.2g})"
    return Verdict.NONE, f"{counts}: {why}; if the rates stay as they are, {further} show it."
