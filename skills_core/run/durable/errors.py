"""Exceptions of recorded runs, for callers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from skills_core.run.durable.recorded_run import RecordedRun

__all__ = [
    "RunConflictError",
    "RunNotDoneError",
    "RunWithoutRecordError",
    "StoreError",
    "StoreUnreachableError",
    "UnknownRunError",
]


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
