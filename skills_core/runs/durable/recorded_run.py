"""A recorded run with its states, the configuration of the workers that perform it, and the exceptions for callers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from skills_core.errors import SkillsError
from skills_core.runs.journal import Epoch

if TYPE_CHECKING:
    from skills_core.format.yaml12 import JsonObject


class StoreError(SkillsError):
    """The database of runs cannot be opened or used; the message says why and what to do, and holds no password."""


class StoreUnreachableError(StoreError):
    """The server of the database refuses or does not answer now; it may later."""


class RunWithoutRecordError(StoreUnreachableError):
    """The database went away before a run could be started, or before its outcome could be read.

    `fate` says what becomes of the run, without naming the database.
    """

    def __init__(self, run_id: str, cause: StoreUnreachableError, *, begun: bool) -> None:
        self.fate = (
            f"The run {run_id} goes on when the database is back, from its last recorded step: a server continues it "
            f"by itself, `skillserve runs resume` at once. `skillserve runs show {run_id}` tells how it ended; "
            "a new run would do the same work again."
            if begun
            else f"The run {run_id} is not started. Try again when the database is back."
        )
        super().__init__(f"{cause} {self.fate}")


class RunConflictError(SkillsError):
    """A run of this name exists with other data; `recorded` is that run, None if another pool owns it."""

    def __init__(
        self,
        run_id: str,
        how: str = "of another kind or with another input",
        recorded: RecordedRun | None = None,
        advice: str = "Give it the same kind and input as then, or choose another name.",
    ) -> None:
        super().__init__(f"The run {run_id[:200]!r} is recorded already, {how}. {advice}")
        self.run_id = run_id
        self.recorded = recorded


class UnknownRunError(SkillsError):
    """No run of this name is recorded in this store and pool."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"There is no run {run_id[:200]!r} in this database and pool.")
        self.run_id = run_id


class RunNotDoneError(SkillsError):
    """A run has no outcome; `run.state` says why, and `run.problem` names the error that its job raised."""

    def __init__(self, run: RecordedRun) -> None:
        problem = f" ({run.problem})" if run.problem else ""
        super().__init__(f"The run {run.run_id[:200]!r} has no outcome: {run.state.meaning}{problem}.")
        self.run = run


class RunState(StrEnum):
    """The state of a recorded run."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    GIVEN_UP = "given_up"
    OTHER_FORMAT = "other_format"

    @property
    def meaning(self) -> str:
        """The state in words."""
        return _MEANINGS[self]


_MEANINGS: Final[Mapping[RunState, str]] = {
    RunState.WAITING: "it is waiting for a free worker",
    RunState.RUNNING: "it is running, or its worker died and another one will take it over",
    RunState.DONE: "it is done",
    RunState.FAILED: "its job raised an error",
    RunState.CANCELLED: "it was cancelled",
    RunState.GIVEN_UP: "its workers died too often, so no worker takes it over again",
    RunState.OTHER_FORMAT: "it was started by a version with another run format, which alone can continue it",
}

UNFINISHED: Final = frozenset({RunState.WAITING, RunState.RUNNING, RunState.OTHER_FORMAT})
FINISHED: Final = frozenset(RunState) - UNFINISHED


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """One recorded run.

    `kind` and `given` are its input; if the record is damaged, `kind` is empty. `attempts` counts how often a worker
    started it, `worker` is the last one. `outcome` is set once the run is done, if it was loaded. `problem` is the type
    of the error that its job raised. Times are seconds since 1970.
    """

    run_id: str
    kind: str
    given: JsonObject
    state: RunState
    run_format: str
    worker: str = ""
    attempts: int = 0
    created: float = 0.0
    updated: float = 0.0
    outcome: JsonObject | None = None
    problem: str = ""

    @property
    def epoch(self) -> Epoch:
        """The fencing token of the worker that started it last."""
        return Epoch(round(self.created * 1000), self.attempts)


RUN_FORMAT: Final = 3
"""The format of recorded runs. Increase it when a job takes other steps for the same input, or reads their results
differently: only a version with the same number continues a run."""


NESTED_SEPARATOR: Final = "."
"""Separates the id of a run from the name of a run nested in it."""


def is_nested(run_id: str) -> bool:
    """Tell whether this is the id of a nested run."""
    return NESTED_SEPARATOR in run_id


def root_run_id(run_id: str) -> str:
    """Return the id of the outermost run around this one, or its own."""
    return run_id.partition(NESTED_SEPARATOR)[0]


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """Limits and intervals of one worker. The workers of one pool should use the same."""

    pool: str = "skillserve"
    """Workers with the same pool perform each other's runs, so they need the same skills and settings. 3 to 50 of a-z,
    0-9, dashes and underscores."""
    at_once: int = 4
    """Runs that this process performs at the same time; others wait."""
    recoveries: int = 10
    """How often a run is restarted after its worker died or stopped, before it is given up."""
    only: frozenset[str] | None = None
    """The runs of dead workers that this process takes over, with the runs nested in them; None for all. A short-lived
    process would start other runs only to release them again."""
    resume_seconds: float | None = None
    """This process continues runs that were interrupted at most so many seconds ago; None for no limit. Older ones stay
    as they are until they are cancelled, or a process with another limit continues them."""
    run_format: int = RUN_FORMAT
    beat_seconds: float = 1.0
    """Seconds between heartbeats: renewals of the lease, and checks for cancelled runs and dead workers."""
    grace_seconds: float = 15.0
    """PostgreSQL: seconds without renewal after which a worker's runs are taken over. It releases them before that."""
    stop_seconds: float = 10.0
    """Seconds that a closing worker waits for its runs to stop."""

    def queue_for(self, run_id: str) -> str:
        """Return the queue in which a run waits for a worker.

        Nested runs have a queue of their own: behind the runs that wait for them, they would deadlock.
        """
        return f"{self.pool}.inner" if is_nested(run_id) else self.pool

    def takes_over(self, run_id: str) -> bool:
        """Tell whether this process takes a run over from a dead worker."""
        return self.only is None or root_run_id(run_id) in self.only

    @property
    def version(self) -> str:
        """The version recorded with each run; only workers of the same pool and format continue it."""
        return f"{self.pool}.{self.run_format}"
