"""List, show and cancel runs, combining the trace files on this machine with the record of runs.

The process that writes a run's trace may be killed or suspended, or another machine may take the run over. The record
has the run's true status, so each trace is shown with the status from the record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from server.capabilities.runs.offered import run_store, trace_store
from server.capabilities.runs.settings import RunSettings
from skills_core.errors import InvalidRecordError
from skills_core.runs.durable.client import Activity, open_client
from skills_core.runs.durable.recorded_run import RunState, UnknownRunError, is_nested, root_run_id
from skills_core.runs.outcome import RunProblem, RunStatus
from skills_core.runs.trace import FencedTraceError, UnknownTraceError, UnreadableTraceError, epoch_of, trace_id
from skills_core.runs.workflow.plan import plan_from_json

if TYPE_CHECKING:
    from server.config.settings.model import Settings
    from skills_core.format.yaml12 import JsonObject
    from skills_core.runs.durable.client import RecordClient
    from skills_core.runs.durable.recorded_run import RecordedRun
    from skills_core.runs.trace import TraceStore

_MAX_RUNS: Final = 2000
"""Largest number of recorded runs in a list; fewer traces than this are kept."""

_FINAL_STATUSES: Final = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.REFUSED})
"""The statuses that a recorded outcome can have."""

_OUTCOME_FIELDS: Final = (
    "status",
    "output",
    "problem",
    "message",
    "score",
    "attempts",
    "usage",
    "activated_skills",
    "trigger_reason",
)
"""The fields of the outcome that a trace repeats."""

_INTERRUPTED: Final = (
    "The process that performed the run is gone. `skillserve runs resume` continues it, and `skillserve runs cancel` "
    "ends it."
)

_NOT_RECORDED: Final = "The process that performed the run is gone. The run was not recorded, so nothing continues it."


@dataclass(frozen=True, slots=True)
class Cancellation:
    """The result of cancelling a run; `status` is the run's status now, None if the run is not recorded."""

    run_id: str
    cancelled: bool
    status: str | None
    message: str


@contextmanager
def open_run_list(settings: Settings) -> Iterator[RunList]:
    """Open the traces on this machine and the configured record.

    Raises:
        StoreError: the record cannot be used.
    """
    with open_client(run_store(settings.section(RunSettings))) as client:
        yield RunList(trace_store(), client)


class RunList:
    """Traces combined with the record; without a `client`, no run was recorded.

    Methods raise StoreError if the record cannot be used.
    """

    def __init__(self, traces: TraceStore, client: RecordClient | None) -> None:
        self._traces = traces
        self._client = client

    def all(self, on_unreadable: Callable[[str], None]) -> list[JsonObject]:
        """Return all runs as traces, latest first; `on_unreadable` receives a message for each unreadable trace."""
        traces = self._traces.readable(on_unreadable)
        runs = self._recorded_runs(traces)
        recorded = {run_id: self._combined(traces.get(run_id), run) for run_id, run in runs.items()}
        unrecorded = {run_id: self._unrecorded(trace) for run_id, trace in traces.items() if run_id not in runs}
        return sorted((unrecorded | recorded).values(), key=lambda each: str(each.get("started")), reverse=True)

    def get(self, run_id: str, on_unreadable: Callable[[str], None]) -> JsonObject:
        """Return one run as a trace; `on_unreadable` receives a message if its trace is unreadable.

        Raises:
            UnknownTraceError: the run has neither a trace nor a record.
        """
        run = self._find(run_id)
        try:
            trace = self._traces.read(run_id)
        except UnknownTraceError as error:
            if run is None:
                raise
            if isinstance(error, UnreadableTraceError):
                on_unreadable(str(error))
            trace = None
        return self._combined(trace, run) if run is not None else self._unrecorded(trace or {})

    def cancel(self, run_id: str) -> Cancellation:
        """Cancel a run that has not ended, and update its trace if no running process does."""
        if is_nested(run_id):
            return Cancellation(run_id, False, None, f"it is a step of the run {root_run_id(run_id)}: cancel that one")
        before = self._find(run_id)
        if self._client is None or before is None:
            message = "no run of this name is recorded; `skillserve runs list` shows those that there are"
            return Cancellation(run_id, False, None, message)
        status = str(self._combined(None, before)["status"])
        if before.state is RunState.CANCELLED:
            return Cancellation(run_id, True, status, "it was cancelled before")
        if self._client.activity(before) is Activity.OVER:
            return Cancellation(run_id, False, status, f"it has ended already: {status}")
        running = {each.run_id: self._is_running(each) for each in (before, *self._client.nested(run_id))}
        runs = self._client.cancel(run_id)
        for run in runs:
            if run.state is RunState.CANCELLED and not running.get(run.run_id):
                self._update_trace(run)
        now = str(self._combined(None, runs[0])["status"])
        if runs[0].state is not RunState.CANCELLED:
            return Cancellation(run_id, False, now, f"it has ended already: {now}")
        message = (
            "the process that performs it ends it within some seconds" if running[run_id] else "it was not running"
        )
        return Cancellation(run_id, True, now, message)

    def _is_running(self, run: RecordedRun) -> bool:
        return self._client is not None and self._client.activity(run) is Activity.PERFORMED

    def _update_trace(self, run: RecordedRun) -> None:
        """Write the recorded status into the trace, unless a worker has meanwhile taken over the run."""
        with suppress(UnknownTraceError, FencedTraceError, OSError):
            self._traces.write(
                run.run_id, _with_recorded_status(self._traces.read(run.run_id), run, Activity.OVER), run.epoch
            )

    def _recorded_runs(self, traces: Mapping[str, JsonObject]) -> dict[str, RecordedRun]:
        if self._client is None:
            return {}
        runs = {run.run_id: run for run in self._client.runs(_MAX_RUNS)}
        without_outcome = [*(traces.keys() - runs.keys())]
        without_outcome += [run_id for run_id, run in runs.items() if _needs_outcome(traces.get(run_id), run)]
        return runs | {run.run_id: run for run in self._client.runs_with_outcomes(without_outcome)}

    def _unrecorded(self, trace: JsonObject) -> JsonObject:
        """Return the trace of an unrecorded run, with the status interrupted if its process has ended."""
        process = trace.get("process")
        if trace.get("status") != "running" or not isinstance(process, str) or self._traces.is_present(process):
            return trace
        return {**trace, **_status_fields(RunStatus.INTERRUPTED, RunProblem.INTERRUPTED, _NOT_RECORDED)}

    def _find(self, run_id: str) -> RecordedRun | None:
        if self._client is None:
            return None
        try:
            return self._client.get(run_id)
        except UnknownRunError:
            return None

    def _combined(self, trace: JsonObject | None, run: RecordedRun) -> JsonObject:
        assert self._client is not None  # noqa: S101 - `run` came from the client
        is_current = trace is not None and _is_trace_of(trace, run)
        base = trace if trace is not None and is_current else _trace_from_record(run)
        return _with_recorded_status(base, run, self._client.activity(run))


