"""One file of the audit log while it is written: each record is in it as a whole, or not at all."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from server import __version__
from server.auditlog.chain import FIRST, FileEnd, chained_line
from server.auditlog.folder import LogFileName, ends_of_files, prepare
from server.auditlog.records import AuditEvent, timestamp
from skills_core.disk.json_files import LineWriter
from skills_core.disk.opening import open_new

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date
    from pathlib import Path

    from server.auditlog.records import AuditRecord

__all__ = ["LogFile", "fields_of"]


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

    def append(self, records: Iterable[Mapping[str, Any]]) -> int:
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
            os.close(self._lines.descriptor)
