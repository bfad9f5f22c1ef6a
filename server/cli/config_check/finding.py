"""What a check of the configuration found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is: with an error, a command or a server fails; a warning names what has no effect or is risky."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class ConfigFinding:
    """One fault: where it is, what is wrong and what was expected, and what to do.

    `file` is the path of a file, or names an environment variable. `key` is None for a fault of the whole file.
    """

    level: Level
    file: str
    key: str | None
    message: str
    advice: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A file that was looked for: what it is for, and whether it exists."""

    path: str
    purpose: str
    exists: bool
