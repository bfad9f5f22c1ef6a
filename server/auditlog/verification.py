"""Verify the audit log: whether each record is as it was written, and whether any is missing."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from server.auditlog.chain import FIRST, InvalidLineError, read_line
from server.auditlog.folder import LogFileName, contents, lines_of
from server.auditlog.records import AuditEvent

if TYPE_CHECKING:
    from pathlib import Path

    from server.auditlog.records import Entry

__all__ = ["FileEnd", "Finding", "FindingKind", "Verification", "verify"]

_ATTEMPTS: Final = 3


class FindingKind(StrEnum):
    """What was found; the last four are no damage."""

    CHANGED = "changed"
    """A line is not what was written."""
    MISSING = "missing"
    """Records within a file, or at its beginning, are missing, or are in another order."""
    SHORTENED = "shortened"
    """Records at the end of a file are missing, which another file names."""
    REMOVED = "removed"
    """A file is missing that another file names, and retention did not delete it."""
    ADDED = "added"
    """There are records after the last one."""
    FOREIGN = "foreign"
    """The name of a file of the log belongs to a link, a folder or the copy of another file."""
    TORN = "torn"
    """The last line is not complete: its writer was killed, or is writing it."""
    OPEN = "open"
    """A file has no last record: its writer was killed, or is still running."""
    GAP = "gap"
    """Records were lost, because the disk was full or too slow."""
    IGNORED = "ignored"
    """Something else is in the folder; it was not opened."""

    @property
    def is_damage(self) -> bool:
        """Whether the server cannot have left the log like this."""
        return self not in {FindingKind.TORN, FindingKind.OPEN, FindingKind.GAP, FindingKind.IGNORED}


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found in a file, at a line if it has a place."""

    kind: FindingKind
    file: str
    message: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class FileEnd:
    """The end of a file: kept elsewhere, it shows later whether the file was written again."""

    file: str
    records: int
    hash: str


@dataclass(slots=True)
class Verification:
    """What a verification found: `records` is the number of intact records."""

    findings: list[Finding] = field(default_factory=list)
    ends: list[FileEnd] = field(default_factory=list)
    records: int = 0

    @property
    def is_intact(self) -> bool:
        """Whether the server can have left the log like this."""
        return not any(finding.kind.is_damage for finding in self.findings)


@dataclass(slots=True)
class _Claims:
    """What files say about others: the hashes of records by file and number, and which files retention deleted.

    The days count too: older versions wrote no names, and what has the names is itself deleted some day.
    """

    seen: dict[str, dict[int, str]] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    deleted_before: str = ""

    def add(self, entry: Entry, day: str) -> None:
        """Note what a record in the file of a day says."""
        for name, seq, digest in entry.seen:
            self.seen.setdefault(name, {})[seq] = digest
        if entry.event is not AuditEvent.RETENTION:
            return
        self.deleted.update(entry.deleted)
        # A clock that was ahead must not account for files that somebody removes later.
        if (entry.before or "") <= day <= datetime.now(UTC).date().isoformat():
            self.deleted_before = max(self.deleted_before, entry.before or "")

    def explains_removal_of(self, name: str) -> bool:
        return name in self.deleted or name[:10] < self.deleted_before


def verify(folder: Path) -> Verification:
    """Check all files of a log; a log that others write meanwhile may be checked.

    Raises:
        AuditLogError: the folder or a file cannot be read.
    """
    # If a file vanishes while we read, a file that was begun since then may say that retention deleted it.
    for _ in range(_ATTEMPTS - 1):
        found, is_complete = _verify_listed(folder)
        if is_complete:
            return found
    return _verify_listed(folder)[0]


