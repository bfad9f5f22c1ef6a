"""The section of trigger queries: outcomes by query, rates by round, descriptions as differences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.evals.report.html.chart import Line, rate_chart
from server.evals.report.html.diff import description_diff
from server.evals.report.html.markup import Child, Html, foreign, join, tag
from server.evals.report.html.parts import badge, section, table
from server.evals.report.html.transcript import transcript_block
from server.evals.report.numbers import percent
from skills_core.diagnostics import counted
from skills_core.evals.statistics import wilson

if TYPE_CHECKING:
    from collections.abc import Sequence

    from server.evals.report.model import RoundScore, TriggerRound, TriggerSet
    from skills_core.evals.triggers.results import QueryResult

__all__ = ["triggers_section"]


def triggers_section(found: Sequence[TriggerSet]) -> Html | None:
    """Return the newest trigger results in full, and the rates of all; None without any."""
    if not found:
        return None
    newest = found[-1]
    return section(
        "triggers",
        f"Trigger queries of {newest.label}",
        _by_measurement(found) if len(found) > 1 else None,
        _described(newest),
        _queries(newest),
        _transcripts(newest),
        _rounds(newest),
    )


def _described(triggers: TriggerSet) -> Html | None:
    if not triggers.description:
        return None
    whose = foreign("p", f"Measured: {triggers.measured}.", class_="note") if triggers.measured else None
    return join(tag("h3", "Description"), foreign("blockquote", triggers.description), whose)


def _by_measurement(found: Sequence[TriggerSet]) -> Html:
    rates, intervals = [], []
    for each in found:
        rate = each.results.passed
        rates.append(rate.value)
        intervals.append(rate.interval if rate.total else None)
    line = Line("queries with the wanted outcome", tuple(rates), tuple(intervals))
    return rate_chart("measurements", "Queries as wanted by measurement", [each.label for each in found], [line])


def _queries(triggers: TriggerSet) -> Html | None:
    if not triggers.results.results:
        return tag("p", "No query has been run.", class_="note")
    heads = ["Query", "Should load", "Outcome", "Loaded", "Rate", "95 % interval", "Not counted", "Set"]
    return table("Outcomes by query", heads, [_row(each) for each in triggers.results.results])


def _row(result: QueryResult) -> list[Child]:
    query, rate = result.query, result.rate
    outcome = {True: badge("good", "✓ as wanted"), False: badge("bad", "✗ missed"), None: badge("none", "no outcome")}
    interval = f"{rate.interval.low:.2f} to {rate.interval.high:.2f}" if rate.total else ""
    lost = [counted(result.errors, "error")] * bool(result.errors) + [f"{result.denied:,} denied"] * bool(result.denied)
    outcomes = tag("details", tag("summary", "Runs"), foreign("span", ", ".join(result.outcomes)))
    return [
        foreign("span", query.text),
        "yes" if query.should_trigger else "no",
        join(outcome[result.passed], outcomes if result.outcomes else None),
        f"{rate.count} of {rate.total}",
        percent(rate.value),
        interval,
        join(", ".join(lost), foreign("p", result.error) if result.error else None),
        foreign("span", query.split or ""),
    ]


def _transcripts(triggers: TriggerSet) -> Html | None:
    shown = []
    for place, each in enumerate(triggers.results.results, 1):
        runs = [
            transcript_block(
                f"Run {number}: {outcome}",
                f"Transcript of query {place}, run {number}",
                transcript,
                f"{triggers.label}/transcripts",
            )
            for number, (outcome, path) in enumerate(zip(each.outcomes, each.transcripts, strict=False), 1)
            if (transcript := triggers.transcripts.get(path))
        ]
        if runs:
            shown.append(tag("details", tag("summary", foreign("span", each.query.text)), *runs, class_="runs"))
    return join(tag("h3", "Transcripts"), *shown) if shown else None


def _rounds(triggers: TriggerSet) -> Html | None:
    if not triggers.rounds:
        return None
    sets = list(dict.fromkeys(name for each in triggers.rounds for name, _ in each.scores))
    labels = [f"round {each.number}" for each in triggers.rounds]
    lines = [_line(name, triggers.rounds) for name in sets]
    chart = rate_chart("rounds", "Pass rate by round", labels, lines) if lines else None
    return join(tag("h3", "Rounds of the description"), chart, *_descriptions(triggers, sets))


def _line(name: str, rounds: Sequence[TriggerRound]) -> Line:
    scores = [dict(each.scores).get(name) for each in rounds]
    return Line(name, tuple(score.rate if score else None for score in scores), tuple(map(_interval, scores)))


def _interval(score: RoundScore | None) -> tuple[float, float] | None:
    if score is None or score.passed is None or not score.total or score.passed > score.total:
        return None
    low, high = wilson(score.passed, score.total)
    return low, high


def _descriptions(triggers: TriggerSet, sets: Sequence[str]) -> list[Html]:
    shown, before = [], ""
    for each in triggers.rounds:
        words = [f"{name} {_score_text(dict(each.scores).get(name))}" for name in sets if name in dict(each.scores)]
        best = badge("good", "★ best") if each.number == triggers.best else None
        heading = tag("h4", f"Round {each.number} ", best)
        change = description_diff(before, each.description) if before else foreign("p", each.description, class_="diff")
        note = foreign("p", each.note, class_="note") if each.note else None
        length = counted(len(each.description), "character")
        scores = tag("p", "; ".join([*words, length]), class_="note")
        shown.append(tag("div", heading, scores, change, note, class_="round"))
        before = each.description or before
    return shown


def _score_text(score: RoundScore | None) -> str:
    if score is None:
        return ""
    counts = f" ({score.passed} of {score.total})" if score.passed is not None and score.total is not None else ""
    return f"{percent(score.rate)}{counts}"
