"""The prompts `sched-NAME`, by which a user performs a scheduler skill in a client."""

from __future__ import annotations

import logging
from typing import Any, Final

from server.schedules.errors import ScheduleError, UnknownScheduleError
from server.schedules.skill_text import body_of, description_of, manual_prompt
from server.schedules.store import ScheduleStore
from skills_core.diagnostics import one_line

__all__ = ["PREFIX", "prompt_entries", "prompt_text"]

logger = logging.getLogger(__name__)

PREFIX: Final = "sched-"


def prompt_entries() -> list[dict[str, Any]]:
    """Return the entries of all schedules for `prompts/list`; none if they cannot be read."""
    store = ScheduleStore()
    try:
        names = store.names()
    except ScheduleError as error:
        logger.warning("%s", one_line(str(error)))
        return []
    return [
        {"name": f"{PREFIX}{name}", "title": f"Run {name} now", "description": description_of(store.root / name)}
        for name in names
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
