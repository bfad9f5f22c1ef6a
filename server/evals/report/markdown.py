"""The newest results as Markdown, for the summary of a CI job; foreign text is escaped, so that it stays text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from server.evals.report.gates import GateOutcome
from server.evals.report.numbers import amount, interval_text, money, percent, points, points_interval, spread_text
from server.evals.report.scores import (
    check_scores,
    iteration_verdict,
    pairing,
    patterns,
    score_arm,
)
from server.evals.report.trigger_results import trigger_verdict
from skills_core.diagnostics import counted, without_lone_surrogates
from skills_core.format.hidden import with_hidden_shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from server.evals.report.gates import Gate
    from server.evals.report.model import Iteration, Judgement, TriggerSet, Workspace
    from skills_core.evals.triggers.results import QueryResult

__all__ = ["markdown"]

_MAX_ROWS: Final = 100
_MAX_TEXT: Final = 300

# What GitHub takes for markup within a line, addresses that it makes links of included.
_SIGNIFICANT = re.compile(r"([\\`*_\[\]<>|~&:$@]|(?<=www)\.)", re.IGNORECASE)

_MARKS = {GateOutcome.PASSED: "✅", GateOutcome.FAILED: "❌", GateOutcome.NO_VERDICT: "⚠️"}


def markdown(workspace: Workspace, gates: Sequence[Gate] = ()) -> str:
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
    yield _judgement(iteration_verdict(iteration))
    yield ""
    yield from _arms(iteration)
    failing = list(_failing(iteration))
    if failing:
        yield from ("### Assertions that fail with the skill", "", "| Case | Assertion | Passed |", "|---|---|---|")
        yield from _limited(failing)
        yield ""
    found = patterns(iteration)
    if found:
        yield from ("### Patterns", "")
        yield from _limited([f"- {each.kind}: {_text(each.case)} — {_text('; '.join(each.lines))}" for each in found])
        yield ""


def _judgement(judgement: Judgement) -> str:
    return f"**{judgement.title}:** {_text(judgement.words)}"


def _arms(iteration: Iteration) -> Iterator[str]:
    yield "| Arm | Pass rate | Cases passed | Seconds | Tokens | Cost | Errors |"
    yield "|---|---|---|---|---|---|---|"
    for score in (score_arm(iteration, arm) for arm in iteration.arms):
        passed, total = score.cases
        cells = [
            *(_text(score.arm.replace("_", " ")), spread_text(score.rate, percent)),
            f"{passed} of {total} {interval_text(score.interval)}".strip(),
            *(spread_text(score.seconds, amount), spread_text(score.tokens, amount), money(score.cost)),
            str(score.failed),
        ]
        yield f"| {' | '.join(cells)} |"
    pair = pairing(iteration)
    if pair is not None:
        difference = f"{points(pair.difference)} {points_interval(pair.interval)}".strip()
        yield ""
        cases = counted(pair.cases, "case")
        yield f"Difference of the mean pass rates over {cases}, in percentage points: {difference}"
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
    yield _judgement(trigger_verdict(triggers))
    if triggers.decision is not None:
        yield ""
        yield _judgement(triggers.decision)
    yield ""
    yield f"- Queries that should load the skill: {results.recall.count} of {results.recall.total} as wanted"
    yield f"- Queries that should not: {results.specificity.count} of {results.specificity.total} as wanted"
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


def _text(text: str) -> str:
    """Return foreign text on one line, without a meaning in Markdown or HTML."""
    line = " ".join(with_hidden_shown(without_lone_surrogates(text)).split())
    cut = line if len(line) <= _MAX_TEXT else f"{line[: _MAX_TEXT - 1]}…"
    return _SIGNIFICANT.sub(r"\\\1", cut)
