"""Runs as users see them: the traces on this machine, brought into line with the record of runs.

A trace is written by whichever process performs its run, and that process may have been killed, stopped, or overtaken
by another one on another machine. The record says what became of the run, so each trace is shown with the status that
the record gives it.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from server.run.trace_files import store_in, trace_store
from skills_core.errors import InvalidRecordError
from skills_core.run.durable.client import Activity, open_client
from skills_core.run.durable.errors import UnknownRunError
from skills_core.run.durable.recorded_run import RunState
from skills_core.run.durable.worker_config import is_inner, outermost
from skills_core.run.outcome import RunProblem, RunStatus
from skills_core.run.trace.spans import trace_id
from skills_core.run.trace.store import FencedTraceError, UnknownTraceError, UnreadableTraceError, epoch_of
from skills_core.run.workflow.plan import plan_from_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from server.config.settings import Settings
    from skills_core.run.durable.client import RecordClient
    from skills_core.run.durable.recorded_run import Run
    from skills_core.run.ports import JsonObject
    from skills_core.run.trace.store import TraceStore

__all__ = ["Cancellation", "RunOverview", "open_overview", "settled"]

_MOST: Final = 2000
"""Runs of the record that are listed; of traces fewer are kept."""

_ENDS: Final = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.REFUSED})
"""What an outcome in the record can say."""

_FROM_OUTCOME: Final = ("status", "output", "problem", "message", "score", "attempts", "usage")
"""What a trace repeats of the outcome."""

_INTERRUPTED: Final = (
    "The process that performed the run is gone. `skillserve runs resume` continues it, and `skillserve runs cancel` "
    "ends it."
)

_NOT_RECORDED: Final = "The process that performed the run is gone. The run was not recorded, so nothing continues it."


@dataclass(frozen=True, slots=True)
class Cancellation:
    """What became of the wish to cancel a run; `status` is that of the run now, None where none is recorded."""

    run_id: str
    cancelled: bool
    status: str | None
    message: str


@contextmanager
def open_overview(settings: Settings) -> Iterator[RunOverview]:
    """Open the traces of this machine and the record that settings name.

    Raises:
        StoreError: the record cannot be used.
    """
    with open_client(store_in(settings)) as client:
        yield RunOverview(trace_store(), client)


class RunOverview:
    """Traces and record together; without a `client` nothing was recorded."""

    def __init__(self, traces: TraceStore, client: RecordClient | None) -> None:
        """Read nothing yet."""
        self._traces = traces
        self._client = client

    def listed(self, unreadable: Callable[[str], None]) -> list[JsonObject]:
        """Return all runs as traces, the one that began last first; `unreadable` is told what is wrong with a bad one.

        Raises:
            StoreError: the record cannot be used.
        """
        traces = self._traces.readable(unreadable)
        runs = self._recorded(traces)
        shown = {run_id: self._shown(traces.get(run_id), run) for run_id, run in runs.items()}
        unrecorded = {run_id: self._alone(trace) for run_id, trace in traces.items() if run_id not in runs}
        return sorted((unrecorded | shown).values(), key=lambda each: str(each.get("started")), reverse=True)

    def shown(self, run_id: str, unreadable: Callable[[str], None]) -> JsonObject:
        """Return one run as a trace; `unreadable` is told what is wrong with one that is bad.

        Raises:
            UnknownTraceError: there is neither a trace nor a record of it.
            StoreError: the record cannot be used.
        """
        run = self._looked_up(run_id)
        try:
            trace = self._traces.read(run_id)
        except UnknownTraceError as error:
            if run is None:
                raise
            if isinstance(error, UnreadableTraceError):
                unreadable(str(error))
            trace = None
        return self._shown(trace, run) if run is not None else self._alone(trace or {})

    def cancel(self, run_id: str) -> Cancellation:
        """Cancel a run that has not ended, and let its trace say so where no process will.

        Raises:
            StoreError: the record cannot be used.
        """
        if is_inner(run_id):
            return Cancellation(run_id, False, None, f"it is a step of the run {outermost(run_id)}: cancel that one")
        before = self._looked_up(run_id)
        if self._client is None or before is None:
            message = "no run of this name is recorded; `skillserve runs list` shows those that there are"
            return Cancellation(run_id, False, None, message)
        status = str(self._shown(None, before)["status"])
        if before.state is RunState.CANCELLED:
            return Cancellation(run_id, True, status, "it was cancelled before")
        if self._client.activity(before) is Activity.OVER:
            return Cancellation(run_id, False, status, f"it has ended already: {status}")
        performed = {each.run_id: self._is_performed(each) for each in (before, *self._client.inside(run_id))}
        runs = self._client.cancel(run_id)
        for run in runs:
            if run.state is RunState.CANCELLED and not performed.get(run.run_id):
                self._settle(run)
        now = str(self._shown(None, runs[0])["status"])
        if runs[0].state is not RunState.CANCELLED:
            return Cancellation(run_id, False, now, f"it has ended already: {now}")
        by_whom = (
            "the process that performs it ends it within some seconds" if performed[run_id] else "it was not running"
        )
        return Cancellation(run_id, True, now, by_whom)

    def _is_performed(self, run: Run) -> bool:
        return self._client is not None and self._client.activity(run) is Activity.PERFORMED

    def _settle(self, run: Run) -> None:
        """Write into the trace what the record says; a worker that has the run in the meantime writes it itself."""
        with suppress(UnknownTraceError, FencedTraceError, OSError):
            self._traces.write(run.run_id, settled(self._traces.read(run.run_id), run, Activity.OVER), run.epoch)

    def _recorded(self, traces: Mapping[str, JsonObject]) -> dict[str, Run]:
        if self._client is None:
            return {}
        runs = {run.run_id: run for run in self._client.runs(_MOST)}
        wanted = [*(traces.keys() - runs.keys())]
        wanted += [run_id for run_id, run in runs.items() if _needs_outcome(traces.get(run_id), run)]
        return runs | {run.run_id: run for run in self._client.with_outcomes(wanted)}

    def _alone(self, trace: JsonObject) -> JsonObject:
        """Return the trace of a run that is not recorded, which ends with its process."""
        process = trace.get("process")
        if trace.get("status") != "running" or not isinstance(process, str) or self._traces.is_present(process):
            return trace
        return {**trace, **_state(RunStatus.INTERRUPTED, RunProblem.INTERRUPTED, _NOT_RECORDED)}

    def _looked_up(self, run_id: str) -> Run | None:
        if self._client is None:
            return None
        try:
            return self._client.look(run_id)
        except UnknownRunError:
            return None

    def _shown(self, trace: JsonObject | None, run: Run) -> JsonObject:
        assert self._client is not None  # noqa: S101 - there is a run of it
        of_run = trace is not None and _is_of(trace, run)
        return settled(trace if trace is not None and of_run else _bare(run), run, self._client.activity(run))


def settled(trace: JsonObject, run: Run, activity: Activity) -> JsonObject:
    """Return a trace with what the record says of its run: its status, and what it came to."""
    ended = trace.get("ended") or _moment(run.updated)
    match activity:
        case Activity.WAITING:
            return {**trace, "status": "waiting", "ended": None}
        case Activity.PERFORMED:
            return {**trace, "status": "running", "ended": None, "problem": None, "message": ""}
        case Activity.INTERRUPTED:
            why = trace.get("message") if trace.get("status") == RunStatus.INTERRUPTED else _INTERRUPTED
            return {**trace, **_state(RunStatus.INTERRUPTED, RunProblem.INTERRUPTED, str(why)), "ended": ended}
        case Activity.OVER:
            if run.state is RunState.DONE:
                return {**trace, **_told(run, trace), "ended": ended}
            if trace.get("status") == _END_OF[run.state].status:
                return {**trace, "ended": ended}
            end = _END_OF[run.state]
            return {**trace, **_state(end.status, end.problem, f"{run.state.meaning}."), "ended": ended}


@dataclass(frozen=True, slots=True)
class _End:
    status: RunStatus
    problem: RunProblem


_END_OF: Final[Mapping[RunState, _End]] = {
    RunState.FAILED: _End(RunStatus.FAILED, RunProblem.INTERNAL_ERROR),
    RunState.CANCELLED: _End(RunStatus.CANCELLED, RunProblem.CANCELLED),
    RunState.GIVEN_UP: _End(RunStatus.FAILED, RunProblem.GIVEN_UP),
}


def _told(run: Run, trace: JsonObject) -> JsonObject:
    """Return what a trace repeats of the outcome, nothing where the trace has it by itself."""
    outcome = run.outcome
    if outcome is None:
        return {}
    told: JsonObject = {key: outcome[key] for key in _FROM_OUTCOME if key in outcome}
    steps = outcome.get("steps")
    if isinstance(steps, list) and "steps" not in trace:
        told["steps"] = [
            {key: value for key, value in step.items() if key != "outcome"} for step in steps if isinstance(step, dict)
        ]
    return told


def _needs_outcome(trace: JsonObject | None, run: Run) -> bool:
    """Tell whether a trace does not say by itself what the run came to, so that the outcome has to be read."""
    if run.state is RunState.FAILED:
        return True
    by_itself = trace is not None and epoch_of(trace) == run.epoch and trace.get("status") in _ENDS
    return run.state is RunState.DONE and not by_itself


def _is_of(trace: JsonObject, run: Run) -> bool:
    """Tell whether a trace is of this run, and not of an earlier one of its name whose record was deleted."""
    epoch = epoch_of(trace)
    return epoch is None or epoch.recorded == run.epoch.recorded


def _state(status: RunStatus, problem: RunProblem, message: str) -> JsonObject:
    return {"status": status.value, "problem": problem.value, "message": message}


def _bare(run: Run) -> JsonObject:
    """Return the trace of a run that has none here: it has not begun, or another machine performs it."""
    common: JsonObject = {
        "run_id": run.run_id,
        "trace_id": trace_id(run.run_id),
        "started": _moment(run.created),
        "ended": None,
        "status": "waiting",
        "problem": None,
        "message": "",
        "events": [],
    }
    given: Any = run.given
    if run.kind == "skill":
        names = {"skill": "skill", "digest": "digest", "parameters": "parameters", "request": "message"}
        return {**common, **{name: given.get(key) for name, key in names.items()}}
    if run.kind == "workflow":
        with suppress(InvalidRecordError, KeyError, TypeError, ValueError):
            plan = plan_from_json(given["plan"])
            of_plan: JsonObject = {"workflow": plan.workflow.name, "digest": plan.workflow.digest}
            return {**common, **of_plan, "inputs": dict(plan.inputs), "skills": dict(plan.targets)}
    return common


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
