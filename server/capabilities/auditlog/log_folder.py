"""The folder of the audit log: one file for each writer and day, so that no two processes ever write to one file.

Nothing has to be locked, neither between processes nor between machines that share the folder over a network. Only the
user of the server can enter the folder. Links and other files in it are never opened. Each record is in its file as a
whole, or not at all.

The lines of a file are a hash chain: each ends with the SHA-256 of itself, and has that of the line before. The hash is
over the bytes of the line, so that there is one way to check it. It has no secret: who can write all files can compute
all hashes again, and remove records at the end. Therefore files also name the ends of other files, and the server
writes the ends of its files where others keep them: these are anchors.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import socket
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from server import __version__
from server.capabilities.auditlog.records import AuditEvent, AuditLogError, ChainedRecord, timestamp
from skills_core.disk.files import open_new, open_to_read
from skills_core.disk.writing import LineWriter
from skills_core.disk.writing import lines_of as whole_and_torn_lines
from skills_core.errors import system_message

if TYPE_CHECKING:
    from server.capabilities.auditlog.records import AuditRecord


FIRST: Final = "0" * 64
"""What the first line of a file has in place of the hash of the line before."""

MAX_LINE: Final = 512 * 1024
"""Bytes of a line; usual ones have some 400, the first of a file has more."""

_SUFFIX: Final = re.compile(rb',"hash":"([0-9a-f]{64})"\}')
_SUFFIX_LENGTH: Final = len(',"hash":""}') + 64
_DECODER: Final = msgspec.json.Decoder(ChainedRecord)


_ANCHOR: Final = re.compile(r"(\d{4}-\d\d-\d\d-[0-9a-f]{16}\.jsonl):(\d{1,15}):([0-9a-f]{64})", re.ASCII)

MAX_ANCHOR: Final = 128
"""Characters of an anchor at most."""


class InvalidLineError(ValueError):
    """A line is not a record, or not what was written."""


@dataclass(frozen=True, slots=True)
class FileEnd:
    """The end of a file: kept elsewhere, it is an anchor, which shows later whether the file still goes that far.

    `anchored` is how many of the records are covered by an anchor.
    """

    file: str
    records: int
    hash: str
    anchored: int = 0

    @property
    def anchor(self) -> str:
        """The end as one word."""
        return f"{self.file}:{self.records}:{self.hash}"


def anchors_of(text: str) -> Iterator[FileEnd]:
    """Yield the anchors in a text. A file with no record has none."""
    for found in _ANCHOR.finditer(text):
        if records := int(found[2]):
            yield FileEnd(found[1], records, found[3])


def chained_line(record: AuditRecord | Mapping[str, Any], seq: int, prev: str) -> tuple[bytes, str]:
    """Return the line of a record, or of the fields of one, with its end, and its hash."""
    body = b'{"seq":%d,%s,"prev":"%s"}' % (seq, msgspec.json.encode(record)[1:-1], prev.encode())
    digest = hashlib.sha256(body).hexdigest()
    return b'%s,"hash":"%s"}\n' % (body[:-1], digest.encode()), digest


def read_line(line: bytes) -> ChainedRecord:
    """Return the record of a line, without its end.

    Raises:
        InvalidLineError: it is not a record, or its hash does not fit.
    """
    found = _SUFFIX.fullmatch(line[-_SUFFIX_LENGTH:])
    if found is None:
        raise InvalidLineError("this is not a record")
    digest = hashlib.sha256(line[:-_SUFFIX_LENGTH] + b"}").hexdigest()
    if digest.encode() != found[1]:
        raise InvalidLineError("this record was changed")
    try:
        return _DECODER.decode(line)
    except (msgspec.DecodeError, RecursionError):
        raise InvalidLineError("this is not a record") from None


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


def prepare(folder: Path) -> None:
    """Create the folder if it is missing, and require that no other user can write to it.

    Raises:
        AuditLogError: it cannot be created or used.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        raise AuditLogError(f"{folder}: the folder of the audit log cannot be used: {system_message(error)}") from None
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


