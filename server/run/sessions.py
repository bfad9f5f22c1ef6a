"""Track which callers in this process wait for a recorded run, and the participants and catalog that the run uses."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from server.run.skill_runner import RunParticipants
from skills_core.run.durable.recorded_run import root_run_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from skills_core.catalog import Catalog

__all__ = ["AttachedRuns", "RunSession"]


@dataclass(frozen=True, slots=True)
class RunSession:
    """The catalog that a run starts with, and its participants."""

    catalog: Catalog
    participants: RunParticipants = field(default_factory=RunParticipants)


@dataclass(slots=True)
class _AttachedRun:
    """A run with its number of waiting callers; `session` is that of the first caller."""

    session: RunSession
    waiters: int = 0


class AttachedRuns:
    """The runs that callers in this process wait for; `catalog` returns the current catalog."""

    def __init__(self, catalog: Callable[[], Catalog]) -> None:
        """Start without any attached run."""
        self._catalog = catalog
        self._runs: dict[str, _AttachedRun] = {}

    @contextmanager
    def attach(self, run_id: str, participants: RunParticipants) -> Iterator[None]:
        """Count the caller as a waiter of the run until the block ends."""
        run = self._runs.setdefault(run_id, _AttachedRun(self.new_session(participants)))
        run.waiters += 1
        try:
            yield
        finally:
            run.waiters -= 1
            if not run.waiters:
                del self._runs[run_id]

    def is_last_waiter(self, run_id: str) -> bool:
        """Return whether exactly one caller waits for the run."""
        return self._runs[run_id].waiters == 1

    def new_session(self, participants: RunParticipants) -> RunSession:
        """Return a session with the current catalog, as the client of the run sees it."""
        return RunSession((participants.catalog or self._catalog)(), participants)

    def session(self, run_id: str) -> RunSession:
        """Return the session of a run, or of the workflow run that it is a step of.

        A recovered run has no waiting caller; it gets a new session without participants.
        """
        run = self._runs.get(root_run_id(run_id))
        return run.session if run is not None else self.new_session(RunParticipants())
