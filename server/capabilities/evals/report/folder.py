"""Read a workspace that others may write: bounded, and never outside of it by a link.

A value of the wrong type in a JSON file counts as missing.
"""

from __future__ import annotations

import json
import math
import re
import stat
from typing import TYPE_CHECKING, Any, NamedTuple

from skills_core.diagnostics import printable, without_lone_surrogates
from skills_core.disk.files import MAX_FILE_SIZE, Location, Reader
from skills_core.errors import Fault, FileRefusedError, fault_of, system_message

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


_LONGEST = 100_000
# Characters of one text that a report keeps.


def record(value: Any) -> Mapping[str, Any]:  # noqa: ANN401 - JSON
    """Return a JSON object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def records(value: Any) -> list[Mapping[str, Any]]:  # noqa: ANN401 - JSON
    """Return the objects of a JSON array."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def first(values: Mapping[str, Any], *names: str) -> Any:  # noqa: ANN401 - JSON
    """Return the first of these fields that is there and not null."""
    return next((values[name] for name in names if values.get(name) is not None), None)


def text(value: Any) -> str:  # noqa: ANN401 - JSON
    """Return a text, or a number as text; empty for anything else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        # A whole number of thousands of digits cannot be converted.
        return str(value) if isinstance(value, float) or abs(value) < 10**30 else ""
    if not isinstance(value, str):
        return ""
    cut = value if len(value) <= _LONGEST else f"{value[:_LONGEST]}… ({len(value) - _LONGEST:,} more characters)"
    return without_lone_surrogates(cut)


def texts(value: Any) -> tuple[str, ...]:  # noqa: ANN401 - JSON
    """Return the texts of a JSON array, or a single text."""
    values = value if isinstance(value, list) else [value]
    return tuple(filter(None, map(text, values)))


def number(value: Any) -> float | None:  # noqa: ANN401 - JSON
    """Return a finite number; the delta of skill-creator is a text such as "+0.50"."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except (OverflowError, ValueError):
        return None
    return found if math.isfinite(found) else None


def count(value: Any) -> int | None:  # noqa: ANN401 - JSON
    """Return a whole number of at least 0."""
    found = number(value)
    return int(found) if found is not None and 0 <= found < 10**12 else None


def truth(value: Any) -> bool | None:  # noqa: ANN401 - JSON
    """Return a boolean, None for anything else."""
    return value if isinstance(value, bool) else None


_MAX_ENTRIES = 5000
# Entries of one folder that are looked at.

_MAX_PROBLEMS = 50


class Entry(NamedTuple):
    """A file, folder or something else in a folder; `refused` says why it is not read."""

    name: str
    is_folder: bool
    size: int | None
    refused: str


class Folder:
    """The folder of a workspace; collects what could not be used in `problems`."""

    def __init__(self, root: Path, reader: Reader) -> None:
        self._root = root
        self._reader = reader
        self.problems: list[str] = []

    @property
    def name(self) -> str:
        """The folder's own name."""
        return printable(self._root.resolve().name)

    def add_problem(self, relative: str, message: str) -> None:
        """Note that a file could not be used."""
        if len(self.problems) < _MAX_PROBLEMS:
            self.problems.append(f"{printable(relative)}: {message}")

    def entries(self, relative: str = "") -> list[Entry]:
        """Return what lies in a folder, numbers in names in their order; empty if there is none."""
        try:
            with self._reader.entries(Location(self._root, relative)) as found:
                listed = [_entry(each) for each, _ in zip(found, range(_MAX_ENTRIES + 1), strict=False)]
        except OSError as error:
            if fault_of(error) is not Fault.ABSENT:
                self.add_problem(relative, system_message(error))
            return []
        if len(listed) > _MAX_ENTRIES:
            self.add_problem(relative, f"only {_MAX_ENTRIES:,} entries of this folder are shown")
        return sorted(listed[:_MAX_ENTRIES], key=lambda entry: natural(entry.name))

    def folders(self, relative: str = "") -> list[str]:
        """Return the names of the folders in a folder."""
        return [entry.name for entry in self.entries(relative) if entry.is_folder and not entry.name.startswith(".")]

    def read(self, relative: str, limit: int = MAX_FILE_SIZE) -> bytes | None:
        """Return the bytes of a file; None if there is none, or if it cannot be read, which is a problem."""
        try:
            return self._reader.read(Location(self._root, relative), limit)[0]
        except FileRefusedError as error:
            if error.fault is not Fault.ABSENT:
                self.add_problem(relative, error.message)
            return None

    def json(self, relative: str) -> Any:  # noqa: ANN401 - JSON
        """Return the value of a JSON file; None if there is none, or if it is not JSON, which is a problem."""
        raw = self.read(relative)
        if raw is None:
            return None
        try:
            return json.loads(raw.decode("utf-8-sig", "replace"))
        except ValueError as error:
            place = f"line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else error
            # A file that is just being written is complete at the next look.
            self.add_problem(relative, f"not JSON ({place}); write it again, or delete it")
        except RecursionError:
            self.add_problem(relative, "not usable: its values are nested too deep")
        return None


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """Return a key that sorts `run-10` after `run-9`."""
    parts = re.split(r"([0-9]{1,18})", name)
    return tuple((int(part), "") if part.isdigit() and part.isascii() else (-1, part) for part in parts if part)


def _entry(entry: Any) -> Entry:  # noqa: ANN401 - an `os.DirEntry`, whose metadata may be gone
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError as error:
        return Entry(entry.name, is_folder=False, size=None, refused=system_message(error))
    if stat.S_ISDIR(status.st_mode):
        return Entry(entry.name, is_folder=True, size=None, refused="")
    if stat.S_ISREG(status.st_mode):
        return Entry(entry.name, is_folder=False, size=status.st_size, refused="")
    link = stat.S_ISLNK(status.st_mode)
    reason = "a link, which is not followed" if link else "not a regular file, so it is not opened"
    return Entry(entry.name, is_folder=False, size=None, refused=reason)
