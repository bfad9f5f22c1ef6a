"""The configuration of a worker, and the ids of nested runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["NESTED_SEPARATOR", "RUN_FORMAT", "WorkerConfig", "is_nested", "root_run_id"]

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
