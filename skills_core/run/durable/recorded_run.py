"""One recorded run as it is told: its state, what it was given and what it came to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from skills_core.run.ports import Epoch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skills_core.run.ports import JsonObject

__all__ = ["FINISHED", "UNFINISHED", "RecordedRun", "RunState"]


class RunState(StrEnum):
    """Where a run stands."""

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
    RunState.WAITING: "it waits for a free worker",
    RunState.RUNNING: "it runs, or its worker died and another one will take it over",
    RunState.DONE: "it is done",
    RunState.FAILED: "its job raised an error",
    RunState.CANCELLED: "it was cancelled",
    RunState.GIVEN_UP: "its worker died again and again, so nobody takes it over any more",
    RunState.OTHER_FORMAT: "it was begun by a version with another run format, and only such a version continues it",
}

UNFINISHED: Final = frozenset({RunState.WAITING, RunState.RUNNING, RunState.OTHER_FORMAT})
FINISHED: Final = frozenset(RunState) - UNFINISHED


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """One recorded run.

    `kind` and `given` are what it was started with; where the record is damaged, `kind` is empty. `attempts` counts how
    often somebody began it, `worker` is who did last. `outcome` is there once it is done, and was asked for. `problem`
    is the type of the error that its job raised. Times are seconds since 1970.
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
        """The fencing token of the worker that began it last."""
        return Epoch(round(self.created * 1000), self.attempts)
