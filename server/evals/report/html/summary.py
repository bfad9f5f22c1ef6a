"""The first sections: verdict and rates, patterns, cost, and files that could not be used."""

from __future__ import annotations

from dataclasses import replace
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
    score_triggers,
    trigger_verdict,
)
from skills_core.diagnostics import counted
from skills_core.evals.statistics import wilson

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from server.evals.report.gates import Gate
    from server.evals.report.html.markup import Child
    from server.evals.report.model import ArmScore, Iteration, Pairing, TriggerSet, Workspace

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
    rows = [_arm_row(score) for score in iteration.scores.arms]
    heads = ["Arm", "Runs", "Pass rate", "Cases passed", "Seconds", "Tokens", "Errors"]
    pair = iteration.scores.pairing
    compared = None
    if pair is not None:
        rows.append(["Difference", "", points(pair.difference), _pair_text(pair, iteration), *_deltas(pair)])
        span = f" {points_interval(pair.interval)}" if pair.interval else ""
        compared = tag(
            "p",
            f"Difference of the mean pass rates over {counted(pair.cases, 'case')}, in percentage points: "
            f"{points(pair.difference)}{span}. McNemar's exact test: p = {pair.probability:.3g}.",
            class_="note",
        )
    shown = [
        tag("h3", "Evals: ", foreign("span", iteration.label)),
        verdict_box(iteration.scores.verdict),
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


def _deltas(pair: Pairing) -> list[str]:
    return [*(UNKNOWN if each is None else difference(each) for each in (pair.seconds, pair.tokens)), ""]


def _by_iteration(iterations: Sequence[Iteration]) -> Html:
    arms = dict.fromkeys(arm for iteration in iterations for arm in iteration.arms)
    lines = []
    for arm in arms:
        scores = [iteration.scores.of(arm) for iteration in iterations]
        lines.append(Line(arm_name(arm), tuple(each.rate.mean if each and each.rate else None for each in scores)))
    return rate_chart("rates", "Pass rate by iteration", [each.label for each in iterations], lines)


def _iteration_table(iterations: Iterable[Iteration]) -> Html:
    rows = []
    for iteration in iterations:
        ours, pair = iteration.scores.of(iteration.subject), iteration.scores.pairing
        rows.append(
            [
                foreign("span", iteration.label),
                spread_text(ours.rate if ours else None, percent),
                foreign("span", _baseline(iteration)),
                f"{points(pair.difference)} {points_interval(pair.interval)}" if pair else UNKNOWN,
                iteration.scores.verdict.title,
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
    score = score_triggers(triggers)
    scores, heads = [score], ["Queries that", "As wanted"]
    if triggers.replaced:
        scores.append(score_triggers(replace(triggers, queries=triggers.replaced)))
        heads = ["Queries that", "As wanted, new description", "As wanted, old description"]
    rows: list[list[Child]] = [
        ["should load the skill", *(_share(each.wanted) for each in scores)],
        ["should not load it", *(_share(each.unwanted) for each in scores)],
    ]
    failed = tag("p", f"Runs that ended in an error or a timeout: {score.failed:,} of {score.runs:,}.", class_="note")
    return [
        tag("h3", "Triggers: ", foreign("span", triggers.label)),
        verdict_box(triggers.decision) if triggers.decision is not None else None,
        verdict_box(trigger_verdict(triggers)),
        table("Queries with the wanted outcome", heads, rows),
        None if triggers.ranked else failed,
        facts((name, foreign("span", value)) for name, value in triggers.facts),
    ]


def _share(counts: tuple[int, int]) -> str:
    passed, total = counts
    return f"{passed} of {total} {interval_text(wilson(passed, total))}" if total else UNKNOWN


def patterns_section(iteration: Iteration) -> Html | None:
    """Return what the averages hide; None if there is nothing."""
    found = iteration.scores.patterns
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
