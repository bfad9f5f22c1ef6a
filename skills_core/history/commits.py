"""The message of a commit: what was done, and trailers that say why, by which run, and to which skills."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from typing import Any, Final

from skills_core.diagnostics import one_line, shortened

__all__ = ["BEGINNING", "BY_HAND", "Cause", "HistoryCommit", "message_with_trailers", "parse_commit"]

_CAUSE: Final = "Cause"
_TRACE: Final = "Trace-Id"
_RESTORES: Final = "Restores"
_SKILL: Final = "Skill"
_MAX_MESSAGE: Final = 500

BEGINNING: Final = "Begin the history"
"""The message of the first commit."""

BY_HAND: Final = "Edited by hand"
"""The message of commits of edits that skillserve did not make."""


class Cause(StrEnum):
    """Why a commit was made."""

    INITIAL = "initial"
    MANUAL = "manual"
    INIT = "init"
    FIX = "validate-fix"
    DESCRIPTION = "description"
    IMPROVEMENT = "improvement"
    ROLLBACK = "rollback"
    SCHEDULE = "schedule"


@dataclass(frozen=True, slots=True)
class HistoryCommit:
    """One commit: its id, its time with offset, why it was made, and what it says.

    `trace_id` names the run that led to it. `skills` are the changed skills, as paths in the source. `restores` is the
    commit whose version a rollback restored.
    """

    rev: str
    when: str
    cause: str
    message: str
    trace_id: str | None = None
    skills: tuple[str, ...] = ()
    restores: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the object that commands and tools show."""
        return {
            "rev": self.rev,
            "when": self.when,
            "cause": self.cause,
            "message": self.message,
            "trace_id": self.trace_id,
            "skills": [one_line(skill) for skill in self.skills],
            "restores": self.restores,
        }


def message_with_trailers(
    message: str, cause: str, skills: tuple[str, ...], trace_id: str | None = None, restores: str | None = None
) -> bytes:
    """Return the whole message; line ends in the parts are escaped, so that no part can add a trailer."""
    pairs = [(_CAUSE, cause), (_TRACE, trace_id), (_RESTORES, restores)]
    lines = [f"{key}: {one_line(value)}" for key, value in pairs if value]
    # As JSON, every name of a folder stays on its line and can be read back.
    lines += [f"{_SKILL}: {json.dumps(skill)}" for skill in skills]
    summary = shortened(one_line(message), _MAX_MESSAGE) or cause
    return "\n".join([summary, "", *lines, ""]).encode()


def parse_commit(rev: str, message: bytes, seconds: int, offset: int) -> HistoryCommit:
    """Read a commit back; one that has no trailers was made by another program, and counts as manual."""
    head, _, trailers = message.decode("utf-8", "replace").strip().rpartition("\n\n")
    if not head:
        head, trailers = trailers, ""
    found: dict[str, list[str]] = {}
    for line in trailers.splitlines():
        key, _, value = line.partition(": ")
        found.setdefault(key, []).append(value)
    try:
        zone = timezone(timedelta(seconds=offset))
        when = datetime.fromtimestamp(seconds, zone)
    except (ValueError, OverflowError, OSError):
        when = datetime.fromtimestamp(0, UTC)
    return HistoryCommit(
        rev,
        when.isoformat(),
        _first(found, _CAUSE) or Cause.MANUAL,
        head.partition("\n")[0],
        _first(found, _TRACE),
        tuple(_read_name(value) for value in found.get(_SKILL, ())),
        _first(found, _RESTORES),
    )


def _first(found: dict[str, list[str]], key: str) -> str | None:
    return next(iter(found.get(key, ())), None)


def _read_name(value: str) -> str:
    try:
        name = json.loads(value)
    except ValueError:
        return value
    return name if isinstance(name, str) else value
