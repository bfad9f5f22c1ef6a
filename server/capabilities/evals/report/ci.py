"""Results for CI: gates, JUnit XML, and a summary in Markdown.

A gate compares the measured rates themselves; it says so if the interval includes rates on the other side. What cannot
be measured does not pass: its outcome is "no verdict", and the exit code is that of a failure.

In JUnit XML, there is a test case for each assertion or query and arm. An assertion passes if it did in at least half
of the graded runs. A run that ended in an error or a timeout is an error, not a failure. What a baseline does not pass
is skipped, with the reason: a skill that is needed must not fail a build.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

from server.capabilities.evals.report.model import Status
from server.capabilities.evals.report.scores import (
    check_scores,
    further_bounds,
    interval_text,
    points,
    points_interval,
    run_scores,
    spread_text,
)
from server.capabilities.evals.report.trigger_results import trigger_verdict
from server.html.github import inline_markdown as _text
from server.html.words import amount, dollars, percent
from skills_core.diagnostics import counted, without_lone_surrogates
from skills_core.evals.grading.effect import failed_runs
from skills_core.evals.statistics import too_many_failed
from skills_core.evals.triggers.ranks import MIN_QUERIES
from skills_core.evals.triggers.results import loaded_by_kind
from skills_core.texts import with_hidden_shown

if TYPE_CHECKING:
    from server.capabilities.evals.report.model import (
        ArmScore,
        Case,
        Iteration,
        Results,
        Run,
        ShownVerdict,
        TriggerSet,
    )
    from skills_core.evals.triggers.results import QueryResult, Rate


def gates_pass(gates: Sequence[CiGate]) -> bool:
    """Tell whether every gate passes; one without a verdict does not."""
    return all(gate.outcome is GateOutcome.PASSED for gate in gates)


_SLACK: Final = 0.00005
# `benchmark.json` has rates with four digits.


class GateOutcome(StrEnum):
    """What a gate says."""

    PASSED = "passed"
    FAILED = "failed"
    NO_VERDICT = "no verdict"


@dataclass(frozen=True, slots=True)
class CiGate:
    """One comparison of a measured value with its limit."""

    name: str
    outcome: GateOutcome
    words: str


def ci_gates(
    workspace: Results, *, min_pass_rate: float | None = None, max_regression: float | None = None
) -> tuple[CiGate, ...]:
    """Judge the newest iteration and the newest trigger results; a limit that is None is not checked.

    The first trigger results beside an iteration have nothing to regress from, so only the iteration is compared.
    """
    gates: list[CiGate] = []
    if workspace.iterations:
        gates += _iteration_gates(workspace.iterations, min_pass_rate, max_regression)
    if workspace.triggers:
        comparable = len(workspace.triggers) > 1 or not workspace.iterations
        gates += _trigger_set_gates(workspace.triggers, min_pass_rate, max_regression if comparable else None)
    return tuple(gates)


def _iteration_gates(found: tuple[Iteration, ...], least: float | None, most: float | None) -> Iterator[CiGate]:
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
    """Return the interval of the mean of the cases, which tells how much chance is in few of them."""
    return "" if score.interval is None else f" {interval_text(score.interval)}"


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
    if iteration.stopped:
        return iteration.stopped
    for arm, (failed, total) in failed_runs(run_scores(iteration)).items():
        if too_many_failed(failed, total):
            return f"more than a tenth of the runs {arm} have no grading: {failed} of {total}"
    return ""


def _trigger_set_gates(found: tuple[TriggerSet, ...], least: float | None, most: float | None) -> Iterator[CiGate]:
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
) -> tuple[CiGate, ...]:
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


def _share_gate(what: str, fault: str, rate: Rate, limit: float, whose: str, *, at_least: bool) -> CiGate:
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


def _gate(name: str, fault: str, words: str, *, passed: bool) -> CiGate:
    if fault:
        return CiGate(name, GateOutcome.NO_VERDICT, fault)
    return CiGate(name, GateOutcome.PASSED if passed else GateOutcome.FAILED, words)


_KINDS: Final = ("failure", "error", "skipped")

_NAME_LENGTH = 300
_DETAIL_LENGTH = 10_000

_HALF = 0.5

# What XML 1.0 forbids beyond the hidden characters, which are shown.
_FORBIDDEN = re.compile("[\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class _Test:
    classname: str
    name: str
    seconds: float = 0.0
    kind: str = ""
    message: str = ""
    detail: str = ""


def junit(workspace: Results) -> str:
    """Return the XML document of the newest iteration and the newest trigger results."""
    suites = [
        _suite(f"{iteration.label}.{arm}", list(_of_arm(workspace.skill, iteration, arm)))
        for iteration in workspace.iterations[-1:]
        for arm in iteration.arms
    ]
    suites += [_suite(each.label, list(_of_queries(workspace.skill, each))) for each in workspace.triggers[-1:]]
    counted = ("tests", "failures", "errors")
    totals = {name: str(sum(int(suite.get(name) or 0) for suite in suites)) for name in counted}
    seconds = f"{sum(float(suite.get('time') or 0) for suite in suites):.3f}"
    root = ET.Element("testsuites", {"name": _line(workspace.skill), **totals, "time": seconds})
    root.extend(suites)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _suite(name: str, tests: Sequence[_Test]) -> ET.Element:
    kinds = [test.kind for test in tests]
    failures, errors, skipped = (str(kinds.count(kind)) for kind in _KINDS)
    seconds = f"{sum(test.seconds for test in tests):.3f}"
    counts = {"tests": str(len(tests)), "failures": failures, "errors": errors, "skipped": skipped}
    suite = ET.Element("testsuite", {"name": _line(name), **counts, "time": seconds})
    for test in tests:
        attributes = {"classname": _line(test.classname), "name": _line(test.name), "time": f"{test.seconds:.3f}"}
        element = ET.SubElement(suite, "testcase", attributes)
        if test.kind:
            extra = {} if test.kind == "skipped" else {"type": test.kind}
            outcome = ET.SubElement(element, test.kind, {"message": _line(test.message), **extra})
            outcome.text = _clean(test.detail[:_DETAIL_LENGTH])
    return suite


def _of_arm(skill: str, iteration: Iteration, arm: str) -> Iterator[_Test]:
    for case in iteration.cases:
        classname = f"{skill}.{case.key}.{arm}"
        runs = case.of(arm)
        tests = [*_of_checks(classname, case, arm, runs), *_of_failed_runs(classname, case, runs)]
        known = [run.seconds for run in runs if run.seconds is not None]
        each = sum(known) / len(tests) if tests else 0.0
        for test in tests:
            kind, message = test.kind, test.message
            if kind == "failure" and arm != iteration.subject:
                kind, message = "skipped", f"The baseline does not pass: {message}"
            yield _Test(test.classname, test.name, each, kind, message, test.detail)


def _of_checks(classname: str, case: Case, arm: str, runs: Sequence[Run]) -> Iterator[_Test]:
    failed = [run for run in runs if run.failed]
    for score in check_scores(case, [arm]):
        ((_, passed, total),) = score.arms
        if total and passed / total >= _HALF:
            yield _Test(classname, score.text)
        elif total:
            message = f"passed in {passed} of {counted(total, 'graded run')}"
            yield _Test(classname, score.text, 0, "failure", message, _evidence(runs, score.text))
        elif failed and len(failed) == len(runs):
            yield _Test(classname, score.text, 0, "error", _fault(failed[0]), _faults(failed))
        else:
            yield _Test(classname, score.text, 0, "skipped", "not graded yet")


def _of_failed_runs(classname: str, case: Case, runs: Sequence[Run]) -> Iterator[_Test]:
    """Yield an error for each failed run, unless each assertion has it already."""
    failed = [run for run in runs if run.failed]
    if len(failed) < len(runs) or not check_scores(case, []):
        for run in failed:
            yield _Test(classname, f"run {run.number}", 0, "error", _fault(run), run.error)


def _evidence(runs: Iterable[Run], name: str) -> str:
    lines = [
        f"run {run.number}: {check.evidence or 'no evidence'}"
        for run in runs
        for check in run.checks
        if check.text == name and check.passed is False
    ]
    return "\n".join(lines)


def _fault(run: Run) -> str:
    return f"run {run.number} ended in {run.status}: {run.error}" if run.error else f"run {run.number}: {run.status}"


def _faults(runs: Iterable[Run]) -> str:
    return "\n".join(map(_fault, runs))


def _of_queries(skill: str, triggers: TriggerSet) -> Iterator[_Test]:
    for each in triggers.results.results:
        kind, message, detail = _query_outcome(each)
        yield _Test(f"{skill}.{triggers.label}", each.query.text, 0, kind, message, detail)


def _query_outcome(result: QueryResult) -> tuple[str, str, str]:
    wanted = "should load the skill" if result.query.should_trigger else "should not load the skill"
    seen = result.seen or f"loaded in {result.rate.count} of {result.rate.total} runs that count"
    outcomes = ", ".join(result.outcomes)
    if result.passed is None:
        if result.errors:
            return (
                "error",
                result.error or f"the runs ended in an error or a timeout: {result.errors} of {result.errors}",
                outcomes,
            )
        return "skipped", "no outcome yet", ""
    return ("", "", "") if result.passed else ("failure", f"{wanted}; {seen}", outcomes)


def _line(text: str) -> str:
    """Return a text for an attribute, which is one line."""
    line = _clean(" ".join(text.split()))
    return line if len(line) <= _NAME_LENGTH else f"{line[: _NAME_LENGTH - 1]}…"


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", with_hidden_shown(without_lone_surrogates(text)))


_MAX_ROWS: Final = 100
_MARKS = {GateOutcome.PASSED: "✅", GateOutcome.FAILED: "❌", GateOutcome.NO_VERDICT: "⚠️"}


def markdown(workspace: Results, gates: Sequence[CiGate] = ()) -> str:
    """Return the summary of the newest iteration and the newest trigger results, with the gates of CI."""
    lines = [f"# Evaluation of {_text(workspace.skill)}", ""]
    lines += [
        f"- {_MARKS[gate.outcome]} **{gate.outcome}**: {_text(gate.name)} — {_text(gate.words)}" for gate in gates
    ]
    lines += [""] if gates else []
    for iteration in workspace.iterations[-1:]:
        lines += _of_iteration(iteration)
    for triggers in workspace.triggers[-1:]:
        lines += _of_triggers(triggers)
    if workspace.problems:
        lines += ["## Files that could not be used", "", *(f"- {_text(each)}" for each in workspace.problems), ""]
    return "\n".join(lines).rstrip() + "\n"


def _of_iteration(iteration: Iteration) -> Iterator[str]:
    yield f"## {_text(iteration.label)}"
    yield ""
    yield _verdict(iteration.scores.verdict)
    yield ""
    yield from _arms(iteration)
    failing = list(_failing(iteration))
    if failing:
        yield from ("### Assertions that fail with the skill", "", "| Case | Assertion | Passed |", "|---|---|---|")
        yield from _limited(failing)
        yield ""
    found = iteration.scores.patterns
    if found:
        yield from ("### Patterns", "")
        yield from _limited([f"- {each.kind}: {_text(each.case)} — {_text('; '.join(each.lines))}" for each in found])
        yield ""


def _verdict(verdict: ShownVerdict) -> str:
    return f"**{verdict.title}:** {_text(verdict.reason)}"


def _arms(iteration: Iteration) -> Iterator[str]:
    yield "| Arm | Pass rate | Mean of cases | Seconds | Tokens | Cost | Errors |"
    yield "|---|---|---|---|---|---|---|"
    for score in iteration.scores.arms:
        cells = [
            *(_text(score.arm.replace("_", " ")), spread_text(score.rate, percent)),
            f"{percent(score.mean)} {interval_text(score.interval)}".strip(),
            *(spread_text(score.seconds, amount), spread_text(score.tokens, amount), dollars(score.cost)),
            str(score.failed),
        ]
        yield f"| {' | '.join(cells)} |"
    pair = iteration.scores.pairing
    if pair is not None:
        difference = f"{points(pair.difference)} {points_interval(pair.interval)}".strip()
        yield ""
        cases = counted(pair.cases, "case")
        yield f"Difference of the mean pass rates over {cases}, in percentage points: {difference}"
        yield from (f"- {words}" for words in further_bounds(pair))
    yield ""


def _failing(iteration: Iteration) -> Iterator[str]:
    for case in iteration.cases:
        for score in check_scores(case, [iteration.subject]):
            ((_, passed, total),) = score.arms
            if passed < total:
                yield f"| {_text(case.name)} | {_text(score.text)} | {passed} of {total} |"


def _of_triggers(triggers: TriggerSet) -> Iterator[str]:
    results = triggers.results
    yield f"## {_text(triggers.label)}"
    yield ""
    yield _verdict(trigger_verdict(triggers))
    if triggers.decision is not None:
        yield ""
        yield _verdict(triggers.decision)
    yield ""
    did = "found it first" if triggers.ranked else "loaded it"
    yield from (f"- Queries {words}" for words in loaded_by_kind(results.recall, results.false_positives, did))
    if not triggers.ranked:
        yield f"- Errors and timeouts: {results.faults.count} of {counted(results.faults.total, 'run')}"
    yield ""
    missed = [
        f"| {_text(each.query.text)} | {'yes' if each.query.should_trigger else 'no'} | {_seen(each)} |"
        for each in results.results
        if each.passed is False
    ]
    if missed:
        yield from (f"| Query | Should load | {'Found' if triggers.ranked else 'Rate'} |", "|---|---|---|")
        yield from _limited(missed)
        yield ""


def _seen(result: QueryResult) -> str:
    return _text(result.seen) if result.seen else percent(result.rate.value)


def _limited(rows: Sequence[str]) -> Iterator[str]:
    yield from rows[:_MAX_ROWS]
    if len(rows) > _MAX_ROWS:
        yield from ("", f"… and {len(rows) - _MAX_ROWS} more")
