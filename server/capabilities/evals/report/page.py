"""The report as one self-contained HTML page that requests nothing from outside, from the templates beside it.

Every text that is not ours is escaped, and what is hidden in it is shown. The content security policy allows the page's
own style sheet and script by their digests, images as data, and connections only to the server that serves the page. So
even markup that escaped our escaping would not run.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import SequenceMatcher
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from server.capabilities.evals.report.ci import GateOutcome
from server.capabilities.evals.report.model import RunCosts, Tone
from server.capabilities.evals.report.scores import (
    UNKNOWN,
    amount,
    baseline_words,
    check_scores,
    difference,
    interval_text,
    money,
    percent,
    points,
    points_interval,
    size_text,
    spread_text,
)
from server.capabilities.evals.report.trigger_results import trigger_verdict
from server.capabilities.evals.workspace import STALE_SECONDS
from skills_core.diagnostics import agreeing, counted, without_lone_surrogates
from skills_core.evals.statistics import wilson
from skills_core.texts import with_hidden_shown

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


_WORD = re.compile(r"\s+|\w+|[^\w\s]")

MAX_COMPARED: Final = 8000
"""Characters of a description that are compared; the specification allows 1,024."""

_MIN_EQUAL: Final = 3
# Fewer words that stay between two changes make a difference hard to read.


def description_diff(before: str, after: str) -> list[tuple[str, str]]:
    """Return the new text in pieces, each `kept`, `added` or `removed`."""
    if max(len(before), len(after)) > MAX_COMPARED:
        words = f"(longer than {MAX_COMPARED:,} characters, so only its beginning is shown) {after[:MAX_COMPARED]}"
        return [("kept", words)]
    old, new = _WORD.findall(before), _WORD.findall(after)
    return list(_pieces(old, new))


def _pieces(old: list[str], new: list[str]) -> Iterator[tuple[str, str]]:
    for is_equal, of_old, of_new in _stretches(old, new):
        removed, added = "".join(old[of_old]), "".join(new[of_new])
        if is_equal:
            yield "kept", added
            continue
        if removed:
            yield "removed", removed
        if added:
            yield "added", added


def _stretches(old: list[str], new: list[str]) -> Iterator[tuple[bool, slice, slice]]:
    """Yield what is equal and what is changed; a word or two between changes belong to one change."""
    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    changed: tuple[int, int] | None = None
    for place, (kind, low, _, start, end) in enumerate(codes):
        inner = changed is not None and place < len(codes) - 1
        if kind != "equal" or (inner and sum(map(str.isalnum, new[start:end])) < _MIN_EQUAL):
            changed = changed or (low, start)
            continue
        if changed:
            yield False, slice(changed[0], low), slice(changed[1], start)
            changed = None
        yield True, slice(low, low + end - start), slice(start, end)
    if changed:
        yield False, slice(changed[0], len(old)), slice(changed[1], len(new))


_WIDTH, _HEIGHT = 640, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 8, 14, 34

_INSET = 56
# Of the first and the last position, for the points beside it and half of its label.

_APART = 14
# Between two lines at one position, so that equal rates do not hide one another.

_STYLES: Final = 4
# Styles of lines in the style sheet, and shapes of points in the template; further lines repeat them.

_MAX_LABELS = 12
# Labels of the horizontal axis that fit beside one another.


@dataclass(frozen=True, slots=True)
class Line:
    """The rates of one arm or set, by position; None where there is none. `intervals` are 95 % intervals."""

    name: str
    rates: tuple[float | None, ...]
    intervals: tuple[tuple[float, float] | None, ...] = ()


class Series(NamedTuple):
    """A line as it is drawn: its points, and its intervals as (x, y of the low end, y of the high end)."""

    name: str
    style: int
    points: list[tuple[float, float]]
    whiskers: list[tuple[float, float, float]]


class Chart(NamedTuple):
    """A chart as it is drawn, with its numbers in `words`. `grid` and `ticks` are the labels of both axes."""

    series: list[Series]
    words: str
    grid: list[tuple[float, str]]
    ticks: list[tuple[float, str]]
    width: int = _WIDTH
    height: int = _HEIGHT
    left: int = _LEFT
    right: int = _WIDTH - _RIGHT


def draw_chart(labels: Sequence[str], lines: Sequence[Line]) -> Chart:
    """Return where the parts of the chart of some lines are; the labels are those of the positions."""
    words = [f"{line.name}: {', '.join(percent(rate) for rate in line.rates)}" for line in lines]
    series = [_drawn(line, number, len(lines), len(labels)) for number, line in enumerate(lines)]
    grid = [(_y(step / 4), percent(step / 4)) for step in range(5)]
    return Chart(series, "; ".join(words), grid, list(_ticks(labels)))


def _ticks(labels: Sequence[str]) -> Iterator[tuple[float, str]]:
    every = -(-len(labels) // _MAX_LABELS) or 1
    for place in range(0, len(labels), every):
        shown = labels[place] if len(labels[place]) <= len("iteration-100") else f"{labels[place][:11]}…"
        yield _x(place, len(labels)), shown


def _drawn(line: Line, number: int, lines: int, places: int) -> Series:
    # Lines are moved to the side, less where positions are close together.
    apart = min(_APART, 1.6 * _INSET / max(1, lines - 1), (_WIDTH - _LEFT - _RIGHT) / max(1, places) / (lines + 1))
    at = [round(_x(place, places) + apart * (number - (lines - 1) / 2), 1) for place in range(places)]
    return Series(
        line.name,
        number % _STYLES,
        [(x, _y(rate)) for x, rate in zip(at, line.rates, strict=True) if rate is not None],
        [(x, _y(ends[0]), _y(ends[1])) for x, ends in zip(at, line.intervals, strict=False) if ends is not None],
    )


def _x(place: int, places: int) -> float:
    room = _WIDTH - _LEFT - _RIGHT - 2 * _INSET
    return round(_LEFT + _INSET + (room / 2 if places == 1 else room * place / (places - 1)), 1)


def _y(rate: float) -> float:
    return round(_TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - rate), 1)


REFRESH_SECONDS: Final = 5
"""How often the page looks for new results while the work runs."""

_TONE_MARKS: Final = {Tone.GOOD: "✓", Tone.BAD: "✗", Tone.MIXED: "±", Tone.NONE: "?"}

_GATE_BADGES: Final = {
    GateOutcome.PASSED: ("good", "✓ passed"),
    GateOutcome.FAILED: ("bad", "✗ failed"),
    GateOutcome.NO_VERDICT: ("none", "? no verdict"),
}

# Unicode's noncharacters, which a parser of HTML reports as errors.
_FORBIDDEN = re.compile("[\ufdd0-\ufdef\ufffe\uffff]")


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
        style=Markup(_asset("report.css")),  # noqa: S704 - ours
        script=Markup(_asset("report.js")),  # noqa: S704 - ours
        earlier_feedback=_feedback_before(workspace),
        iteration_lines=_iteration_lines(workspace.iterations),
        costs=costs,
        total_cost=_sum([spent for _, spent in costs]),
        **(_of_triggers(workspace.triggers, triggers) if triggers else {}),
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("server.capabilities.evals.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["arm"] = _arm_name
    environment.globals |= {
        "baseline_name": _baseline_name,
        "baseline_words": baseline_words,
        "check_scores": check_scores,
        "counted": counted,
        "interval_text": interval_text,
        "money": money,
        "percent": percent,
        "points": points,
        "points_interval": points_interval,
        "size_text": size_text,
        "spread_text": spread_text,
        "amount": amount,
        "difference": difference,
        "draw_chart": draw_chart,
        "evidence_of": _evidence_of,
        "feedback_count": _feedback_count,
        "gate_badges": _GATE_BADGES,
        "refresh": REFRESH_SECONDS,
        "run_numbers": _run_numbers,
        "stale": STALE_SECONDS,
        "tone_marks": _TONE_MARKS,
        "trigger_verdict": trigger_verdict,
        "unknown": UNKNOWN,
        "zip": zip,
    }
    return environment


def _visible(value: Any) -> Any:  # noqa: ANN401 - what a template shows
    """Return a text with what is hidden in it shown, for the template to escape; markup of ours stays as it is."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    shown = with_hidden_shown(without_lone_surrogates(value).replace("\r\n", "\n"))
    return _FORBIDDEN.sub("\ufffd", shown)


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
    shown += [money(run.cost)] * (run.cost is not None)
    return ", ".join(filter(None, shown))


def _number_of(value: float | None, noun: str) -> str:
    """Return a number that may be a mean with its noun; empty if it is not known."""
    return "" if value is None else f"{amount(value)} {agreeing(1 if value == 1 else 2, noun, f'{noun}s')}"


def _iteration_lines(iterations: Sequence[Iteration]) -> list[Line]:
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
        f"style-src '{_digest(_asset('report.css'))}'",
        f"script-src '{_digest(_asset('report.js'))}'",
        f"connect-src {connections}",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join(rules)


@cache
def _asset(name: str) -> str:
    content = (files("server.capabilities.evals.report") / "assets" / name).read_text(encoding="utf-8")
    # The parser of HTML turns line ends into \n before the browser compares the digest.
    return content.replace("\r\n", "\n")


def _digest(content: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode('ascii')}"
