"""Decides which interrupted runs a worker continues: those it was opened for and that were interrupted recently.

The side effects of a run were wanted when it was requested. A run that was interrupted long ago stays as it is until
a user resumes or cancels it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from skills_core.run.durable.client import Activity, open_client
from skills_core.run.durable.dbos_status import recorded_run
from skills_core.run.durable.recorded_run import RunState
from skills_core.run.durable.worker_config import root_run_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dbos import WorkflowStatus
    from dbos._sys_db import StepInfo

    from skills_core.run.durable.recorded_run import RecordedRun
    from skills_core.run.durable.store import Store
    from skills_core.run.durable.worker_config import WorkerConfig

__all__ = ["InterruptedRun", "TakeoverPolicy", "ignore_interrupted", "set_aside_stale"]


@dataclass(frozen=True, slots=True)
class InterruptedRun:
    """An interrupted run that a worker found: seconds since its last activity, and whether the worker continues it."""

    run: RecordedRun
    seconds: float
    continued: bool


def ignore_interrupted(interrupted: InterruptedRun) -> None:
    """Do nothing."""
    del interrupted


class _ListSteps(Protocol):
    def __call__(self, workflow_id: str, *, load_output: bool) -> list[StepInfo]: ...


class TakeoverPolicy:
    """The decisions of one worker; each decision about a run is reported once."""

    def __init__(
        self, config: WorkerConfig, steps_of: _ListSteps, on_interrupted: Callable[[InterruptedRun], None]
    ) -> None:
        """Decide by `config`; `steps_of` lists the finished steps of a run."""
        self._config = config
        self._steps_of = steps_of
        self._on_interrupted = on_interrupted
        self._admitted: set[str] = set()
        self._reported: set[tuple[str, bool]] = set()

    def admitted(self, rows: Iterable[WorkflowStatus]) -> list[str]:
        """Return which runs of a dead worker are taken over; a run and those nested in it share one decision."""
        groups: dict[str, list[WorkflowStatus]] = {}
        for row in rows:
            if self._config.takes_over(row.workflow_id):
                groups.setdefault(root_run_id(row.workflow_id), []).append(row)
        admitted: list[str] = []
        for outer, group in groups.items():
            seconds = time.time() - max(last_activity(row, self._steps_of) for row in group)
            limit = self._config.resume_seconds
            is_admitted = outer in self._admitted or limit is None or seconds <= limit
            self._report(next((row for row in group if row.workflow_id == outer), None), seconds, continued=is_admitted)
            if is_admitted:
                self._admitted.add(outer)
                admitted += (row.workflow_id for row in group)
        return admitted

    def _report(self, row: WorkflowStatus | None, seconds: float, *, continued: bool) -> None:
        if row is not None and (row.workflow_id, continued) not in self._reported:
            self._reported.add((row.workflow_id, continued))
            run = recorded_run(row, self._config.version, with_outcome=False)
            self._on_interrupted(InterruptedRun(run, max(seconds, 0.0), continued))


def last_activity(row: WorkflowStatus, steps_of: _ListSteps) -> float:
    """Return the time of the last record of a run, in seconds since 1970."""
    steps = steps_of(row.workflow_id, load_output=False)
    signs = [row.updated_at or 0, *(step["completed_at_epoch_ms"] or 0 for step in steps)]
    return max(signs) / 1000


def set_aside_stale(store: Store, config: WorkerConfig) -> None:
    """Take runs out of the queue that were interrupted, requeued, and then left there for too long.

    A worker that takes a run over puts it into the queue first. If all workers end before one of them has a free slot,
    the next worker that opens would perform it at once, however old it is.

    Raises:
        StoreError: the store cannot be used.
    """
    limit = config.resume_seconds if config.only is None else 0.0
    if limit is None:
        return
    with open_client(store) as client:
        if client is None:
            return
        mine = client.unfinished(config)
        if any(client.activity(run) is Activity.PERFORMED for run in mine):
            return  # a live worker put it there, and performs it when it has a free slot
        for run in mine:
            is_left = run.state is RunState.WAITING and run.attempts > 0 and time.time() - run.updated > limit
            if is_left and not (config.only and root_run_id(run.run_id) in config.only):
                client.set_aside(run.run_id)
