"""Inputs and results of a benchmark run, as frozen values."""

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

# A larger interquartile ratio means that the machine was busy with other work.
STEADY = 1.5

# Fewer samples have no 95th percentile.
ENOUGH = 15


@dataclass(frozen=True)
class Effort:
    """How many times each operation is measured."""

    calls: int = 300
    starts: int = 5
    edits: int = 5


@dataclass(frozen=True)
class Case:
    """One combination to measure, with its folder of skills and its two servers.

    With `edits_only` the floor is not started, because it does not watch files.
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
    """One measurement of both servers; `spread` is the larger ratio of upper to lower quartile.

    The times are medians and, of enough samples, the times that 95 % of the calls do not exceed.
    """

    name: str
    floor_ms: float
    ours_ms: float
    spread: float
    samples: int
    floor_p95_ms: float | None = None
    ours_p95_ms: float | None = None

    @property
    def ratio_p95(self) -> float | None:
        """Our 95th percentile divided by the floor's."""
        return self.ours_p95_ms / self.floor_p95_ms if self.ours_p95_ms and self.floor_p95_ms else None

    @property
    def ratio(self) -> float:
        """Our time divided by the floor's."""
        return self.ours_ms / self.floor_ms

    @property
    def steady(self) -> bool:
        """Whether the medians are reliable."""
        return self.spread <= STEADY


@dataclass(frozen=True)
class Outcome:
    """All measurements of one case; `differing` names the operations with different results."""

    case: Case
    figures: list[Figure]
    edits_ms: list[float]
    edits_missed: str
    differing: list[str]

    @property
    def complete(self) -> bool:
        """Whether no figure is missing and the two servers are comparable."""
        return not (self.differing or self.edits_missed)


def figure(name: str, floor: list[float], ours: list[float]) -> Figure:
    """Summarize the seconds that both servers took."""
    spread = max(_spread(floor), _spread(ours))
    medians = statistics.median(floor) * 1e3, statistics.median(ours) * 1e3
    if min(len(floor), len(ours)) < ENOUGH:
        return Figure(name, *medians, spread, len(ours))
    return Figure(name, *medians, spread, len(ours), _p95(floor) * 1e3, _p95(ours) * 1e3)


def _p95(times: list[float]) -> float:
    return statistics.quantiles(times, n=20, method="inclusive")[-1]


def _spread(times: list[float]) -> float:
    lower, _, upper = statistics.quantiles(times, n=4) if len(times) > 1 else times * 3
    return upper / lower
