"""Understand requests for schedules without guessing, make schedules, and give existing ones another time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from server.capabilities.schedules.allowances import ScheduleError
from server.capabilities.schedules.binding import Binding, rebound
from server.capabilities.schedules.store import check_written, checked_task, skill_text
from skills_core.errors import InvalidTimeError
from skills_core.schedules.free_text import WHAT, WHEN, FoundTime, MissingReason, find_time
from skills_core.schedules.parsing import read_time
from skills_core.schedules.when import MissedPolicy, OverlapPolicy, next_firings, when_to_json

if TYPE_CHECKING:
    from datetime import datetime

    from server.capabilities.schedules.allowances import Rights
    from server.capabilities.schedules.store import ScheduleStore
    from skills_core.schedules.when import When


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


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSchedule:
    """A schedule as its creator wants it; see `Binding`."""

    short: str
    when: When
    zone: str
    task: str
    rights: Rights
    creator: str
    skill: str | None = None
    model: str | None = None
    output: str | None = None
    missed: MissedPolicy = MissedPolicy.ONCE
    overlap: OverlapPolicy = OverlapPolicy.SKIP


def create(store: ScheduleStore, wanted: NewSchedule, now: datetime, *, alone: bool = False) -> str:
    """Create the scheduler skill, and return its name; with `alone`, its short name must be free.

    Raises:
        ScheduleError: the task is empty, the time never comes, the short name is taken, or the disk refuses.
    """
    render = partial(skill_text, task=checked_task(wanted.task), output=wanted.output)
    return store.add(wanted.short, render, _binding(wanted, now), alone=alone)


def bind(store: ScheduleStore, name: str, wanted: NewSchedule, now: datetime) -> None:
    """Give a time to a scheduler skill that has none; its SKILL.md has the task.

    Raises:
        ScheduleError: the time never comes, it has a time already, or its SKILL.md is not written yet.
    """
    check_written(store.folder(name))
    store.bind(name, _binding(wanted, now))


def _binding(wanted: NewSchedule, now: datetime) -> Binding:
    if not next_firings(wanted.when, now, 1):
        raise ScheduleError("The time is past; give one that comes.")
    return Binding(
        when=dict(when_to_json(wanted.when)),
        zone=wanted.zone,
        missed=wanted.missed,
        overlap=wanted.overlap,
        skill=wanted.skill,
        model=wanted.model,
        rights=wanted.rights,
        creator=wanted.creator,
        created=now,
        settled=now,
    )


def rebind(store: ScheduleStore, name: str, when: When, zone: str, now: datetime) -> Binding:
    """Give a schedule another time, and return its binding.

    Raises:
        ScheduleError: the time never comes, or the schedule cannot be changed.
    """
    return store.update(name, lambda binding: rebound(binding, when, when_to_json(when), zone, now))
