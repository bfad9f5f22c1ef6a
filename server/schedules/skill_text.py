"""The text of a scheduler skill, and the message that performs it by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from server.schedules.errors import ScheduleError
from skills_core.disk.folders import MAIN_FILE
from skills_core.errors import InvalidSkillError
from skills_core.format.frontmatter import DESCRIPTION_LIMIT
from skills_core.single_skill import read_skill

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "CREATOR",
    "MAX_TASK",
    "PLACEHOLDERS",
    "body_of",
    "check_written",
    "checked_task",
    "description_of",
    "manual_prompt",
    "skill_text",
]

CREATOR: Final = "scheduler-skill-creator"
"""The bundled skill that makes scheduler skills."""

MAX_TASK: Final = 20_000
"""Most characters of a task."""

_OUTPUT: Final = "Return the result as plain text, complete and without questions: no user is present to answer."

PLACEHOLDERS: Final = {
    "the description": "Say in one sentence what this schedule does.",
    "the section `## Task`": "Say what to do, with everything that it needs: no user can be asked when it runs.",
    "the section `## Output format`": "Say what the result looks like.",
}
"""What the script of `scheduler-skill-creator` writes, for its user to replace."""

_PREAMBLE: Final = (
    "[Perform the existing scheduler skill: {name}. This is a manual trigger, not a request for a new schedule.]\n"
    "Follow the instructions of the skill below now, and give the result.\n"
    "Do NOT activate `scheduler-skill-creator`, do NOT run `init_scheduler_skill.py`, and do NOT make, change "
    "or remove any schedule (`schedule_skill`, `skillserve schedule add`)."
)


def checked_task(task: str) -> str:
    """Return the task without space around it.

    Raises:
        ScheduleError: it is empty or too long.
    """
    text = task.strip()
    if not text:
        raise ScheduleError("What should be done? The task is empty; describe it with --task TEXT.")
    if len(text) > MAX_TASK:
        raise ScheduleError(f"The task has {len(text)} characters; at most {MAX_TASK} are allowed.")
    return text


def skill_text(name: str, task: str, output: str | None = None) -> str:
    """Return the SKILL.md of a scheduler skill; `output` says what the result should look like."""
    description = json.dumps(" ".join(task.split())[: DESCRIPTION_LIMIT - 100], ensure_ascii=False)
    head = f"---\nname: {name}\ndescription: {description}\n---\n"
    return f"{head}\n## Task\n\n{task}\n\n## Output format\n\n{(output or '').strip() or _OUTPUT}\n"


def body_of(folder: Path) -> str:
    """Return the instructions of a scheduler skill.

    Raises:
        ScheduleError: its SKILL.md cannot be read.
    """
    try:
        return read_skill(folder).body.strip()
    except InvalidSkillError as error:
        raise ScheduleError(f"The scheduler skill {folder.name} cannot be read: {error}") from None


def check_written(folder: Path) -> None:
    """Check that a scheduler skill says what to do, and is not as the script of `scheduler-skill-creator` made it.

    Raises:
        ScheduleError: it has no instructions or a text that was to be replaced, or it cannot be read.
    """
    body = body_of(folder)
    if not any(line.strip() and not line.startswith("#") for line in body.splitlines()):
        raise ScheduleError(f"The scheduler skill {folder.name} says nothing to do; write the task into its SKILL.md.")
    text = _plain(f"{description_of(folder)} {body}")
    if left := [where for where, placeholder in PLACEHOLDERS.items() if _plain(placeholder) in text]:
        raise ScheduleError(
            f"The scheduler skill {folder.name} is still as it was made: replace the text of {', '.join(left)} in "
            f"{folder / MAIN_FILE}, then give it its time."
        )


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def description_of(folder: Path) -> str:
    """Return the description of a scheduler skill, or why there is none."""
    try:
        return read_skill(folder).frontmatter.description or folder.name
    except InvalidSkillError as error:
        return str(error)


def manual_prompt(name: str, body: str) -> str:
    """Return the message that performs a scheduler skill by hand, and keeps models from making another schedule."""
    return f"{_PREAMBLE.format(name=name)}\n\n{body}".rstrip()
