"""Who waits for a run in this process, which whoever performs it asks, and which skills it began with."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from server.run.skill_runner import Company
from skills_core.run.durable.terms import outermost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from skills_core.catalog import Catalog

__all__ = ["Live", "Waiters"]


@dataclass(frozen=True, slots=True)
class Live:
    """Who is there for a run, and the skills that it began with."""

    catalog: Catalog
    company: Company = field(default_factory=Company)


@dataclass(slots=True)
class _Awaited:
    """A run that is waited for, so many times; who came first is asked and told."""

    live: Live
    times: int = 0


class Waiters:
    """Who waits for which run; `catalog` gives the skills of the moment."""

    def __init__(self, catalog: Callable[[], Catalog]) -> None:
        """Nobody waits yet."""
        self._catalog = catalog
        self._awaited: dict[str, _Awaited] = {}

    @contextmanager
    def waiting(self, run_id: str, company: Company) -> Iterator[None]:
        """Wait for a run as long as the block lasts."""
        awaited = self._awaited.setdefault(run_id, _Awaited(self.live(company)))
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

    def live(self, company: Company) -> Live:
        """Return what a run has that begins now with this company."""
        return Live(self._catalog(), company)

    def of(self, run_id: str) -> Live:
        """Return who waits for a run, or for the one that it is inside of; nobody waits for one that is recovered."""
        awaited = self._awaited.get(outermost(run_id))
        return awaited.live if awaited is not None else self.live(Company())
