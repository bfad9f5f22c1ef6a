"""What scripts wrote, kept for a while, so that a model reads of a long output as much as it wants.

Kept in memory, and bounded: in number, in size, and in time. What has to go first is what was kept longest.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["KeptOutputs", "Piece", "Stream"]

MAX_OUTPUTS = 50
MAX_CHARACTERS = 50_000_000
"""Most characters of all outputs that are kept; one that has more of its own is kept alone."""

MAX_SECONDS = 1800.0


class Stream(StrEnum):
    """One of the two streams of a program."""

    STDOUT = "stdout"
    STDERR = "stderr"


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a stream. Offsets count characters; `next_offset` is None where it is the last part."""

    text: str
    offset: int
    total: int

    @property
    def next_offset(self) -> int | None:
        """Where the next part begins."""
        end = self.offset + len(self.text)
        return end if end < self.total else None

    @classmethod
    def of(cls, text: str, offset: int, size: int) -> Piece:
        """Take the part of `text` that begins at `offset`, of at most `size` characters."""
        return cls(text[offset : offset + size], offset, len(text))


@dataclass(frozen=True, slots=True)
class _Kept:
    streams: dict[Stream, str]
    until: float

    @property
    def size(self) -> int:
        return sum(map(len, self.streams.values()))


class KeptOutputs:
    """Outputs by an id that nobody can guess."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing is kept yet; `clock` tells the time in seconds."""
        self._clock = clock
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def keep(self, stdout: str, stderr: str) -> str:
        """Keep both streams of a program, and return the id."""
        name = secrets.token_urlsafe(12)
        self._kept[name] = _Kept({Stream.STDOUT: stdout, Stream.STDERR: stderr}, self._clock() + MAX_SECONDS)
        self._forget()
        return name

    def stream(self, name: str, stream: Stream) -> str | None:
        """Return a stream, None where it is not kept any more."""
        self._forget()
        kept = self._kept.get(name)
        return kept.streams[stream] if kept else None

    def _forget(self) -> None:
        now = self._clock()
        size = sum(kept.size for kept in self._kept.values())
        while self._kept:
            oldest = next(iter(self._kept.values()))
            crowded = len(self._kept) > 1 and (len(self._kept) > MAX_OUTPUTS or size > MAX_CHARACTERS)
            if not crowded and oldest.until > now:
                return
            size -= oldest.size
            self._kept.popitem(last=False)
