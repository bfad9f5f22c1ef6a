"""Read a request for a schedule without guessing: what is missing is a question."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from skills_core.schedules.free_text import FoundTime, MissingReason, find_time

if TYPE_CHECKING:
    from datetime import datetime

    from skills_core.schedules.when import When

__all__ = ["Request", "Understood", "understand"]

_WHEN: Final = (
    "When should it run? Give one exact time, for example `+5m`, `18:00`, `tomorrow 9:00`, `every 2 hours` or "
    "`every day at 9:00`."
)
_WHAT: Final = "What should be done at that time? Describe the task."
_ANY_TASK: Final = "say hello"


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
        return Understood(request, question=_WHEN, asks_time=True)
    # The time is read by itself, so that times in the task are part of the task.
    found = find_time(f"{request.time}\n{_ANY_TASK}", now, zone)
    if not isinstance(found, FoundTime) or found.task != _ANY_TASK:
        question = _WHEN if isinstance(found, FoundTime) else found.question
        return Understood(request, question=question, asks_time=True)
    if needs_task and not (request.task or "").strip():
        return Understood(request, found.when, question=_WHAT)
    return Understood(request, found.when, request.task)
