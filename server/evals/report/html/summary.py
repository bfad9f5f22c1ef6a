"""The first sections: verdict and rates, patterns, cost, and files that could not be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.evals.report.html.chart import Line, rate_chart
from server.evals.report.html.markup import Html, foreign, join, tag
from server.evals.report.html.parts import arm_name, badge, facts, listed, section, table, verdict_box
from server.evals.report.numbers import (
    UNKNOWN,
    amount,
    difference,
    interval_text,
    percent,
    points,
    points_interval,
    spread_text,
)
from server.evals.report.scores import (
    baseline_words,
    iteration_verdict,
    pairing,
    patterns,
    score_arm,
)
from server.evals.report.trigger_results import trigger_verdict
from skills_core.diagnostics import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from server.evals.report.gates import Gate
    from server.evals.report.html.markup import Child
    from server.evals.report.model import Iteration, TriggerSet, Workspace
    from server.evals.report.scores import ArmScore, Pairing
    from skills_core.evals.triggers.results import Rate

__all__ = ["patterns_section", "problems_section", "summary_section"]

_GATE_BADGES = {"passed": ("good", "✓ passed"), "failed": ("bad", "✗ failed"), "no verdict": ("none", "? no verdict")}


def summary_section(workspace: Workspace, gates: Sequence[Gate]) -> Html:
    """Return the verdicts with their intervals, the gates of CI and the rates by iteration."""
    children: list[Child] = []
    if gates:
        children += [tag("h3", "Gates of the command"), listed([_gate(gate) for gate in gates])]
    for iteration in workspace.iterations[-1:]:
        children += _iteration_summary(iteration)
    if len(workspace.iterations) > 1:
        children.append(_by_iteration(workspace.iterations))
        children.append(_iteration_table(workspace.iterations))
    for triggers in workspace.triggers[-1:]:
        children += _trigger_summary(triggers)
    return section("summary", "Summary", *children)


def _gate(gate: Gate) -> Html:
    kind, word = _GATE_BADGES[gate.outcome.value]
    return join(badge(kind, word), " ", foreign("span", f"{gate.name}: {gate.words}"))


def _iteration_summary(iteration: Iteration) -> list[Child]:
    scores = [score_arm(iteration, arm) for arm in iteration.arms]
    rows = [_arm_row(score) for score in scores]
    heads = ["Arm", "Runs", "Pass rate", "Cases passed", "Seconds", "Tokens", "Errors"]
    pair = pairing(iteration)
    compared = None
    if pair is not None:
        rows.append(["Difference", "", points(pair.difference), _pair_text(pair, iteration), *_deltas(iteration)])
        span = f" {points_interval(pair.interval)}" if pair.interval else ""
        compared = tag(
            "p",
            f"Difference of the mean pass rates over {counted(pair.cases, 'case')}, in percentage points: "
            f"{points(pair.difference)}{span}. McNemar's exact test: p = {pair.probability:.3g}.",
            class_="note",
        )
    shown = [
        tag("h3", "Evals: ", foreign("span", iteration.label)),
        verdict_box(iteration_verdict(iteration)),
        table("Arms of the newest iteration", heads, rows) if rows else tag("p", "No case has been started."),
        compared,
        facts((name, foreign("span", value)) for name, value in iteration.facts),
    ]
    if iteration.notes:
        shown += [tag("h4", "Notes"), listed([foreign("span", note) for note in iteration.notes])]
    return [*shown]


def _arm_row(score: ArmScore) -> list[Child]:
    passed, total = score.cases
    runs = f"{score.graded} of {score.runs} graded" if score.graded < score.runs else str(score.runs)
    cases = f"{passed} of {total} {interval_text(score.interval)}" if total else UNKNOWN
    return [
        *(foreign("span", arm_name(score.arm)), runs, spread_text(score.rate, percent), cases),
        *(spread_text(score.seconds, amount), spread_text(score.tokens, amount), str(score.failed)),
    ]


def _pair_text(pair: Pairing, iteration: Iteration) -> str:
    return f"{pair.wins} only with the skill, {pair.losses} only {baseline_words(iteration)}"


def _deltas(iteration: Iteration) -> list[str]:
    ours, theirs = score_arm(iteration, iteration.subject), score_arm(iteration, iteration.baseline or "")
    pairs = ((ours.seconds, theirs.seconds), (ours.tokens, theirs.tokens))
    shown = [difference(new.mean - old.mean) if new and old else UNKNOWN for new, old in pairs]
    return [*shown, ""]


def _by_iteration(iterations: Sequence[Iteration]) -> Html:
    arms = dict.fromkeys(arm for iteration in iterations for arm in iteration.arms)
    lines = []
    for arm in arms:
        rates = [score_arm(iteration, arm).rate for iteration in iterations]
        lines.append(Line(arm_name(arm), tuple(rate.mean if rate else None for rate in rates)))
    return rate_chart("rates", "Pass rate by iteration", [each.label for each in iterations], lines)


def _iteration_table(iterations: Iterable[Iteration]) -> Html:
    rows = []
    for iteration in iterations:
        ours = score_arm(iteration, iteration.subject)
        pair = pairing(iteration)
        rows.append(
            [
                foreign("span", iteration.label),
                spread_text(ours.rate, percent),
                foreign("span", _baseline(iteration)),
                f"{points(pair.difference)} {points_interval(pair.interval)}" if pair else UNKNOWN,
                iteration_verdict(iteration).title,
                str(sum(bool((case.feedback or "").strip()) for case in iteration.cases)),
            ]
        )
    heads = ["Iteration", "Pass rate", "Baseline", "Difference (percentage points)", "Verdict", "Cases with feedback"]
    return table("All iterations", heads, rows)


def _baseline(iteration: Iteration) -> str:
    """Return what an iteration was compared with, and which version it was."""
    if iteration.baseline is None:
        return "none"
    version = dict(iteration.facts).get("Old skill", "")
    return f"{arm_name(iteration.baseline)} ({version})" if version else arm_name(iteration.baseline)


def _trigger_summary(triggers: TriggerSet) -> list[Child]:
    faults = triggers.results.faults
    sets, heads = [triggers.results], ["Queries that", "As wanted"]
    if triggers.replaced.results:
        sets.append(triggers.replaced)
        heads = ["Queries that", "As wanted, new description", "As wanted, old description"]
    rows: list[list[Child]] = [
        ["should load the skill", *(_share(each.recall) for each in sets)],
        ["should not load it", *(_share(each.specificity) for each in sets)],
    ]
    failed = tag("p", f"Runs that ended in an error or a timeout: {faults.count:,} of {faults.total:,}.", class_="note")
    return [
        tag("h3", "Triggers: ", foreign("span", triggers.label)),
        verdict_box(triggers.decision) if triggers.decision is not None else None,
        verdict_box(trigger_verdict(triggers)),
        table("Queries with the wanted outcome", heads, rows),
        None if triggers.ranked else failed,
        facts((name, foreign("span", value)) for name, value in triggers.facts),
    ]


def _share(rate: Rate) -> str:
    return f"{rate.count} of {rate.total} {interval_text(rate.interval)}" if rate.total else UNKNOWN


def patterns_section(iteration: Iteration) -> Html | None:
    """Return what the averages hide; None if there is nothing."""
    found = patterns(iteration)
    if not found:
        return None
    rows = [
        [each.kind, foreign("span", each.case), listed([foreign("span", line) for line in each.lines])]
        for each in found
    ]
    hint = "What always passes or always fails says nothing about the skill: correct the assertion, or the case."
    content = table("What the averages hide", ["Kind", "Case", "What"], rows)
    return section("patterns", "Patterns", content, tag("p", hint, class_="note"))


def problems_section(problems: Sequence[str]) -> Html | None:
    """Return the files that could not be used; None if there are none."""
    if not problems:
        return None
    return section("problems", "Files that could not be used", listed([foreign("code", each) for each in problems]))
