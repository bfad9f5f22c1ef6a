"""What scripts wrote, kept for a while, so that a model reads of a long output as much as it wants.

Kept in memory, and bounded: in number, in size, and in time. What was kept longest has to go first.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["KeptOutputs", "Piece", "Stream", "Written"]

MAX_OUTPUTS = 50
MAX_CHARACTERS = 50_000_000
"""Most characters of all outputs that are kept; one that has more of its own is kept alone."""

MAX_SECONDS = 1800.0


class Stream(StrEnum):
    """One of the two streams of a program."""

    STDOUT = "stdout"
    STDERR = "stderr"


class Written(Protocol):
    """What a program wrote, as text."""

    @property
    def stdout(self) -> str:
        """What it wrote to its standard output."""

    @property
    def stderr(self) -> str:
        """What it wrote to its standard error."""


AnyWritten = TypeVar("AnyWritten", bound=Written)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a stream. Offsets count characters."""

    text: str
    offset: int
    total: int

    @property
    def next_offset(self) -> int | None:
        """Where the next part begins, None where this is the last."""
        end = self.offset + len(self.text)
        return end if end < self.total else None

    @classmethod
    def of(cls, text: str, offset: int, size: int) -> Piece:
        """Take the part of `text` that begins at `offset`, of at most `size` characters."""
        return cls(text[offset : offset + size], offset, len(text))


class KeptOutputs(Generic[AnyWritten]):
    """Outputs by an id that nobody can guess."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing is kept yet; `clock` tells the time in seconds."""
        self._clock = clock
        self._kept: OrderedDict[str, tuple[AnyWritten, float]] = OrderedDict()

    def keep(self, output: AnyWritten) -> str:
        """Keep an output, and return its id."""
        name = secrets.token_urlsafe(12)
        self._kept[name] = output, self._clock() + MAX_SECONDS
        self._forget()
        return name

    def find(self, name: str) -> AnyWritten | None:
        """Return an output, None where it is not kept any more."""
        self._forget()
        kept = self._kept.get(name)
        return kept[0] if kept else None

    def _forget(self) -> None:
        now = self._clock()
        size = sum(_size(output) for output, _ in self._kept.values())
        while self._kept:
            output, until = next(iter(self._kept.values()))
            crowded = len(self._kept) > 1 and (len(self._kept) > MAX_OUTPUTS or size > MAX_CHARACTERS)
            if until > now and not crowded:
                return
            size -= _size(output)
            self._kept.popitem(last=False)


def _size(output: Written) -> int:
    return len(output.stdout) + len(output.stderr)
