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
from server.capabilities.evals.report.model import RunCosts, Tone
from server.capabilities.evals.report.scores import (
    check_scores,
    difference,
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
from server.html.words import UNKNOWN, amount, dollars, percent
from skills_core.diagnostics import agreeing
from skills_core.evals.statistics import wilson

if TYPE_CHECKING:
    from server.capabilities.evals.report.ci import CiGate
    from server.capabilities.evals.report.model import (
        Case,
        Iteration,
        Results,
        RoundScore,
        Run,
        TriggerRound,
        TriggerSet,
    )
    from skills_core.evals.grading.results import AssertionResult


REFRESH_SECONDS: Final = 5
"""How often the page looks for new results while the work runs."""

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
    shown = {
        "summary": True,
        "patterns": newest and newest.scores.patterns,
        "cases": newest,
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
        earlier_feedback=_feedback_before(workspace),
        iteration_lines=iteration_lines(workspace.iterations),
        costs=costs,
        total_cost=_sum([spent for _, spent in costs]),
        **(_of_triggers(workspace.triggers, triggers) if triggers else {}),
    )


@cache
def _environment() -> Environment:
    environment = template_environment(
        PackageLoader("server.capabilities.evals.report"),
        {
            "baseline_name": _baseline_name,
            "check_scores": check_scores,
            "interval_text": interval_text,
            "points": points,
            "points_interval": points_interval,
            "spread_text": spread_text,
            "amount": amount,
            "difference": difference,
            "evidence_of": _evidence_of,
            "feedback_count": _feedback_count,
            "gate_badges": _GATE_BADGES,
            "refresh": REFRESH_SECONDS,
            "run_numbers": _run_numbers,
            "stale": STALE_SECONDS,
            "tone_marks": _TONE_MARKS,
            "trigger_verdict": trigger_verdict,
            "unknown": UNKNOWN,
        },
    )
    environment.filters["arm"] = _arm_name
    return environment


def _arm_name(arm: str) -> str:
    return arm.replace("_", " ")


def _baseline_name(iteration: Iteration) -> str:
    """Return what an iteration was compared with, and which version it was."""
    if iteration.baseline is None:
        return "none"
    version = dict(iteration.facts).get("Old skill", "")
    return f"{_arm_name(iteration.baseline)} ({version})" if version else _arm_name(iteration.baseline)


def _feedback_count(iteration: Iteration) -> int:
    return sum(bool((case.feedback or "").strip()) for case in iteration.cases)


def _feedback_before(workspace: Results) -> Mapping[str, str]:
    """Return the feedback on the cases of the iteration before the newest."""
    return {case.key: case.feedback for each in workspace.iterations[-2:-1] for case in each.cases if case.feedback}


def _evidence_of(case: Case, arm: str, assertion: str) -> list[tuple[Run, AssertionResult]]:
    runs = case.of(arm)
    return [(run, check) for run in runs for check in run.checks if check.text == assertion and check.evidence]


def _run_numbers(run: Run) -> str:
    shown = [percent(run.rate)]
    shown += [f"{amount(run.seconds)} s"] * (run.seconds is not None)
    shown += [_number_of(run.tokens, "token"), _number_of(run.tool_calls, "tool call")]
    shown += [dollars(run.cost)] * (run.cost is not None)
    return ", ".join(filter(None, shown))


def _number_of(value: float | None, noun: str) -> str:
    """Return a number that may be a mean with its noun; empty if it is not known."""
    return "" if value is None else f"{amount(value)} {agreeing(1 if value == 1 else 2, noun, f'{noun}s')}"


def iteration_lines(iterations: Sequence[Iteration]) -> list[Line]:
    """Return the lines of a chart of the pass rates, one for each arm."""
    lines = []
    for arm in dict.fromkeys(arm for iteration in iterations for arm in iteration.arms):
        scores = [iteration.scores.of(arm) for iteration in iterations]
        lines.append(Line(_arm_name(arm), tuple(each.rate.mean if each and each.rate else None for each in scores)))
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
            f"{iteration.label}, {_arm_name(arm)}",
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


def _script() -> str:
    return asset("server.capabilities.evals.report", "report.js")
