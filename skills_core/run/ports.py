"""What a run needs from outside: somebody to ask, somebody to tell, and a record of what was done.

Each is a protocol, so that the command line, a server and a test bring their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from skills_core.format.yaml12 import JsonValue

__all__ = [
    "Epoch",
    "Journal",
    "JsonObject",
    "MemoryJournal",
    "NoUser",
    "Progress",
    "ProgressCallback",
    "User",
    "discard_progress",
]

JsonObject: TypeAlias = "dict[str, JsonValue]"


class User(Protocol):
    """Whoever can be asked in the middle of a run."""

    async def confirm(self, question: str) -> bool | None:
        """Return whether the user agrees, None where nobody can be asked."""

    async def ask(self, question: str, choices: Sequence[str] = ()) -> str | None:
        """Return the user's answer, one of `choices` where there are any; None where nobody answers."""


class NoUser:
    """There is nobody to ask."""

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
    """How far a run has come: steps done, how many there are in all where that is known, and what it does now."""

    done: int
    total: int | None
    message: str


class ProgressCallback(Protocol):
    """Whoever is told of progress. It must neither fail nor wait for long."""

    async def __call__(self, progress: Progress) -> None:
        """Take note."""


async def discard_progress(progress: Progress) -> None:
    """Tell nobody."""
    del progress


@dataclass(frozen=True, slots=True)
class Epoch:
    """The fencing token of a worker that performs a recorded run.

    `recorded` tells the run from others of its name, in milliseconds since 1970; `attempt` counts how often the run was
    begun. What a higher attempt has written, a lower one must not replace.
    """

    recorded: int
    attempt: int


class Journal(Protocol):
    """What was done in one run, so that a run that is begun again does nothing twice.

    `run_id` names the run, and stays when it is begun again.
    """

    @property
    def run_id(self) -> str:
        """The run's own name, unique among all runs."""

    @property
    def interrupted(self) -> bool:
        """Whether the run is cancelled here only to be continued later, by this process or another one."""

    @property
    def fenced(self) -> bool:
        """Whether another worker may perform the run by now, so that this one writes nothing for it any more."""

    @property
    def epoch(self) -> Epoch | None:
        """The fencing token for files of the run, None where no other worker can take it over."""

    async def ensure_owned(self) -> None:
        """Go on only while the run is this worker's; otherwise the job is cancelled here."""

    async def step(self, name: str, work: Callable[[], Awaitable[JsonValue]]) -> JsonValue:
        """Return what `work` came to: done now, or read back where this step was finished before.

        A run takes the same steps in the same order each time that it is begun with the same input, so a step is known
        by its number; `name` is for people. Work that raises is not finished: the run may then come to its outcome, but
        takes no further step, for the next time the same work may not raise. Where a process ends in the middle of a
        step, the step is done again: what it does to the world wants a key made of run and step.
        """


class MemoryJournal:
    """A journal that lives as long as the process: every step is done."""

    def __init__(self, run_id: str) -> None:
        """Begin the run of this name."""
        self._run_id = run_id

    @property
    def run_id(self) -> str:
        """The run's own name."""
        return self._run_id

    @property
    def interrupted(self) -> bool:
        """False: nobody could continue the run."""
        return False

    @property
    def fenced(self) -> bool:
        """False: no other worker knows of the run."""
        return False

    @property
    def epoch(self) -> Epoch | None:
        """None: no other worker knows of the run."""
        return None

    async def ensure_owned(self) -> None:
        """Do nothing: the run stays this worker's."""

    async def step(self, name: str, work: Callable[[], Awaitable[JsonValue]]) -> JsonValue:
        """Do the work."""
        del name
        return await work()
