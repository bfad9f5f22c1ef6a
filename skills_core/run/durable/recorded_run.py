"""One recorded run: its state, its input and its outcome."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from skills_core.run.ports import Epoch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skills_core.format.yaml12 import JsonObject

__all__ = ["FINISHED", "UNFINISHED", "RecordedRun", "RunState"]


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
