"""One file of the audit log while it is written: each record is in it as a whole, or not at all."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from server import __version__
from server.auditlog.chain import FIRST, FileEnd, chained_line
from server.auditlog.folder import LogFileName, ends_of_files, prepare
from server.auditlog.records import AuditEvent, timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date
    from pathlib import Path

    from server.auditlog.records import AuditRecord

__all__ = ["LogFile", "fields_of"]

_FLAGS: Final = (
    os.O_WRONLY
    | os.O_CREAT
    | os.O_EXCL
    | os.O_APPEND
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOINHERIT", 0)
    | getattr(os, "O_BINARY", 0)
)


def fields_of(record: AuditRecord) -> dict[str, Any]:
    """Return the fields of a record that have a value."""
    found: dict[str, Any] = msgspec.to_builtins(record)
    return found


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
        self._seq, self._hash, self._size = -1, FIRST, 0
        self._descriptor = os.open(self._path, _FLAGS, 0o600)
        start = {
            "when": timestamp(),
            "event": AuditEvent.START,
            "file": str(self.name),
            "host": socket.gethostname()[:100],
            "pid": os.getpid(),
            "version": __version__,
            "seen": [*ends.values()],
        }
        self.fault: OSError | None = None
        try:
            self.append_all([start])
        except OSError:
            os.close(self._descriptor)
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
            found = os.fstat(self._descriptor)
            there = self._path.lstat()
        except OSError:
            return False
        return found.st_size == self._size and (found.st_dev, found.st_ino) == (there.st_dev, there.st_ino)

    def append(self, records: Iterable[Mapping[str, Any]]) -> int:
        """Write records, and wait until the disk has them; return how many the file has now.

        If it has fewer than were given, or the disk does not confirm them, `fault` says why. What another process may
        have seen as a record is never taken back.
        """
        content, ends = b"", list[tuple[int, str]]()
        for record in records:
            line, digest = chained_line(record, self._seq + len(ends) + 1, ends[-1][1] if ends else self._hash)
            content += line
            ends.append((len(content), digest))
        written, self.fault = _write(self._descriptor, content)
        kept = [end for end in ends if end[0] <= written]
        if kept:
            self._seq, self._size, self._hash = self._seq + len(kept), self._size + kept[-1][0], kept[-1][1]
        if written < len(content):
            # Part of a record may be there; a full disk lets a file become shorter.
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            self.fault = self.fault or error
        return len(kept)

    def append_all(self, records: Sequence[Mapping[str, Any]]) -> None:
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
            os.close(self._descriptor)


def _write(descriptor: int, content: bytes) -> tuple[int, OSError | None]:
    """Write bytes; return how many were written, and why not all of them."""
    written = 0
    try:
        while written < len(content):
            written += os.write(descriptor, memoryview(content)[written:])
    except OSError as error:
        return written, error
    return written, None
