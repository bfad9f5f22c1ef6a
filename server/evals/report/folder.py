"""Read a workspace that others may write: bounded, and never outside of it by a link."""

from __future__ import annotations

import json
import re
import stat
from typing import TYPE_CHECKING, Any, NamedTuple

from skills_core.diagnostics import printable
from skills_core.disk.files import MAX_FILE_SIZE, Location, Reader
from skills_core.errors import FileRefusedError
from skills_core.system_faults import Fault, fault_of, system_message

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Entry", "Folder", "natural"]

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
