"""What a run consists of and what comes out of it: frozen values, no work."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from client import Client, connected

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from processes import Command
    from wire import Era

# Times whose middle half spreads wider than this come from a machine that did other things as well.
STEADY = 1.5


@dataclass(frozen=True)
class Effort:
    """How often each thing is measured."""

    calls: int = 300
    starts: int = 5
    edits: int = 5


@dataclass(frozen=True)
class Case:
    """One combination to measure, with the folder of skills and the two servers it is measured with.

    With `edits_only` the floor, which knows no edits, has nothing to do.
    """

    skills: int
    transport: str
    era: Era
    folder: Path
    floor: Command
    ours: Command
    answers: Path
    edits_only: bool = False

    def connect(self, command: Command) -> AbstractContextManager[Client]:
        """Start one of the servers and connect to it."""
        return connected(command, self.folder, self.transport, self.era)


@dataclass(frozen=True)
class Figure:
    """One measurement of both servers; `spread` is the upper quartile over the lower, of the less steady one."""

    name: str
    floor_ms: float
    ours_ms: float
    spread: float
    samples: int

    @property
    def ratio(self) -> float:
        """How many times the floor's time ours takes."""
        return self.ours_ms / self.floor_ms

    @property
    def steady(self) -> bool:
        """Whether the medians can be relied on."""
        return self.spread <= STEADY


@dataclass(frozen=True)
class Outcome:
    """All that was measured in one case; `differing` names what the two servers answered differently."""

    case: Case
    figures: list[Figure]
    edits_ms: list[float]
    edits_missed: str
    differing: list[str]

    @property
    def complete(self) -> bool:
        """Whether every figure is there and the two servers can be compared."""
        return not (self.differing or self.edits_missed)


def figure(name: str, floor: list[float], ours: list[float]) -> Figure:
    """Sum up the seconds both servers took."""
    spread = max(_spread(floor), _spread(ours))
    return Figure(name, statistics.median(floor) * 1e3, statistics.median(ours) * 1e3, spread, len(ours))


def _spread(times: list[float]) -> float:
    lower, _, upper = statistics.quantiles(times, n=4) if len(times) > 1 else times * 3
    return upper / lower