def _with_recorded_status(trace: JsonObject, run: RecordedRun, activity: Activity) -> JsonObject:
    """Return the trace with the status and outcome that the record has for its run."""
    ended = trace.get("ended") or _timestamp(run.updated)
    match activity:
        case Activity.WAITING:
            return {**trace, "status": "waiting", "ended": None}
        case Activity.PERFORMED:
            return {**trace, "status": "running", "ended": None, "problem": None, "message": ""}
        case Activity.INTERRUPTED:
            message = trace.get("message") if trace.get("status") == RunStatus.INTERRUPTED else _INTERRUPTED
            fields = _status_fields(RunStatus.INTERRUPTED, RunProblem.INTERRUPTED, str(message))
            return {**trace, **fields, "ended": ended}
        case Activity.OVER:
            if run.state is RunState.DONE:
                return {**trace, **_outcome_fields(run, trace), "ended": ended}
            status, problem = _ENDINGS[run.state]
            if trace.get("status") == status:
                return {**trace, "ended": ended}
            return {**trace, **_status_fields(status, problem, f"{run.state.meaning}."), "ended": ended}


_ENDINGS: Final[Mapping[RunState, tuple[RunStatus, RunProblem]]] = {
    RunState.FAILED: (RunStatus.FAILED, RunProblem.INTERNAL_ERROR),
    RunState.CANCELLED: (RunStatus.CANCELLED, RunProblem.CANCELLED),
    RunState.GIVEN_UP: (RunStatus.FAILED, RunProblem.GIVEN_UP),
}


def _outcome_fields(run: RecordedRun, trace: JsonObject) -> JsonObject:
    """Return the fields of the recorded outcome; none if the outcome was not read."""
    outcome = run.outcome
    if outcome is None:
        return {}
    fields: JsonObject = {key: outcome[key] for key in _OUTCOME_FIELDS if key in outcome}
    steps = outcome.get("steps")
    if isinstance(steps, list) and "steps" not in trace:
        fields["steps"] = [
            {key: value for key, value in step.items() if key != "outcome"} for step in steps if isinstance(step, dict)
        ]
    return fields


def _needs_outcome(trace: JsonObject | None, run: RecordedRun) -> bool:
    """Return whether the trace lacks the outcome, so that it has to be read from the record."""
    if run.state is RunState.FAILED:
        return True
    is_complete = trace is not None and epoch_of(trace) == run.epoch and trace.get("status") in _FINAL_STATUSES
    return run.state is RunState.DONE and not is_complete


def _is_trace_of(trace: JsonObject, run: RecordedRun) -> bool:
    """Return whether the trace belongs to this run, not to an earlier run with the same ID and a deleted record."""
    epoch = epoch_of(trace)
    return epoch is None or epoch.recorded == run.epoch.recorded


def _status_fields(status: RunStatus, problem: RunProblem, message: str) -> JsonObject:
    return {"status": status.value, "problem": problem.value, "message": message}


def _trace_from_record(run: RecordedRun) -> JsonObject:
    """Return a trace for a run without one here: it has not started, or another machine runs it."""
    common: JsonObject = {
        "run_id": run.run_id,
        "trace_id": trace_id(run.run_id),
        "started": _timestamp(run.created),
        "ended": None,
        "status": "waiting",
        "problem": None,
        "message": "",
        "events": [],
    }
    inputs: Any = run.given
    if run.kind == "schedule":
        return {**common, "trigger_reason": inputs.get("trigger"), "skill": inputs.get("schedule")}
    if run.kind == "skill":
        names = {"skill": "skill", "digest": "digest", "parameters": "parameters", "request": "message"}
        return {**common, **{name: inputs.get(key) for name, key in names.items()}}
    if run.kind == "workflow":
        with suppress(InvalidRecordError, KeyError, TypeError, ValueError):
            plan = plan_from_json(inputs["plan"])
            plan_fields: JsonObject = {"workflow": plan.workflow.name, "digest": plan.workflow.digest}
            return {**common, **plan_fields, "inputs": dict(plan.inputs), "skills": dict(plan.targets)}
    return common


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