def _verify_listed(folder: Path) -> tuple[Verification, bool]:
    """Check the files that are there now; return also whether none of them vanished meanwhile."""
    found, claims = Verification(), _Claims()
    # Files are begun while we read; what one of these names must have been there before.
    there = contents(folder)
    checked = {str(name): _check_file(folder, name, found, claims) for name in there.files}
    for name, claimed in sorted(claims.seen.items()):
        file = checked.get(name)
        if file is not None:
            _check_claims(file, claimed)
        elif not claims.explains_removal_of(name):
            found.findings.append(Finding(FindingKind.REMOVED, name, "this file is missing; another file names it"))
    for each in there.foreign:
        kind = FindingKind.IGNORED if LogFileName.parse(each) is None else FindingKind.FOREIGN
        found.findings.append(Finding(kind, each, "this is not a file of the audit log; it was not opened"))
    return found, None not in checked.values()


def _check_claims(file: _CheckedFile, claimed: dict[int, str]) -> None:
    """Compare a file with what others say about its end."""
    for seq, digest in sorted(claimed.items()):
        if seq >= file.expected:
            message = f"another file names its record {seq}, but the last one is {file.expected - 1}"
            file.note(FindingKind.SHORTENED, message)
            return
        if file.hashes.get(seq, digest) != digest:
            message = f"record {seq} is another one than when a later file was begun"
            file.note(FindingKind.CHANGED, message, seq + 1)
            return


def _check_file(folder: Path, name: LogFileName, found: Verification, claims: _Claims) -> _CheckedFile | None:
    """Check the chain of a file; None if it is no longer there."""
    checked = _CheckedFile(str(name), found, claims)
    try:
        for number, (line, complete) in enumerate(lines_of(folder, name), 1):
            checked.add(number, line, complete=complete)
    except FileNotFoundError:
        return None
    checked.finish()
    return checked


@dataclass(slots=True)
class _CheckedFile:
    """A file while its lines are checked: the hashes of its intact records, and the number that the next one must have.

    It contains nothing for records that are missing, because a line that somebody wrote may have any number.
    """

    name: str
    found: Verification
    claims: _Claims
    hashes: dict[int, str] = field(default_factory=dict)
    expected: int = 0
    prev: str | None = FIRST
    ended: bool = False

    def add(self, number: int, line: bytes, *, complete: bool) -> None:
        """Check the next line."""
        if not complete:
            self.note(FindingKind.TORN, f"the last line is not complete ({len(line)} bytes)", number)
            return
        try:
            entry = read_line(line)
        except InvalidLineError as error:
            self.note(FindingKind.CHANGED, str(error), number)
            self.expected += 1
            self.prev = None
            return
        self._check_place(entry, number)
        self.hashes[entry.seq] = entry.hash
        self.expected = entry.seq + 1
        self.prev = entry.hash
        self.ended = entry.event is AuditEvent.END
        self.found.records += 1
        self.claims.add(entry, self.name[:10])
        if entry.lost:
            self.note(FindingKind.GAP, f"{entry.lost} records were lost since {entry.since}", number)

    def _check_place(self, entry: Entry, number: int) -> None:
        expected = self.expected
        if expected == 0 and entry.file != self.name:
            written = f"it was written as {entry.file}" if entry.file else "its first record is missing"
            kind = FindingKind.FOREIGN if entry.file else FindingKind.MISSING
            self.note(kind, f"this is not the file that was begun under this name: {written}", number)
        elif self.ended:
            self.note(FindingKind.ADDED, "there are records after the last one", number)
        elif entry.seq > expected:
            self.note(FindingKind.MISSING, f"records {expected} to {entry.seq - 1} are missing", number)
        elif entry.seq < expected:
            self.note(FindingKind.MISSING, f"record {entry.seq} is not in its place", number)
        elif self.prev is not None and entry.prev != self.prev:
            self.note(FindingKind.CHANGED, "the record before this one is not the one that was written", number)

    def finish(self) -> None:
        """Note the end of the file."""
        if not self.expected:
            self.note(FindingKind.TORN, "there is no complete record")
            return
        if not self.ended:
            self.note(FindingKind.OPEN, "there is no last record: its writer was killed, or is still running")
        self.found.ends.append(FileEnd(self.name, self.expected, self.hashes.get(self.expected - 1, "")))

    def note(self, kind: FindingKind, message: str, line: int | None = None) -> None:
        """Add a finding in this file."""
        self.found.findings.append(Finding(kind, self.name, message, line))
