"""Read a request for a schedule without guessing: what is missing is a question."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from skills_core.errors import InvalidTimeError
from skills_core.schedules.free_text import WHAT, WHEN, FoundTime, MissingReason, find_time
from skills_core.schedules.parsing import read_time

if TYPE_CHECKING:
    from datetime import datetime

    from skills_core.schedules.when import When

__all__ = ["Request", "Understood", "understand"]


@dataclass(frozen=True, slots=True)
class Request:
    """What the user said: time and task, or both in one `text`."""

    time: str | None = None
    task: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Understood:
    """What is understood of a request; `question` asks for what is missing, `asks_time` says whether that is the time.

    `known` is the request as it is to be completed by the answer.
    """

    known: Request
    when: When | None = None
    task: str | None = None
    question: str = ""
    asks_time: bool = False

    def answered(self, answer: str) -> Request:
        """Return the request with the answer to the question."""
        return replace(self.known, time=answer) if self.asks_time else replace(self.known, task=answer)


def understand(request: Request, now: datetime, zone: str, *, needs_task: bool = True) -> Understood:
    """Return the time and the task of a request, or the question to ask first."""
    if request.text is not None and request.time is None and request.task is None:
        found = find_time(request.text, now, zone)
        if isinstance(found, FoundTime):
            return Understood(request, found.when, found.task)
        if found.reason is not MissingReason.NO_TASK:
            return Understood(Request(task=request.text), question=found.question, asks_time=True)
        request = Request(time=request.text)
    if not (request.time or "").strip():
        return Understood(request, question=WHEN, asks_time=True)
    # The time is read by itself, so that times in the task are part of the task.
    when, question = _read(request.time or "", now, zone)
    if when is None:
        return Understood(request, question=question, asks_time=True)
    if needs_task and not (request.task or "").strip():
        return Understood(request, when, question=WHAT)
    return Understood(request, when, request.task)


def _read(text: str, now: datetime, zone: str) -> tuple[When | None, str]:
    """Return the time that a text gives, beside it at most words such as `please`; or None and the question to ask."""
    try:
        return read_time(text, now, zone), ""
    except InvalidTimeError:
        found = find_time(text, now, zone)
    if isinstance(found, FoundTime):
        return None, f"{found.task!r} is not part of a time. {WHEN}"
    return found.when, found.question
