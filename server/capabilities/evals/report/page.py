"""The report as one self-contained HTML page that requests nothing from outside, from the templates beside it.

Every text that is not ours is escaped, and what is hidden in it is shown. The content security policy allows the page's
own style sheet and script by their digests, images as data, and connections only to the server that serves the page. So
even markup that escaped our escaping would not run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from server.capabilities.evals.report.ci import GateOutcome
from server.capabilities.evals.report.details import Parts, arm_name
from server.capabilities.evals.report.model import RunCosts, Tone
from server.capabilities.evals.report.overview import (
    LONGEST_NAME,
    OUTCOMES,
    STATES,
    baseline_words,
    case_rows,
)
from server.capabilities.evals.report.scores import (
    difference,
    further_bounds,
    interval_text,
    points,
    points_interval,
    spread_text,
)
from server.capabilities.evals.report.trigger_results import trigger_verdict
from server.capabilities.evals.workspace import STALE_SECONDS
from server.html.asset_files import asset, base_style, source_digest
from server.html.charts import Line
from server.html.differences import description_diff
from server.html.environment import template_environment
from server.html.words import UNKNOWN, amount
from skills_core.evals.statistics import wilson

if TYPE_CHECKING:
    from server.capabilities.evals.report.ci import CiGate
    from server.capabilities.evals.report.model import (
        ArmScore,
        Iteration,
        Results,
        RoundScore,
        TriggerRound,
        TriggerSet,
    )
    from server.capabilities.evals.report.overview import CaseRow
    from skills_core.evals.triggers.results import QueryResult


REFRESH_SECONDS: Final = 5
"""How often the page looks for new results while the work runs."""

MOST_ROWS: Final = 40
"""Rows of a list beside the cases, such as patterns; the rest is a number, and lies in the cases."""

_CHARTED: Final = 12
# Cases in the chart of the first screen; all are in the list.

_MOST_LINES: Final = 6
# Lines of one pattern.

_SCRIPTS: Final = ("elements.js", "comparison.js", "details.js", "feedback.js", "cases.js", "refresh.js")

_TONE_MARKS: Final = {Tone.GOOD: "✓", Tone.BAD: "✗", Tone.MIXED: "±", Tone.NONE: "?"}

_GATE_BADGES: Final = {
    GateOutcome.PASSED: ("good", "✓ passed"),
    GateOutcome.FAILED: ("bad", "✗ failed"),
    GateOutcome.NO_VERDICT: ("none", "? no verdict"),
}


@dataclass(frozen=True, slots=True)
class PageOptions:
    """How a page is made: `served` pages save feedback; `running` ones refresh themselves."""

    generated: datetime
    served: bool = False
    running: bool = False
    gates: Sequence[CiGate] = ()


def render_page(workspace: Results, options: PageOptions) -> str:
    """Return the page."""
    newest = workspace.iterations[-1] if workspace.iterations else None
    triggers = workspace.triggers[-1] if workspace.triggers else None
    costs = list(_costs(workspace))
    rows = case_rows(newest) if newest else []
    changed = newest.scores.changed if newest else ()
    shown = {
        "summary": True,
        "cases": newest,
        "patterns": newest and newest.scores.patterns,
        "numbers": newest,
        "triggers": triggers,
        "cost": costs,
        "problems": workspace.problems,
    }
    page = _environment().get_template("page.html")
    return page.render(
        workspace=workspace,
        options=options,
        newest=newest,
        triggers=triggers,
        sections=[name for name, content in shown.items() if content],
        made=f"{options.generated:%Y-%m-%d %H:%M:%S UTC}",
        policy=content_policy(served=options.served),
        style=Markup(_style()),  # noqa: S704 - ours
        script=Markup(_script()),  # noqa: S704 - ours
        rows=rows,
        row_of={row.case.key: row for row in rows},
        lost=[each for each in changed if each.difference < 0],
        gained=[each for each in changed if each.difference > 0],
        parts=Markup("\n".join(_parts(workspace, options, rows))),  # noqa: S704 - Base64
        iteration_lines=iteration_lines(workspace.iterations[-MOST_ROWS:]),
        costs=costs,
        total_cost=_sum([spent for _, spent in costs]),
        earlier_cost=_sum([spent for _, spent in costs[:-MOST_ROWS]]),
        queries=_queries(triggers),
        **(_of_triggers(workspace.triggers, triggers) if triggers else {}),
    )


@cache
def _environment() -> Environment:
    environment = template_environment(
        PackageLoader("server.capabilities.evals.report"),
        {
            "baseline_name": _baseline_name,
            "baseline_words": baseline_words,
            "interval_text": interval_text,
            "points": points,
            "points_interval": points_interval,
            "spread_text": spread_text,
            "amount": amount,
            "difference": difference,
            "further_bounds": further_bounds,
            "feedback_count": _feedback_count,
            "gate_badges": _GATE_BADGES,
            "refresh": REFRESH_SECONDS,
            "charted": _CHARTED,
            "most_lines": _MOST_LINES,
            "most_rows": MOST_ROWS,
            "outcomes": OUTCOMES,
            "states": STATES,
            "effect_places": effect_places,
            "money_per_run": _money_per_run,
            "stale": STALE_SECONDS,
            "tone_marks": _TONE_MARKS,
            "trigger_verdict": trigger_verdict,
            "unknown": UNKNOWN,
        },
    )
    environment.filters["arm"] = arm_name
    environment.filters["cut"] = _cut
    return environment


def _cut(text: str, length: int = LONGEST_NAME) -> str:
    return text if len(text) <= length else f"{text[:length]}…"


def _baseline_name(iteration: Iteration) -> str:
    """Return what an iteration was compared with, and which version it was."""
    if iteration.baseline is None:
        return "none"
    version = dict(iteration.facts).get("Old skill", "")
    return f"{arm_name(iteration.baseline)} ({version})" if version else arm_name(iteration.baseline)


def _feedback_count(iteration: Iteration) -> int:
    return sum(bool((case.feedback or "").strip()) for case in iteration.cases)


def _feedback_before(workspace: Results) -> Mapping[str, str]:
    """Return the feedback on the cases of the iteration before the newest."""
    return {case.key: case.feedback for each in workspace.iterations[-2:-1] for case in each.cases if case.feedback}


def _parts(workspace: Results, options: PageOptions, rows: Sequence[CaseRow]) -> Sequence[str]:
    """Return the parts that the page holds; a served page asks for those of cases when they are opened."""
    newest = workspace.iterations[-1] if workspace.iterations and not options.served else None
    triggers = workspace.triggers[-1] if workspace.triggers else None
    queries = _queries(triggers)
    runs = sum(len(case.runs) for case in newest.cases) if newest else 0
    parts = Parts((len(rows) if newest else 0) + len(queries), runs)
    if newest:
        earlier = _feedback_before(workspace)
        for row in rows:
            parts.add_case(row.id, newest, row.case, earlier.get(row.case.key))
    if triggers:
        for place, query in enumerate(queries, 1):
            parts.add_query(f"query-{place}", triggers, query)
    return parts.lines


def _queries(triggers: TriggerSet | None) -> list[QueryResult]:
    """Return the queries with transcripts."""
    found = triggers.results.results if triggers else ()
    return [each for each in found if triggers and any(map(triggers.transcripts.get, each.transcripts))]


def _money_per_run(score: ArmScore | None) -> float | None:
    return score.cost / score.runs if score and score.cost is not None and score.runs else None


def effect_places(low: float, high: float | None = None) -> tuple[float, float]:
    """Return where a stretch of differences begins on a chart 200 wide, from -1 on the left to 1, and its width."""
    ends = sorted((low, low if high is None else high))
    left, right = (round(100 + 100 * min(1.0, max(-1.0, end)), 1) for end in ends)
    return left, round(right - left, 1)


def iteration_lines(iterations: Sequence[Iteration]) -> list[Line]:
    """Return the lines of a chart of the pass rates, one for each arm."""
    lines = []
    for arm in dict.fromkeys(arm for iteration in iterations for arm in iteration.arms):
        scores = [iteration.scores.of(arm) for iteration in iterations]
        lines.append(Line(arm_name(arm), tuple(each.rate.mean if each and each.rate else None for each in scores)))
    return lines


def _of_triggers(found: Sequence[TriggerSet], newest: TriggerSet) -> Mapping[str, Any]:
    names = dict.fromkeys(name for each in newest.rounds for name, _ in each.scores)
    return {
        "measurement_lines": [_measurement_line(found)],
        "round_labels": [f"round {each.number}" for each in newest.rounds],
        "round_lines": [_round_line(name, newest.rounds) for name in names],
        "rounds": list(_rounds(newest.rounds)),
    }


def _measurement_line(found: Sequence[TriggerSet]) -> Line:
    rates = [each.results.passed for each in found]
    intervals = tuple(rate.interval if rate.total else None for rate in rates)
    return Line("queries with the wanted outcome", tuple(rate.value for rate in rates), intervals)


def _round_line(name: str, rounds: Sequence[TriggerRound]) -> Line:
    scores = [dict(each.scores).get(name) for each in rounds]
    return Line(name, tuple(score.rate if score else None for score in scores), tuple(map(_interval, scores)))


def _interval(score: RoundScore | None) -> tuple[float, float] | None:
    if score is None or score.passed is None or not score.total or score.passed > score.total:
        return None
    return wilson(score.passed, score.total)


def _rounds(rounds: Iterable[TriggerRound]) -> Iterator[tuple[TriggerRound, list[tuple[str, str]]]]:
    """Yield each round with what its description changes."""
    before = ""
    for each in rounds:
        yield each, description_diff(before, each.description) if before else [("kept", each.description)]
        before = each.description or before


def _costs(workspace: Results) -> Iterator[tuple[str, RunCosts]]:
    """Yield the known costs of each arm of each iteration, and of trigger queries."""
    found = [each for iteration in workspace.iterations for each in _of_arms(iteration)]
    found += [(each.label, each.spent) for each in workspace.triggers]
    for name, spent in found:
        if any(value is not None for value in (spent.seconds, spent.tokens, spent.cost)):
            yield name, spent


def _of_arms(iteration: Iteration) -> Iterator[tuple[str, RunCosts]]:
    for arm in iteration.arms:
        runs = [run for case in iteration.cases for run in case.of(arm)]
        yield (
            f"{iteration.label}, {arm_name(arm)}",
            _sum([RunCosts(1, run.seconds, run.tokens, run.cost) for run in runs]),
        )


def _sum(found: Sequence[RunCosts]) -> RunCosts:
    return RunCosts(
        sum(each.runs for each in found),
        _total(each.seconds for each in found),
        _total(each.tokens for each in found),
        _total(each.cost for each in found),
    )


def _total(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def content_policy(*, served: bool) -> str:
    """Return the content security policy of a page."""
    connections = "'self'" if served else "'none'"
    rules = [
        "default-src 'none'",
        "img-src data:",
        f"style-src '{source_digest(_style())}'",
        f"script-src '{source_digest(_script())}'",
        f"connect-src {connections}",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join(rules)


@cache
def _style() -> str:
    return base_style() + asset("server.capabilities.evals.report", "report.css")


@cache
def _script() -> str:
    """Return the scripts of the page as one, because the policy allows one."""
    texts = "\n".join(asset("server.capabilities.evals.report", name) for name in _SCRIPTS)
    return f'"use strict";\n(() => {{\n{texts}}})();\n'
