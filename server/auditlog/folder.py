"""The folder of the audit log: one file for each writer and day, so that no two processes ever write to one file.

Nothing has to be locked, neither between processes nor between machines that share the folder over a network. Only the
user of the server can enter the folder. Links and other files in it are never opened.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Final

from server.auditlog.chain import MAX_LINE, InvalidLineError, read_line
from server.auditlog.errors import AuditLogError
from skills_core.disk.json_files import lines_of as whole_and_torn_lines
from skills_core.disk.opening import open_to_read

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from server.auditlog.records import Entry

__all__ = [
    "FolderContents",
    "LogFileName",
    "contents",
    "ends_of_files",
    "last_day",
    "lines_of",
    "prepare",
    "remove",
    "rights_fault",
]

_NAME: Final = re.compile(r"(\d{4}-\d\d-\d\d)-([0-9a-f]{16})\.jsonl", re.ASCII)
_OTHERS: Final = 0o022
_CHUNK: Final = 1024 * 1024
_DAYS: Final = 3
_MOST_ENDS: Final = 1000
# Files whose ends a new file names: those of the latest days. Each file is named by many later ones.


@dataclass(frozen=True, slots=True, order=True)
class LogFileName:
    """The name of a file: its day and the random number of its writer."""

    day: date
    writer: str

    @classmethod
    def new(cls, day: date) -> LogFileName:
        """Return a name that no other process can choose."""
        return cls(day, secrets.token_hex(8))

    @classmethod
    def parse(cls, name: str) -> LogFileName | None:
        """Return the parts of a name, None if it is not the name of a file of the log."""
        if (found := _NAME.fullmatch(name)) is None:
            return None
        try:
            return cls(date.fromisoformat(found[1]), found[2])
        except ValueError:
            return None

    def __str__(self) -> str:
        return f"{self.day.isoformat()}-{self.writer}.jsonl"


@dataclass(frozen=True, slots=True)
class FolderContents:
    """The files of the log in the order of their days, and the names of everything else in the folder."""

    files: tuple[LogFileName, ...] = ()
    foreign: tuple[str, ...] = ()


def prepare(folder: Path) -> None:
    """Create the folder if it is missing, and require that no other user can write to it.

    Raises:
        AuditLogError: it cannot be created or used.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise AuditLogError(f"{folder}: the folder of the audit log cannot be used: {reason}") from None
    if not stat.S_ISDIR(found.st_mode):
        raise AuditLogError(f"{folder}: the folder of the audit log is not a folder; set audit_log.folder")
    if fault := rights_fault(found):
        advice = "restrict it with chmod 700, or set audit_log.folder to a folder of your own"
        raise AuditLogError(f"{folder}: this folder is not safe for the audit log: {fault}; {advice}")


def rights_fault(found: os.stat_result) -> str | None:
    """Return why another user could write to a folder with these rights, None if none can."""
    if sys.platform == "win32":
        return None
    if found.st_uid != os.geteuid():
        return "it belongs to another user"
    return "other users can write to it" if found.st_mode & _OTHERS else None


def contents(folder: Path) -> FolderContents:
    """Return what is in the folder; a missing folder is empty.

    Raises:
        AuditLogError: it cannot be read.
    """
    files: list[LogFileName] = []
    foreign: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = LogFileName.parse(entry.name)
                if name is not None and entry.is_file(follow_symlinks=False):
                    files.append(name)
                else:
                    foreign.append(entry.name)
    except FileNotFoundError:
        return FolderContents()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise AuditLogError(f"{folder}: the audit log cannot be read: {reason}") from None
    return FolderContents(tuple(sorted(files)), tuple(sorted(foreign)))


def lines_of(folder: Path, name: LogFileName) -> Iterator[tuple[bytes, bool]]:
    """Yield the lines of a file without their ends, and whether each is complete: only the last one may not be.

    A line that is too long for a record is shortened.

    Raises:
        FileNotFoundError: the file was removed, as retention does.
        AuditLogError: the file cannot be read.
    """
    path = folder / str(name)
    try:
        with open(path, "rb", opener=_opened) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise AuditLogError(f"{path}: this is not a regular file")
            yield from whole_and_torn_lines(file, MAX_LINE)
    except FileNotFoundError:
        raise
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise AuditLogError(f"{path}: cannot be read: {reason}") from None


def ends_of_files(folder: Path, day: date) -> tuple[tuple[str, int, str], ...]:
    """Return the name, the last number and the last hash of the files of the latest days up to `day`, and after it.

    There are files of later days if a clock was ahead.
    """
    files = contents(folder).files
    latest: list[LogFileName] = []
    for group in ([name for name in files if name.day <= day], [name for name in files if name.day > day]):
        days = sorted({name.day for name in group})[-_DAYS:]
        latest += [name for name in group if name.day in days][-_MOST_ENDS:]
    entries = ((name, _last_entry(folder, name)) for name in latest)
    return tuple((str(name), entry.seq, entry.hash) for name, entry in entries if entry is not None)


def last_day(folder: Path, name: LogFileName) -> str:
    """Return the day of the last record of a file; that of its name if it cannot be read."""
    entry = _last_entry(folder, name)
    return name.day.isoformat() if entry is None else entry.when[:10]


def _last_entry(folder: Path, name: LogFileName) -> Entry | None:
    with suppress(OSError, InvalidLineError):
        return read_line(_last_line(folder / str(name)))
    return None


def _last_line(path: Path) -> bytes:
    """Return the last complete line of a file; nothing if there is none."""
    with open(path, "rb", opener=_opened) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _CHUNK))
        return file.read(_CHUNK).rpartition(b"\n")[0].rpartition(b"\n")[2]


def remove(folder: Path, names: tuple[LogFileName, ...]) -> None:
    """Delete files; another process may have done so already."""
    for name in names:
        with suppress(OSError):
            (folder / str(name)).unlink()


def _opened(path: str, _: int) -> int:
    return open_to_read(path)
