"""Who waits for a run in this process, which whoever performs it asks, and which skills it began with."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from server.run.skill_runner import RunParticipants
from skills_core.run.durable.worker_config import outermost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from skills_core.catalog import Catalog

__all__ = ["AttachedRuns", "RunSession"]


@dataclass(frozen=True, slots=True)
class RunSession:
    """Who is there for a run, and the skills that it began with."""

    catalog: Catalog
    participants: RunParticipants = field(default_factory=RunParticipants)


@dataclass(slots=True)
class _AttachedRun:
    """A run that is waited for, so many times; who came first is asked and told."""

    live: RunSession
    times: int = 0


class AttachedRuns:
    """Who waits for which run; `catalog` gives the skills of the moment."""

    def __init__(self, catalog: Callable[[], Catalog]) -> None:
        """Nobody waits yet."""
        self._catalog = catalog
        self._awaited: dict[str, _AttachedRun] = {}

    @contextmanager
    def waiting(self, run_id: str, participants: RunParticipants) -> Iterator[None]:
        """Wait for a run as long as the block lasts."""
        awaited = self._awaited.setdefault(run_id, _AttachedRun(self.live(participants)))
        awaited.times += 1
        try:
            yield
        finally:
            awaited.times -= 1
            if not awaited.times:
                del self._awaited[run_id]

    def is_last(self, run_id: str) -> bool:
        """Tell whether one alone still waits for a run."""
        return self._awaited[run_id].times == 1

    def live(self, participants: RunParticipants) -> RunSession:
        """Return what a run has that begins now with this participants."""
        return RunSession(self._catalog(), participants)

    def of(self, run_id: str) -> RunSession:
        """Return who waits for a run, or for the one that it is inside of; nobody waits for one that is recovered."""
        awaited = self._awaited.get(outermost(run_id))
        return awaited.live if awaited is not None else self.live(RunParticipants())
