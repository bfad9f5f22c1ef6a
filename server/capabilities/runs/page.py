"""The runs on the page for operators: a list, the latest first, and the trace of one as a timeline.

A trace is a file that anything may have been written into: values of another kind than expected are shown as they are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from server.capabilities.runs.run_reading import read_run, read_runs, without_secrets_of
from server.capabilities.runs.settings import RunSettings
from server.capability import PageAction, PageParts, PageTab
from server.html.paging import page_number, paged
from skills_core.errors import SkillsError
from skills_core.guard.tool import CallDecision
from skills_core.runs.models import ModelUnavailableError, has_extra, parse_model, price_of
from skills_core.runs.outcome import ActivationOrigin, Usage

if TYPE_CHECKING:
    from server.capability import Visit
    from server.config.settings.model import Settings
    from server.hosting.host import Host
    from skills_core.skills.skill import Skill

PATH: Final = "/page/runs"
PAGE_SIZE: Final = 50
"""Runs on one page of the list."""

MAX_STEPS: Final = 300
"""Steps of a timeline that are shown."""

_UNFINISHED: Final = frozenset({"waiting", "running", "interrupted"})
_KINDS: Final = {
    "completed": "good",
    "failed": "bad",
    "refused": "bad",
    "cancelled": "none",
    "interrupted": "mixed",
    "running": "mixed",
    "waiting": "none",
}
_GOOD: Final = frozenset({CallDecision.DONE.value, "done"})
_NOT_TAKEN: Final = frozenset({"skipped", "not_reached"})


class ShownRun(NamedTuple):
    """A run as the page shows it. `seconds`, `tokens` and `dollars` are None if they are not known.

    `name` is that of the skill or the workflow, `skill` the skill itself if the visitor sees it. `kind` is that of the
    badge of its `state`.
    """

    run_id: str
    address: str
    name: str
    is_workflow: bool
    skill: Skill | None
    state: str
    kind: str
    model: str
    started: str
    seconds: float | None
    tokens: int | None
    dollars: float | None
    trigger: str
    problem: str
    can_be_cancelled: bool


class TraceStep(NamedTuple):
    """A step of a run: `offset` and `seconds` say when it began and how long it took, None if that is not known.

    `begin` and `length` are the same in hundredths of the run. `texts` are what went in and came out, with headings.
    """

    title: str
    name: str
    outcome: str
    kind: str
    offset: float | None
    seconds: float | None
    texts: Sequence[tuple[str, str]]
    address: str = ""
    begin: float = 0.0
    length: float = 0.0


def page_parts(host: Host) -> PageParts:
    """Return the tab of runs, and the action that cancels one."""
    return PageParts(
        tabs=(PageTab("runs", "Runs", "runs/runs.html", partial(_show, host)),),
        actions=(PageAction("cancel_run", partial(_cancel, host)),),
    )


def run_kind(state: str) -> str:
    """Return the kind of the badge of a run in a state."""
    return _KINDS.get(state, "none")


def run_address(run_id: str) -> str:
    """Return the address of the page of a run."""
    return f"{PATH}?run={quote(run_id.encode('utf-8', 'replace'), safe='')}"


def _show(host: Host, visit: Visit) -> Mapping[str, Any] | None:
    run_id = visit.query.get("run")
    return _listed(host.settings, visit) if run_id is None else _timeline(host.settings, run_id, visit)


def _listed(settings: Settings, visit: Visit) -> Mapping[str, Any]:
    faults: list[str] = []
    traces = read_runs(settings, faults.append)
    page = paged(traces, PAGE_SIZE, page_number(visit.query), PATH)
    shown = without_secrets_of(settings, [*page.entries])
    runs = [_run(settings, each, visit) for each in shown]
    return {"run": None, "page": page, "runs": runs, "faults": faults}


def _timeline(settings: Settings, run_id: str, visit: Visit) -> Mapping[str, Any] | None:
    from skills_core.runs.trace import UnknownTraceError, UnreadableTraceError

    faults: list[str] = []
    try:
        trace = without_secrets_of(settings, read_run(settings, run_id, faults.append))
    except UnreadableTraceError as error:
        return {"run": None, "page": None, "runs": [], "faults": [str(error)]}
    except UnknownTraceError:
        return None
    run = _run(settings, trace, visit)
    steps = [*_steps(settings, trace, faults)]
    return {
        "run": run,
        "faults": faults,
        "facts": [*_facts(trace, run)],
        "message": _text(trace.get("message")),
        "inputs": [*_texts(*((name.capitalize(), trace.get(name)) for name in ("request", "parameters", "inputs")))],
        "output": _text(trace.get("output")),
        "steps": _placed(steps[:MAX_STEPS], run.seconds),
        "left_out": max(0, len(steps) - MAX_STEPS),
    }


def _run(settings: Settings, trace: Mapping[str, Any], visit: Visit) -> ShownRun:
    state, workflow = _text(trace.get("status")), _text(trace.get("workflow"))
    name, usage, model = workflow or _text(trace.get("skill")), _usage(trace.get("usage")), _text(trace.get("model"))
    run_id = _text(trace.get("run_id"))
    return ShownRun(
        run_id=run_id,
        address=run_address(run_id),
        name=name or "unknown",
        is_workflow=bool(workflow),
        skill=None if workflow else visit.view.catalog.get(name),
        state=state or "unknown",
        kind=run_kind(state),
        model=model,
        started=_text(trace.get("started")),
        seconds=_lasted(trace, state),
        tokens=None if usage is None else usage.input_tokens + usage.output_tokens,
        dollars=None if usage is None else _price(settings, model, usage),
        trigger=_text(trace.get("trigger_reason")),
        problem=_text(trace.get("problem")),
        can_be_cancelled=state in _UNFINISHED and visit.may_change and has_extra(),
    )


def _lasted(trace: Mapping[str, Any], state: str) -> float | None:
    """Return how long a run took in seconds, or has taken so far, None if that is not known."""
    begin, end = _moment(trace.get("started")), _moment(trace.get("ended"))
    if state == "running":
        end = datetime.now(UTC)
    return None if begin is None or end is None else max(0.0, (end - begin).total_seconds())


def _price(settings: Settings, model: str, usage: Usage) -> float | None:
    try:
        return price_of(parse_model(model), usage, settings.section(RunSettings).prices)
    except ModelUnavailableError:
        return None


def _usage(value: object) -> Usage | None:
    match value:
        case {"input_tokens": int(given), "output_tokens": int(made)}:
            return Usage(0, given, made)
    return None


def _facts(trace: Mapping[str, Any], run: ShownRun) -> Iterator[tuple[str, str]]:
    yield "Run", run.run_id
    yield "Trace", _text(trace.get("trace_id"))
    if run.trigger:
        yield "Started by", run.trigger
    if run.model:
        yield "Model", run.model
    if digest := _text(trace.get("digest")):
        yield "Digest", digest
    for score in _objects([trace.get("score")]):
        yield "Score", _text(score.get("overall"))
    for each in _objects(trace.get("activated_skills")):
        origin = _text(each.get("origin"))
        how = "the model called it" if origin == ActivationOrigin.CALLED.value else origin.replace("_", " ")
        yield "Activated", f"{_text(each.get('skill'))} ({how})"


def _steps(settings: Settings, trace: Mapping[str, Any], faults: list[str]) -> Iterator[TraceStep]:
    begin = _moment(trace.get("started"))
    for event in _objects(trace.get("events")):
        kind, at = _text(event.get("kind")), _moment(event.get("at"))
        offset = None if begin is None or at is None else max(0.0, (at - begin).total_seconds())
        if kind == "model":
            yield _model_step(event, offset)
        elif kind == "tool":
            yield _tool_step(event, offset)
        elif kind == "score":
            yield _score_step(event, offset)
        else:
            yield TraceStep(
                "Step", kind or "unknown", "", "none", offset, None, [*_texts(("As it is recorded", event))]
            )
    for step in _objects(trace.get("steps")):
        yield _workflow_step(settings, step, begin, faults)


def _model_step(event: Mapping[str, Any], offset: float | None) -> TraceStep:
    error, finish = _text(event.get("error")), _text(event.get("finish"))
    wanted = [_text(each) for each in event.get("wanted") or ()] if isinstance(event.get("wanted"), list) else []
    usage = _usage(event.get("usage"))
    tokens = "" if usage is None else f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
    texts = _texts(("Answer", event.get("text")), ("Calls", "\n".join(wanted)), ("Error", error))
    outcome = "failed" if error else ", ".join(filter(None, (finish.replace("_", " "), tokens)))
    seconds = _seconds(event.get("seconds"))
    return TraceStep("Model", _text(event.get("model")), outcome, "bad" if error else "none", offset, seconds, [*texts])


def _tool_step(event: Mapping[str, Any], offset: float | None) -> TraceStep:
    call = next(_objects([event.get("call")]), {})
    decision = _text(call.get("decision"))
    agreed = ", the user agreed" if call.get("confirmed") is True else ""
    texts = _texts(("Arguments", call.get("arguments")), ("Reason", call.get("reason")), ("Result", call.get("text")))
    return TraceStep(
        title="Tool",
        name=_text(call.get("tool")),
        outcome=f"{decision.replace('_', ' ')}{agreed}",
        kind="good" if decision in _GOOD else "bad",
        offset=offset,
        seconds=_seconds(call.get("seconds")),
        texts=[*texts],
    )


def _score_step(event: Mapping[str, Any], offset: float | None) -> TraceStep:
    score, error = next(_objects([event.get("score")]), None), _text(event.get("error"))
    outcome = "not scored" if score is None else f"{_text(score.get('overall'))} of 1"
    criteria = [] if score is None else [*_objects(score.get("criteria"))]
    findings = [
        f"{_text(each.get('criterion'))}: {_text(each.get('score'))}. {_text(each.get('finding'))}" for each in criteria
    ]
    finding = None if score is None else score.get("finding")
    texts = _texts(("Finding", finding), ("Criteria", "\n".join(findings)), ("Error", error))
    name = f"attempt {_text(event.get('attempt'))}"
    return TraceStep("Score", name, outcome, "none" if score else "bad", offset, None, [*texts])


def _workflow_step(settings: Settings, step: Mapping[str, Any], begin: datetime | None, faults: list[str]) -> TraceStep:
    """Return a step of a workflow, with the times of its run."""
    state, run_id, times = _text(step.get("status")), _text(step.get("run")), {}
    if run_id:
        try:
            times = read_run(settings, run_id, faults.append)
        except SkillsError as error:
            faults.append(str(error))
    at = _moment(times.get("started"))
    return TraceStep(
        title=_text(step.get("kind")).capitalize() or "Step",
        name=_text(step.get("name")),
        outcome=state.replace("_", " "),
        kind="none" if state in _NOT_TAKEN else "good" if state in _GOOD else "bad",
        offset=None if begin is None or at is None else max(0.0, (at - begin).total_seconds()),
        seconds=_lasted(times, _text(times.get("status"))),
        texts=[*_texts(("Output", step.get("output")))],
        address=run_address(run_id) if run_id else "",
    )


def _placed(steps: Sequence[TraceStep], seconds: float | None) -> list[TraceStep]:
    """Return the steps with the places of their bars; the scale ends with the run, or with its last step."""
    ends = [(step.offset or 0.0) + (step.seconds or 0.0) for step in steps]
    whole = max([seconds or 0.0, *ends]) or 1.0
    placed = [(round(100 * (step.offset or 0.0) / whole, 2), 100 * (step.seconds or 0.0) / whole) for step in steps]
    return [
        step if step.offset is None else step._replace(begin=min(begin, 99.4), length=max(0.6, round(length, 2)))
        for step, (begin, length) in zip(steps, placed, strict=True)
    ]


def _cancel(host: Host, form: Mapping[str, str], visit: Visit) -> str:
    del visit
    if not has_extra():
        raise RunNotCancelledError("Cancelling a run requires the extra `run`.")
    from server.capabilities.runs.run_list import open_run_list

    with open_run_list(host.settings) as run_list:
        done = run_list.cancel(form.get("run", ""))
    if not done.cancelled:
        raise RunNotCancelledError(f"The run {done.run_id[:130]} is not cancelled: {done.message}.")
    return f"The run {done.run_id} is cancelled: {done.message}."


class RunNotCancelledError(SkillsError):
    """A run was not cancelled; the message says why."""


def _texts(*pairs: tuple[str, object]) -> Iterator[tuple[str, str]]:
    """Yield what is not empty, as text."""
    return ((heading, _text(value, 2)) for heading, value in pairs if value not in (None, "", [], {}))


def _text(value: object, indent: int | None = None) -> str:
    """Return a value of a trace as text; what is not one is shown as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=indent, default=str)


def _objects(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list, and nothing if it is not one."""
    return (each for each in (value if isinstance(value, list) else ()) if isinstance(each, dict))


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return max(0.0, min(float(value), 1e9))


def _moment(value: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return found if found is None or found.tzinfo else found.replace(tzinfo=UTC)
