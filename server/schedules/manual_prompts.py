"""The prompts `sched-NAME`, by which a user performs a scheduler skill in a client."""

from __future__ import annotations

from typing import Any, Final

from server.schedules.errors import UnknownScheduleError
from server.schedules.skill_text import body_of, description_of, manual_prompt
from server.schedules.store import ScheduleStore

__all__ = ["PREFIX", "prompt_entries", "prompt_text"]

PREFIX: Final = "sched-"


def prompt_entries() -> list[dict[str, Any]]:
    """Return the entries of all schedules for `prompts/list`.

    Raises:
        ScheduleError: the folder of schedules cannot be read.
    """
    store = ScheduleStore()
    return [
        {"name": f"{PREFIX}{name}", "title": f"Run {name} now", "description": description_of(store.root / name)}
        for name in store.names()
    ]


def prompt_text(name: str) -> tuple[str, str] | None:
    """Return the description and the message of a prompt, None if there is no such schedule.

    Raises:
        ScheduleError: its SKILL.md cannot be read.
    """
    store = ScheduleStore()
    try:
        folder = store.folder(name.removeprefix(PREFIX))
    except UnknownScheduleError:
        return None
    return description_of(folder), manual_prompt(folder.name, body_of(folder))
