"""On what terms a process takes part in performing runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["NESTED_SEPARATOR", "RUN_FORMAT", "WorkerConfig", "is_nested", "root_run_id"]

RUN_FORMAT: Final = 1
"""How runs are recorded. It goes up when a job takes other steps than before for the same input, or reads their results
differently: a run is only continued by a version that has the number it was begun with."""


NESTED_SEPARATOR: Final = "."
"""What stands between the name of a run and that of a run inside of it."""


def is_nested(run_id: str) -> bool:
    """Tell whether this is the name of a run inside of another one."""
    return NESTED_SEPARATOR in run_id


def root_run_id(run_id: str) -> str:
    """Return the name of the run that this one is inside of, or its own."""
    return run_id.partition(NESTED_SEPARATOR)[0]


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """Bounds and rhythm of one worker. The workers of one pool should agree on them."""

    pool: str = "skillserve"
    """Workers with the same pool perform each other's runs, so they need the same skills and settings. 3 to 50 of a-z,
    0-9, dashes and underscores."""
    at_once: int = 4
    """Runs that this process performs at a time; the others wait."""
    recoveries: int = 10
    """How often a run is begun again after its worker died or stopped, before it is given up."""
    only: frozenset[str] | None = None
    """The runs of dead workers that this process takes over, with those inside of them; None for all. One that is there
    for a moment would begin others and let go of them again."""
    resume_seconds: float | None = None
    """How long ago a run may have been interrupted for this process to continue it; None for any time. Older ones stay
    as they are, until they are cancelled or a process that does not mind continues them."""
    run_format: int = RUN_FORMAT
    beat_seconds: float = 1.0
    """How often a worker shows that it is alive, and looks for cancelled runs and for workers that are not."""
    grace_seconds: float = 15.0
    """PostgreSQL: how long a worker may be silent before its runs are taken over. It gives them up by itself before."""
    stop_seconds: float = 10.0
    """How long a closing worker waits for its runs to stop."""

    def queue_for(self, run_id: str) -> str:
        """Return the queue in which a run waits for a worker.

        Runs inside of others have one of their own: were they to wait behind those that wait for them, nobody went on.
        """
        return f"{self.pool}.inner" if is_nested(run_id) else self.pool

    def takes_over(self, run_id: str) -> bool:
        """Tell whether this process takes a run over from a worker that died."""
        return self.only is None or root_run_id(run_id) in self.only

    @property
    def version(self) -> str:
        """What stands beside each run, so that only workers of this pool and format continue it."""
        return f"{self.pool}.{self.run_format}"