def contents(folder: Path) -> tuple[list[LogFileName], list[str]]:
    """Return the files of the log in the order of their days, and the names of all else; a missing folder is empty.

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
        pass
    except OSError as error:
        raise AuditLogError(f"{folder}: the audit log cannot be read: {system_message(error)}") from None
    return sorted(files), sorted(foreign)


def lines_of(folder: Path, name: LogFileName, latest: int | None = None) -> Iterator[tuple[bytes, bool]]:
    """Yield the lines of a file without their ends, and whether each is complete: only the last one may not be.

    With `latest`, only the lines are read that begin in the last so many bytes. A line that is too long for a record is
    shortened.

    Raises:
        FileNotFoundError: the file was removed, as retention does.
        AuditLogError: the file cannot be read.
    """
    path = folder / str(name)
    try:
        with open(path, "rb", opener=_opened) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise AuditLogError(f"{path}: this is not a regular file")
            if latest is not None and (begin := os.fstat(file.fileno()).st_size - latest) > 0:
                file.seek(begin - 1)
                file.readline()
            yield from whole_and_torn_lines(file, MAX_LINE)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise AuditLogError(f"{path}: cannot be read: {system_message(error)}") from None


def ends_of_files(folder: Path, day: date) -> tuple[tuple[str, int, str], ...]:
    """Return the name, the last number and the last hash of the files of the latest days up to `day`, and after it.

    There are files of later days if a clock was ahead.
    """
    files, _ = contents(folder)
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


def _last_entry(folder: Path, name: LogFileName) -> ChainedRecord | None:
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


class LogFile:
    """A new file, open for appending; its first record names the ends of the files that were there before."""

    def __init__(self, folder: Path, day: date, seen: Iterable[tuple[str, int, str]] = ()) -> None:
        """Create the file; `seen` has ends of files that the folder may lack by now.

        Raises:
            AuditLogError: the folder cannot be used.
            OSError: the file cannot be written.
        """
        prepare(folder)
        ends = {name: (name, seq, digest) for name, seq, digest in (*ends_of_files(folder, day), *seen)}
        self.name = LogFileName.new(day)
        self._path = folder / str(self.name)
        self._seq, self._hash = -1, FIRST
        self._lines = LineWriter(open_new(self._path, appends=True))
        start = {
            "when": timestamp(),
            "event": AuditEvent.START,
            "file": str(self.name),
            "host": socket.gethostname()[:100],
            "pid": os.getpid(),
            "version": __version__,
            "seen": [*ends.values()],
        }
        try:
            self.append_all([start])
        except OSError:
            os.close(self._lines.descriptor)
            with suppress(OSError):
                self._path.unlink()
            raise

    @property
    def end(self) -> tuple[str, int, str]:
        """The name of the file, and the number and the hash of its last record."""
        return str(self.name), self._seq, self._hash

    @property
    def anchor(self) -> FileEnd:
        """The same with the number of records, for `verify`."""
        return FileEnd(str(self.name), self._seq + 1, self._hash)

    def is_intact(self) -> bool:
        """Tell whether the file is still in the folder, and as long as it was left."""
        try:
            found = os.fstat(self._lines.descriptor)
            there = self._path.lstat()
        except OSError:
            return False
        return found.st_size == self._lines.size and (found.st_dev, found.st_ino) == (there.st_dev, there.st_ino)

    def append(self, records: Iterable[AuditRecord | Mapping[str, Any]]) -> int:
        """Write records, and wait until the disk has them; return how many the file has now.

        If it has fewer than were given, or the disk does not confirm them, `fault` says why. What another process may
        have seen as a record is never taken back.
        """
        lines, hashes = list[bytes](), [self._hash]
        for record in records:
            line, digest = chained_line(record, self._seq + len(hashes), hashes[-1])
            lines.append(line)
            hashes.append(digest)
        kept = self._lines.append(lines)
        self._seq, self._hash = self._seq + kept, hashes[kept]
        return kept

    @property
    def fault(self) -> OSError | None:
        """Why the file does not have all records of the last call of `append`; None if it has."""
        return self._lines.fault

    def append_all(self, records: Sequence[AuditRecord | Mapping[str, Any]]) -> None:
        """Write records.

        Raises:
            OSError: the file does not have all of them.
        """
        if self.append(records) < len(records):
            raise self.fault or OSError("the file cannot be written")

    def close(self, *, ended: bool = True) -> None:
        """Close the file, with a last record unless it cannot be continued."""
        try:
            if ended:
                self.append([{"when": timestamp(), "event": AuditEvent.END}])
        finally:
            os.close(self._lines.descriptor)
