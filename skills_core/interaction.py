"""The user of a run, who answers its questions, and the receiver of its progress.

Each is a protocol, so that the command line, a server and a test can implement it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class User(Protocol):
    """The user of a run, who answers questions while it goes on."""

    async def confirm(self, question: str) -> bool | None:
        """Return whether the user agrees, None if no user can be asked."""

    async def ask(self, question: str, choices: Sequence[str] = ()) -> str | None:
        """Return the user's answer, one of `choices` if there are any; None if no user answers."""


class NoUser:
    """A user who cannot be asked."""

    async def confirm(self, question: str) -> bool | None:
        """Return None."""
        del question
        return None

    async def ask(self, question: str, choices: Sequence[str] = ()) -> str | None:
        """Return None."""
        del question, choices
        return None


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run: steps done, the total if known, and a message about the current step."""

    done: int
    total: int | None
    message: str


class ProgressCallback(Protocol):
    """A callback for progress. It must not raise, and must return soon."""

    async def __call__(self, progress: Progress) -> None:
        """Report progress."""


async def discard_progress(progress: Progress) -> None:
    """Ignore the progress."""
    del progress
