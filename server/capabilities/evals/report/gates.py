"""The gates of CI: the least pass rate, and the largest loss against the baseline.

A gate compares the measured rates themselves; it says so if the interval includes rates on the other side. What cannot
be measured does not pass: its outcome is "no verdict", and the exit code is that of a failure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean
from typing import TYPE_CHECKING, Final

from server.capabilities.evals.report.model import Status
from server.capabilities.evals.report.scores import run_scores
from skills_core.diagnostics import agreeing, counted
from skills_core.evals.grading.scores import ungraded
from skills_core.evals.statistics import too_many_failed
from skills_core.evals.triggers.ranks import MIN_QUERIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from server.capabilities.evals.report.model import ArmScore, Iteration, TriggerSet, Workspace
    from skills_core.evals.triggers.results import Rate

__all__ = ["Gate", "GateOutcome", "ci_exit_code", "ci_gates", "trigger_gates"]

_SLACK: Final = 0.00005
# `benchmark.json` has rates with four digits.


class GateOutcome(StrEnum):
    """What a gate says."""

    PASSED = "passed"
    FAILED = "failed"
    NO_VERDICT = "no verdict"


@dataclass(frozen=True, slots=True)
class Gate:
    """One comparison of a measured value with its limit."""

    name: str
    outcome: GateOutcome
    words: str


def ci_exit_code(
    workspace: Workspace, *, min_pass_rate: float | None = None, max_regression: float | None = None
) -> int:
    """Return 0 if every gate passes, and 1 if one fails or has no verdict."""
    gates = ci_gates(workspace, min_pass_rate=min_pass_rate, max_regression=max_regression)
    return int(any(gate.outcome is not GateOutcome.PASSED for gate in gates))


def ci_gates(
    workspace: Workspace, *, min_pass_rate: float | None = None, max_regression: float | None = None
) -> tuple[Gate, ...]:
    """Judge the newest iteration and the newest trigger results; a limit that is None is not checked.

    The first trigger results beside an iteration have nothing to regress from, so only the iteration is compared.
    """
    gates: list[Gate] = []
    if workspace.iterations:
        gates += _of_iterations(workspace.iterations, min_pass_rate, max_regression)
    if workspace.triggers:
        comparable = len(workspace.triggers) > 1 or not workspace.iterations
        gates += _of_triggers(workspace.triggers, min_pass_rate, max_regression if comparable else None)
    return tuple(gates)


def _of_iterations(found: tuple[Iteration, ...], least: float | None, most: float | None) -> Iterator[Gate]:
    newest = found[-1]
    fault = _iteration_fault(newest)
    score = newest.scores.of(newest.subject)
    rate = score.rate.mean if score and score.rate else None
    if least is not None:
        name = f"pass rate of {newest.label} at least {least:.2f}"
        words = "" if score is None or rate is None else f"measured {rate:.2f}{_of_cases(score)}"
        passed = rate is not None and rate >= least - _SLACK
        yield _gate(name, fault, words, passed=passed)
    if most is not None:
        name = f"regression of {newest.label} at most {most:.2f}"
        source, pairs = _pairs(found)
        if not fault and not pairs:
            fault = "there is no baseline and no earlier iteration with grades of the same cases to compare with"
        if fault:
            yield _gate(name, fault, "", passed=False)
            return
        new, old = (fmean(rates) for rates in zip(*pairs, strict=True))
        yield _gate(name, "", f"{new:.2f} after {old:.2f} in {source}", passed=old - new <= most + _SLACK)


def _of_cases(score: ArmScore) -> str:
    """Return how many cases pass, whose interval tells how much chance is in few of them."""
    passed, total = score.cases
    if score.interval is None:
        return ""
    cases, pass_ = counted(total, "case"), agreeing(passed, "passes", "pass")
    low, high = score.interval
    return f"; {passed} of {cases} {pass_} all assertions (95 % interval {low:.2f} to {high:.2f})"


def _pairs(found: tuple[Iteration, ...]) -> tuple[str, list[tuple[float, float]]]:
    """Return what to compare with, the baseline or the iteration before, and the rates of the cases that both have.

    A case that one side could not run, or has not yet, must not look like a loss or a gain.
    """
    newest = found[-1]
    ours = _case_rates(newest, newest.subject)
    if newest.baseline is not None:
        source, theirs = newest.baseline, _case_rates(newest, newest.baseline)
    elif len(found) > 1:
        source, theirs = found[-2].label, _case_rates(found[-2], found[-2].subject)
    else:
        return "", []
    return source, [(rate, theirs[case]) for case, rate in ours.items() if case in theirs]


def _case_rates(iteration: Iteration, arm: str) -> dict[str, float]:
    rates = {case.key: [run.rate for run in case.of(arm) if run.rate is not None] for case in iteration.cases}
    return {case: fmean(values) for case, values in rates.items() if values}


def _iteration_fault(iteration: Iteration) -> str:
    """Say why the newest iteration cannot be judged; empty if it can."""
    runs = [run for case in iteration.cases for run in case.runs]
    if not any(run.graded for case in iteration.cases for run in case.of(iteration.subject)):
        return "no run with the skill is graded"
    if not iteration.complete or any(run.status is Status.PENDING for run in runs):
        return "the iteration is not complete"
    if too_many_failed(*ungraded(run_scores(iteration))):
        return "more than a tenth of the runs have no grading"
    return ""


def _of_triggers(found: tuple[TriggerSet, ...], least: float | None, most: float | None) -> Iterator[Gate]:
    newest = found[-1]
    rate = newest.results.passed
    fault = _trigger_fault(newest)
    if least is not None:
        name = f"pass rate of {newest.label} at least {least:.2f}"
        words = "" if rate.value is None else f"{_measured(rate)}{_whose(newest)}"
        yield _gate(name, fault, words, passed=rate.value is not None and rate.value >= least - _SLACK)
    if most is not None:
        new, old = rate.value, found[-2].results.passed.value if len(found) > 1 else None
        name = f"regression of {newest.label} at most {most:.2f}"
        if not fault and old is None:
            fault = "there are no earlier results to compare with"
        if fault or old is None or new is None:
            yield _gate(name, fault, "", passed=False)
            return
        words = f"{new:.2f} after {old:.2f} in {found[-2].label}{_whose(newest)}"
        yield _gate(name, "", words, passed=old - new <= most + _SLACK)


def _measured(rate: Rate) -> str:
    low, high = rate.interval
    return f"measured {rate.value:.2f}, {rate.count} of {rate.total} (95 % interval {low:.2f} to {high:.2f})"


def _whose(triggers: TriggerSet) -> str:
    """Say which description is judged, if several were tried."""
    return f", with {triggers.measured}" if triggers.measured else ""


def trigger_gates(
    triggers: TriggerSet, *, min_recall: float | None = None, max_false: float | None = None
) -> tuple[Gate, ...]:
    """Judge the share of queries that trigger as they should, and of those that trigger as they should not.

    As for ranked queries, a verdict takes a least number of queries of the kind.
    """
    fault, results, whose = _trigger_fault(triggers), triggers.results, _whose(triggers)
    gates = []
    if min_recall is not None:
        gates.append(_share_gate("recall", fault, results.recall, min_recall, whose, at_least=True))
    if max_false is not None:
        gates.append(_share_gate("false triggers", fault, results.false_positives, max_false, whose, at_least=False))
    return tuple(gates)


def _share_gate(what: str, fault: str, rate: Rate, limit: float, whose: str, *, at_least: bool) -> Gate:
    name = f"{what} at {'least' if at_least else 'most'} {limit:.2f}"
    if not fault and rate.total < MIN_QUERIES:
        lacking = MIN_QUERIES - rate.total
        fault = f"a verdict takes {MIN_QUERIES} queries of the kind, {lacking} more than have an outcome"
    share = rate.value
    if fault or share is None:
        return _gate(name, fault, "", passed=False)
    passed = share >= limit - _SLACK if at_least else share <= limit + _SLACK
    return _gate(name, "", f"{_measured(rate)}{whose}", passed=passed)


def _trigger_fault(triggers: TriggerSet) -> str:
    if not triggers.results.judged:
        return "no query has an outcome"
    return triggers.results.no_verdict if triggers.complete else "the measurement is not complete"


def _gate(name: str, fault: str, words: str, *, passed: bool) -> Gate:
    if fault:
        return Gate(name, GateOutcome.NO_VERDICT, fault)
    return Gate(name, GateOutcome.PASSED if passed else GateOutcome.FAILED, words)
