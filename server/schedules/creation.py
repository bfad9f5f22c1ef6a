"""Make schedules, and give existing ones another time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from server.schedules.binding import Binding
from server.schedules.errors import ScheduleError
from server.schedules.skill_text import check_written, checked_task, skill_text
from server.schedules.transitions import rebound
from skills_core.schedules.policies import MissedPolicy, OverlapPolicy
from skills_core.schedules.when import next_firings, when_to_json

if TYPE_CHECKING:
    from datetime import datetime

    from server.schedules.rights import Rights
    from server.schedules.store import ScheduleStore
    from skills_core.schedules.when import When

__all__ = ["NewSchedule", "bind", "create", "rebind"]


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
