"""What history records: the files, links and folders of a source, as values."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from skills_core.disk.folders import MAIN_FILE, MAIN_FILE_LOWERCASE

__all__ = [
    "FILE_MODE",
    "FOLDER_MODE",
    "TEMPORARY",
    "Entry",
    "Kind",
    "State",
    "changed_units",
    "disk_mode",
    "is_left_out",
    "is_within",
    "parents_of",
    "part_of",
]

FILE_MODE: Final = 0o644
FOLDER_MODE: Final = 0o755

TEMPORARY: Final = ".skillserve-history-"
"""How the names of files and folders begin that exist only while a change is made."""

# Version control, dependencies and caches, secrets, and what systems, editors and skillserve write for a moment.
_LEFT_OUT = re.compile(
    r"""\.git | git~\d+ | \.(?:hg|svn|jj)
      | node_modules | __pycache__ | \.(?:venv|tox|mypy_cache|pytest_cache|ruff_cache)
      | \.env(?:\..*)?
      | \.DS_Store | Thumbs\.db | desktop\.ini
      | .*~ | \#.*\# | \.\#.* | .*\.sw[op] | 4913 | ___jb_(?:tmp|old)___
      | \.skillserve-.* | \.[0-9a-f]{16}\.part | \.removed-\d+""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_IGNORABLE = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
# Some disks of macOS ignore these characters, so that `.g\u200cit` is `.git` there.


class Kind(StrEnum):
    """What an entry is."""

    FILE = "file"
    LINK = "link"
    FOLDER = "folder"


@dataclass(frozen=True, slots=True)
class Entry:
    """One file, link or folder: its permission bits, and the git object of its bytes or of the link's target."""

    kind: Kind
    mode: int = 0
    blob: str = ""


State: TypeAlias = Mapping[str, Entry]
"""Entries by their paths, relative to the root of the source and separated by `/`. The root itself has no entry."""


def is_left_out(name: str) -> bool:
    """Tell whether a name is never recorded; history neither reads, writes nor removes such a file."""
    return _LEFT_OUT.fullmatch(_IGNORABLE.sub("", name).rstrip(" .") or name) is not None


def is_within(path: str, unit: str) -> bool:
    """Tell whether a path is the unit or lies in it; the unit `""` is the whole source."""
    return not unit or path == unit or path.startswith(f"{unit}/")


def part_of(state: State, unit: str) -> dict[str, Entry]:
    """Return the entries of one unit."""
    return {path: entry for path, entry in state.items() if is_within(path, unit)}


def parents_of(path: str) -> list[str]:
    """Return the folders above a path, the outermost first, without the root."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]


def changed_units(before: State, after: State) -> tuple[str, ...]:
    """Return the skills that differ: for each changed path the nearest folder with a SKILL.md, otherwise the path."""
    both = before.keys() | after.keys()
    skills = {path.rpartition("/")[0] for path in both if path.rpartition("/")[2] in {MAIN_FILE, MAIN_FILE_LOWERCASE}}
    changed = {path for path in both if before.get(path) != after.get(path)}
    units = {_unit_of(path, skills) for path in changed}
    # The folders above a new skill are part of the same change.
    above = {folder for unit in units for folder in parents_of(unit)}
    return tuple(sorted(units - (above - skills)))


def _unit_of(path: str, skills: set[str]) -> str:
    for folder in (path, *reversed(parents_of(path)), ""):
        if folder in skills:
            return folder
    return path


def disk_mode(mode: int, kind: Kind) -> int:
    """Return the permission bits that are recorded; Windows has none."""
    if os.name == "nt":
        return FOLDER_MODE if kind is Kind.FOLDER else FILE_MODE
    return mode & 0o777
