"""The journal of a run: the record of its finished steps, so that a restarted run repeats none of them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from skills_core.format.yaml12 import JsonObject, JsonValue

__all__ = ["Epoch", "Journal", "MemoryJournal", "timed_step"]


@dataclass(frozen=True, slots=True)
class Epoch:
    """The fencing token of a worker that performs a recorded run.

    `recorded` is the time when the run was recorded, in milliseconds since 1970, and distinguishes it from other runs
    with its id; `attempt` counts how often the run was started. No attempt may replace what a higher one wrote.
    """

    recorded: int
    attempt: int


class Journal(Protocol):
    """The record of one run's finished steps, so that a restarted run repeats none of them.

    `run_id` identifies the run, and stays the same when it is restarted.
    """

    @property
    def run_id(self) -> str:
        """The run's id, unique among all runs."""

    @property
    def interrupted(self) -> bool:
        """Whether the run was cancelled here only to be continued later, by this process or another one."""

    @property
    def fenced(self) -> bool:
        """Whether another worker may perform the run, so that this one must write nothing more for it."""

    @property
    def epoch(self) -> Epoch | None:
        """The fencing token for files of the run, None if no other worker can take it over."""

    async def ensure_owned(self) -> None:
        """Return if this worker still owns the run; otherwise cancel the job."""

    async def step(self, name: str, work: Callable[[], Awaitable[JsonValue]]) -> JsonValue:
        """Return the result of `work`: executed now, or read back if this step was finished earlier.

        A run takes the same steps in the same order each time it is started with the same input, so a step is known by
        its number; `name` is for people. Work that raises is not finished: the run may still produce its outcome, but
        takes no further step, because in a replay the same work may succeed. If a process ends in the middle of a step,
        the step is repeated: its side effects need an idempotency key made of run and step.
        """


async def timed_step(
    journal: Journal, name: str, work: Callable[[], Awaitable[JsonObject]], on_repeated: Callable[[float], None]
) -> JsonObject:
    """Take a step whose result says in `seconds` how long it took; `on_repeated` gets them if it was finished earlier.

    So a run that another process continues has the time that is left of its limit, and not all of it once more.
    """
    is_new = False

    async def noted() -> JsonValue:
        nonlocal is_new
        is_new = True
        begun = time.monotonic()
        result = await work()
        return {"seconds": round(time.monotonic() - begun, 3), **result}

    recorded = await journal.step(name, noted)
    assert isinstance(recorded, dict)  # noqa: S101 - as `noted` makes it
    # Earlier versions recorded it of requests alone.
    seconds = recorded.get("seconds", 0.0)
    if not is_new and isinstance(seconds, (int, float)):
        on_repeated(seconds)
    return recorded


class MemoryJournal:
    """A journal without a record: every step is executed."""

    def __init__(self, run_id: str) -> None:
        """Start the run with this id."""
        self._run_id = run_id

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._run_id

    @property
    def interrupted(self) -> bool:
        """False: no process could continue the run."""
        return False

    @property
    def fenced(self) -> bool:
        """False: no other worker knows the run."""
        return False

    @property
    def epoch(self) -> Epoch | None:
        """None: no other worker knows the run."""
        return None

    async def ensure_owned(self) -> None:
        """Do nothing: this worker always owns the run."""

    async def step(self, name: str, work: Callable[[], Awaitable[JsonValue]]) -> JsonValue:
        """Execute the work."""
        del name
        return await work()
