"""Keeps the output of scripts for a while, so that a model can read a long output in parts.

To read on, the model calls the tool that ran the script again, with the arguments that `CONTINUATION_ARGUMENTS`
describes; no script runs then. The cache is in memory and bounded in number, size and time; the oldest entries are
evicted first.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core.format.yaml12 import JsonValue
    from skills_core.scripts.process import ProcessResult


OUTPUT: Final = "output"
STREAM: Final = "stream"
OFFSET: Final = "offset"

MAX_OUTPUTS = 50
MAX_CHARACTERS = 50_000_000
"""Most characters of all kept outputs together; a larger single output is kept alone."""

MAX_SECONDS = 1800.0


class Stream(StrEnum):
    """One of the two streams of a program."""

    STDOUT = "stdout"
    STDERR = "stderr"


CONTINUATION_ARGUMENTS: Final[dict[str, JsonValue]] = {
    OUTPUT: {"type": "string", "description": "To read on: the id in an earlier result. Nothing is run then."},
    STREAM: {"type": "string", "enum": [each.value for each in Stream], "description": "Which, to read on."},
    OFFSET: {"type": "integer", "minimum": 0, "description": "Where to read on, in characters."},
}
"""The arguments of a tool for reading a further part, as properties of its JSON Schema."""


def continuation_hint(tool: str, kept: str, stream: Stream, offset: int) -> str:
    """Return the sentence that tells the model how to continue reading the output `kept`."""
    return f'For more of {stream}, call {tool} with {OUTPUT}: "{kept}", {STREAM}: "{stream}", {OFFSET}: {offset}.'


def expired_output(kept: str) -> str:
    """Return the reply to a request for an output that has expired."""
    return f"The output {kept[:100]!r} has expired; run the script again."


class ScriptOutput(Protocol):
    """The output of a program, as text."""

    @property
    def stdout(self) -> str:
        """Its standard output."""

    @property
    def stderr(self) -> str:
        """Its standard error."""


@dataclass(frozen=True, slots=True)
class OutputText:
    """The text of both streams, as models receive it."""

    stdout: str
    stderr: str

    @classmethod
    def of(cls, finished: ProcessResult, redact: Callable[[str], str] = str) -> OutputText:
        """Decode the output of a program, and strip surrounding blanks.

        `redact` removes secrets. It runs before any text is cut: half a secret would not be recognized.
        """
        out, err = (each.decode("utf-8", "replace").strip() for each in (finished.stdout, finished.stderr))
        return cls(redact(out), redact(err))


OutputT = TypeVar("OutputT", bound=ScriptOutput)


@dataclass(frozen=True, slots=True)
class OutputSlice:
    """A part of a stream. Offsets count characters."""

    text: str
    offset: int
    total: int

    @property
    def next_offset(self) -> int | None:
        """The offset of the next part, None if this is the last."""
        end = self.offset + len(self.text)
        return end if end < self.total else None

    @classmethod
    def of(cls, text: str, offset: int, size: int) -> OutputSlice:
        """Return the part of `text` from `offset` on, of at most `size` characters."""
        return cls(text[offset : offset + size], offset, len(text))


class OutputCache(Generic[OutputT]):
    """Outputs by unguessable ids."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start empty; `clock` returns seconds."""
        self._clock = clock
        self._kept: OrderedDict[str, tuple[OutputT, float]] = OrderedDict()

    def keep(self, output: OutputT) -> str:
        """Keep an output, and return its id."""
        name = secrets.token_urlsafe(12)
        self._kept[name] = output, self._clock() + MAX_SECONDS
        self._forget()
        return name

    def find(self, name: str) -> OutputT | None:
        """Return an output, None if it has expired."""
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


def _size(output: ScriptOutput) -> int:
    return len(output.stdout) + len(output.stderr)
