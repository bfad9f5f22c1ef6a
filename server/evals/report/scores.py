"""Rates, intervals, verdicts and patterns of the results.

A case passes in an arm if more than half of its graded runs pass all assertions. Runs that ended in an error or a
timeout count in no rate; if they are more than a tenth, there is no verdict.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from server.evals.report.model import Judgement, Status, Verdict
from skills_core.diagnostics import agreeing, counted
from skills_core.evals.statistics import (
    MIN_DISCORDANT,
    SIGNIFICANCE,
    Interval,
    Spread,
    cases_for_power,
    mcnemar_exact,
    mean_stddev,
    paired_bootstrap,
    wilson,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from server.evals.report.model import Case, Iteration, Run

__all__ = [
    "MAX_FAILED",
    "ArmScore",
    "CheckScore",
    "Pairing",
    "Pattern",
    "baseline_words",
    "check_scores",
    "failed_share",
    "iteration_verdict",
    "pairing",
    "patterns",
    "score_arm",
]

MAX_FAILED: Final = 0.1
"""Largest share of errors and timeouts with which there can be a verdict."""

_OUTLIER = 3
# A run stands out if it takes so many times the median of its arm.

_MIN_RUNS = 3
# Fewest runs of an arm with which one of them can stand out.

_KINDS: Final = (
    *("only without", "always fails", "always passes", "flaky", "outlier in seconds", "outlier in tokens"),
    "only with the skill",
)


@dataclass(frozen=True, slots=True)
class ArmScore:
    """The numbers of one arm; None where nothing is known."""

    arm: str
    runs: int
    graded: int
    failed: int
    pending: int
    rate: Spread | None
    cases: tuple[int, int]
    interval: Interval | None
    seconds: Spread | None
    tokens: Spread | None
    cost: float | None


@dataclass(frozen=True, slots=True)
class Pairing:
    """The cases that are graded in both arms: who alone passes how many, and the difference of the mean pass rates."""

    cases: int
    wins: int
    losses: int
    probability: float
    difference: float
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class CheckScore:
    """How often an assertion passed in each arm, as (arm, passed, graded)."""

    text: str
    arms: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    """What the averages of a case hide, one line for each assertion or run."""

    kind: str
    case: str
    lines: tuple[str, ...]


def score_arm(iteration: Iteration, arm: str) -> ArmScore:
    """Return the numbers of an arm."""
    runs = [run for case in iteration.cases for run in case.of(arm)]
    graded = [run for run in runs if run.graded]
    outcomes = [_case_passes(case, arm) for case in iteration.cases]
    judged = [outcome for outcome in outcomes if outcome is not None]
    failed = sum(run.failed for run in runs)
    costs = [run.cost for run in runs if run.cost is not None]
    return ArmScore(
        arm=arm,
        runs=len(runs),
        graded=len(graded),
        failed=failed,
        pending=sum(run.status is Status.PENDING for run in runs),
        rate=_spread(run.rate for run in graded),
        cases=(sum(judged), len(judged)),
        interval=wilson(sum(judged), len(judged)) if judged else None,
        seconds=_spread(run.seconds for run in graded),
        tokens=_spread(run.tokens for run in graded),
        cost=sum(costs) if costs else None,
    )


def pairing(iteration: Iteration) -> Pairing | None:
    """Compare the arms case by case; None without a baseline or without a case that is graded in both."""
    baseline = iteration.baseline
    if baseline is None:
        return None
    pairs, differences = [], []
    for case in iteration.cases:
        ours, theirs = _case_passes(case, iteration.subject), _case_passes(case, baseline)
        if ours is not None and theirs is not None:
            pairs.append((ours, theirs))
            differences.append(_mean_rate(case, iteration.subject) - _mean_rate(case, baseline))
    if not pairs:
        return None
    wins, losses = pairs.count((True, False)), pairs.count((False, True))
    return Pairing(
        cases=len(pairs),
        wins=wins,
        losses=losses,
        probability=mcnemar_exact(wins, losses),
        difference=statistics.fmean(differences),
        interval=paired_bootstrap(differences),
    )


def iteration_verdict(iteration: Iteration) -> Judgement:
    """Return whether the skill makes a difference, or why the numbers cannot tell; a recorded one counts."""
    if iteration.judgement is not None:
        return iteration.judgement
    runs = [run for case in iteration.cases for run in case.runs]
    if not any(run.graded for run in runs):
        return _no_verdict("No run is graded.")
    if failed_share(runs) > MAX_FAILED:
        failed, ended = sum(run.failed for run in runs), _ended(runs)
        return _too_many_failed(failed, ended)
    pair = pairing(iteration)
    if pair is None:
        return _no_verdict("No case is graded both with the skill and in a baseline.")
    return _judged(pair, iteration)


def _judged(pair: Pairing, iteration: Iteration) -> Judgement:
    cases, passes = counted(pair.cases, "case"), agreeing(pair.wins, "passes", "pass")
    counts = f"Of {cases}, {pair.wins} {passes} only with the skill and {pair.losses} only {baseline_words(iteration)}"
    discordant = pair.wins + pair.losses
    if discordant < MIN_DISCORDANT:
        needed = f"The exact test needs at least {MIN_DISCORDANT} cases that differ.{_needed(iteration)}"
        return _no_verdict(f"{counts}. {needed}")
    probability = f"McNemar's exact test: p = {pair.probability:.3g}"
    if pair.probability >= SIGNIFICANCE:
        return _no_verdict(f"{counts}, which may be chance ({probability}).{_needed(iteration)}")
    better = pair.wins > pair.losses
    verdict, title = (Verdict.GOOD, "Better") if better else (Verdict.BAD, "Worse")
    return Judgement(verdict, title, f"{counts} ({probability}).")


def baseline_words(iteration: Iteration) -> str:
    """Return how the baseline runs, as in "passes without it"."""
    known = {"without_skill": "without it", "old_skill": "with the old one"}
    arm = iteration.baseline or ""
    return known.get(arm, f"in {arm.replace('_', ' ')}")


def _no_verdict(words: str) -> Judgement:
    return Judgement(Verdict.NONE, "No verdict", words)


def _too_many_failed(failed: int, ended: int) -> Judgement:
    return _no_verdict(
        f"{failed} of {counted(ended, 'run')} ended in an error or a timeout, which is more than {MAX_FAILED:.0%}. "
        "Correct what failed and run them again."
    )


def _needed(iteration: Iteration) -> str:
    """Say how many cases would show a difference of the size that was seen."""
    ours, theirs = (score_arm(iteration, arm).cases for arm in (iteration.subject, iteration.baseline or ""))
    if not ours[1] or not theirs[1]:
        return ""
    cases = cases_for_power(ours[0] / ours[1], theirs[0] / theirs[1])
    if cases is None or ours[0] / ours[1] == theirs[0] / theirs[1]:
        return ""
    return f" About {counted(cases, 'case')} would show a difference of this size."


def failed_share(runs: Sequence[Run]) -> float:
    """Return the share of errors and timeouts among the runs that have ended."""
    ended = _ended(runs)
    return sum(run.failed for run in runs) / ended if ended else 0.0


def _ended(runs: Sequence[Run]) -> int:
    return sum(run.failed or run.graded for run in runs)


def check_scores(case: Case, arms: Sequence[str]) -> tuple[CheckScore, ...]:
    """Return how often each assertion passed, in their order in the case."""
    names = dict.fromkeys(case.assertions)
    for run in case.runs:
        names |= dict.fromkeys(check.text for check in run.checks)
    found = []
    for name in names:
        counts = []
        for arm in arms:
            grades = [
                check.passed
                for run in case.of(arm)
                if not run.failed
                for check in run.checks
                if check.text == name and check.passed is not None
            ]
            counts.append((arm, sum(grades), len(grades)))
        found.append(CheckScore(name, tuple(counts)))
    return tuple(found)


def patterns(iteration: Iteration) -> tuple[Pattern, ...]:
    """Return what to look at: assertions that say nothing, flaky ones, and runs that took long; then what is gained."""
    found: dict[tuple[str, str], list[str]] = {}
    for case in iteration.cases:
        for score in check_scores(case, iteration.arms):
            for kind, words in _of_check(score, iteration):
                found.setdefault((kind, case.name), []).append(words)
    for arm in iteration.arms:
        runs = [(case, run) for case in iteration.cases for run in case.of(arm) if run.graded]
        for unit in ("seconds", "tokens"):
            for case, words in _outliers(runs, unit):
                found.setdefault((f"outlier in {unit}", case.name), []).append(words)
    # By kind, and in the order of the cases within one.
    ordered = sorted(found, key=lambda key: _KINDS.index(key[0]))
    return tuple(Pattern(kind, case, tuple(found[kind, case])) for kind, case in ordered)


def _of_check(score: CheckScore, iteration: Iteration) -> Iterator[tuple[str, str]]:
    graded = {arm: (passed, total) for arm, passed, total in score.arms if total}
    if len(graded) > 1 and all(passed == total for passed, total in graded.values()):
        yield "always passes", score.text
    elif len(graded) > 1 and not any(passed for passed, _ in graded.values()):
        yield "always fails", score.text
    for arm, (passed, total) in graded.items():
        if 0 < passed < total:
            yield "flaky", f"{score.text} ({passed} of {counted(total, 'run')} {arm.replace('_', ' ')})"
    ours, theirs = graded.get(iteration.subject), graded.get(iteration.baseline or "")
    if ours and theirs and ours[0] == ours[1] and theirs[0] == 0:
        yield "only with the skill", score.text
    if ours and theirs and ours[0] == 0 and theirs[0] == theirs[1]:
        yield "only without", score.text


def _outliers(runs: Sequence[tuple[Case, Run]], unit: str) -> Iterator[tuple[Case, str]]:
    values = [run.seconds if unit == "seconds" else run.tokens for _, run in runs]
    known = [value for value in values if value is not None]
    if len(known) < _MIN_RUNS:
        return
    middle = statistics.median(known)
    for (case, run), value in zip(runs, values, strict=True):
        if value is not None and middle > 0 and value >= _OUTLIER * middle:
            times = f"{value / middle:.1f} times the median of {middle:,.1f}"
            place = f"; read {run.path}/transcript.jsonl" if run.transcript else ""
            yield case, f"run {run.number} {run.arm.replace('_', ' ')}: {value:,.1f} {unit}, {times}{place}"


def _case_passes(case: Case, arm: str) -> bool | None:
    rates = [run.rate for run in case.of(arm) if run.graded]
    return sum(rate == 1 for rate in rates) * 2 > len(rates) if rates else None


def _mean_rate(case: Case, arm: str) -> float:
    return statistics.fmean(run.rate for run in case.of(arm) if run.graded and run.rate is not None)


def _spread(values: Iterable[float | None]) -> Spread | None:
    known = [value for value in values if value is not None]
    return mean_stddev(known) if known else None
