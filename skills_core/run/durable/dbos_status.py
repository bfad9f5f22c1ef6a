"""Maps dbos's `WorkflowStatus` to a `RecordedRun`. The row may be damaged, or written by another program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skills_core.run.durable.json_serializer import JobFailedError
from skills_core.run.durable.recorded_run import FINISHED, RecordedRun, RunState

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dbos import WorkflowStatus

    from skills_core.format.yaml12 import JsonObject

__all__ = ["CANCELLED", "FINISHED_STATUSES", "STATE_BY_STATUS", "dbos_statuses", "recorded_run"]

STATE_BY_STATUS: Final[Mapping[str, RunState]] = {
    "ENQUEUED": RunState.WAITING,
    "DELAYED": RunState.WAITING,
    "PENDING": RunState.RUNNING,
    "SUCCESS": RunState.DONE,
    "ERROR": RunState.FAILED,
    "CANCELLED": RunState.CANCELLED,
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": RunState.GIVEN_UP,
}
"""The state of a run by dbos's status."""

CANCELLED: Final = "CANCELLED"
"""dbos's status of a cancelled run."""

_UNREADABLE: Final = "UnreadableRecord"


def dbos_statuses(states: Collection[RunState]) -> list[str]:
    """Return dbos's statuses for these states."""
    wanted = set(states) | ({RunState.WAITING, RunState.RUNNING} if RunState.OTHER_FORMAT in states else set())
    return [status for status, state in STATE_BY_STATUS.items() if state in wanted]


FINISHED_STATUSES: Final = dbos_statuses(FINISHED)


def recorded_run(row: WorkflowStatus, version: str, *, with_outcome: bool) -> RecordedRun:
    """Return the run of a row, as a worker of this version sees it.

    `with_outcome` says that the row was loaded with its outcome.
    """
    kind, given = _kind_and_input(row)
    state, problem = STATE_BY_STATUS.get(row.status, RunState.FAILED), ""
    if state in {RunState.WAITING, RunState.RUNNING} and row.app_version != version:
        state = RunState.OTHER_FORMAT
    outcome = row.output if isinstance(row.output, dict) and state is RunState.DONE else None
    if with_outcome and state is RunState.FAILED:
        problem = row.error.problem if isinstance(row.error, JobFailedError) else _UNREADABLE
    elif with_outcome and state is RunState.DONE and outcome is None:
        state, problem = RunState.FAILED, _UNREADABLE
    return RecordedRun(
        run_id=row.workflow_id,
        kind=kind,
        given=given,
        state=state,
        run_format=(row.app_version or "").rpartition(".")[2],
        worker=row.executor_id or "",
        attempts=row.recovery_attempts or 0,
        created=(row.created_at or 0) / 1000,
        updated=(row.updated_at or 0) / 1000,
        outcome=outcome,
        problem=problem,
    )


def _kind_and_input(row: WorkflowStatus) -> tuple[str, JsonObject]:
    match row.input:
        case {"args": [str(kind), dict(given)]}:
            return kind, given
        case _:
            return "", {}
