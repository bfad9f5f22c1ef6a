"""Verify the audit log: whether each record is as it was written, and whether any is missing."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from server.auditlog.chain import FIRST, InvalidLineError, read_line
from server.auditlog.folder import LogFileName, contents, lines_of
from server.auditlog.records import AuditEvent

if TYPE_CHECKING:
    from pathlib import Path

    from server.auditlog.records import Entry

__all__ = ["FileEnd", "Finding", "FindingKind", "Verification", "verify"]


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
        """Whether somebody must have changed the log."""
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
        """Whether nothing was found that somebody must have done."""
        return not any(finding.kind.is_damage for finding in self.findings)


@dataclass(slots=True)
class _Claims:
    """What files say about others: the hashes of records by file and number, and up to which day files are deleted."""

    seen: dict[str, dict[int, str]] = field(default_factory=dict)
    deleted_before: str = ""

    def add(self, entry: Entry) -> None:
        for name, seq, digest in entry.seen:
            self.seen.setdefault(name, {})[seq] = digest
        if entry.event is AuditEvent.RETENTION:
            self.deleted_before = max(self.deleted_before, entry.before or "")


def verify(folder: Path) -> Verification:
    """Check all files of a log; a log that others write meanwhile may be checked.

    Raises:
        AuditLogError: the folder or a file cannot be read.
    """
    found, claims = Verification(), _Claims()
    # Files are begun while we read; what one of these names must have been there before.
    there = contents(folder)
    hashes = {name: _check_file(folder, name, found, claims) for name in there.files}
    known = {str(name): found_hashes for name, found_hashes in hashes.items()}
    for name, claimed in sorted(claims.seen.items()):
        _check_claims(name, claimed, known.get(name), claims.deleted_before, found)
    for each in there.foreign:
        kind = FindingKind.IGNORED if LogFileName.parse(each) is None else FindingKind.FOREIGN
        found.findings.append(Finding(kind, each, "this is not a file of the audit log; it was not opened"))
    return found


def _check_claims(
    name: str, claimed: dict[int, str], hashes: list[str] | None, deleted_before: str, found: Verification
) -> None:
    """Compare a file with what others say about its end."""
    if hashes is None:
        if name[:10] >= deleted_before:
            found.findings.append(Finding(FindingKind.REMOVED, name, "this file is missing; another file names it"))
        return
    for seq, digest in sorted(claimed.items()):
        if seq >= len(hashes):
            message = f"another file names its record {seq}, but the last one is {len(hashes) - 1}"
            found.findings.append(Finding(FindingKind.SHORTENED, name, message))
            return
        if hashes[seq] not in {digest, ""}:
            message = f"record {seq} is another one than when a later file was begun"
            found.findings.append(Finding(FindingKind.CHANGED, name, message, seq + 1))
            return


def _check_file(folder: Path, name: LogFileName, found: Verification, claims: _Claims) -> list[str]:
    """Check the chain of a file; return the hashes of its records by their numbers."""
    checked = _CheckedFile(str(name), found, claims)
    for number, (line, complete) in enumerate(lines_of(folder, name), 1):
        checked.add(number, line, complete=complete)
    checked.finish()
    return checked.hashes


@dataclass(slots=True)
class _CheckedFile:
    """A file while its lines are checked; `hashes` has an empty text for a record that cannot be read."""

    name: str
    found: Verification
    claims: _Claims
    hashes: list[str] = field(default_factory=list)
    prev: str | None = FIRST
    ended: bool = False

    def add(self, number: int, line: bytes, *, complete: bool) -> None:
        """Check the next line."""
        if not complete:
            self._note(FindingKind.TORN, f"the last line is not complete ({len(line)} bytes)", number)
            return
        try:
            entry = read_line(line)
        except InvalidLineError as error:
            self._note(FindingKind.CHANGED, str(error), number)
            self.hashes.append("")
            self.prev = None
            return
        self._check_place(entry, number)
        self.hashes += [""] * max(0, entry.seq - len(self.hashes))
        self.hashes[entry.seq :] = [entry.hash]
        self.prev = entry.hash
        self.ended = entry.event is AuditEvent.END
        self.found.records += 1
        self.claims.add(entry)
        if entry.lost:
            self._note(FindingKind.GAP, f"{entry.lost} records were lost since {entry.since}", number)

    def _check_place(self, entry: Entry, number: int) -> None:
        expected = len(self.hashes)
        if expected == 0 and entry.file != self.name:
            written = f"it was written as {entry.file}" if entry.file else "its first record is missing"
            kind = FindingKind.FOREIGN if entry.file else FindingKind.MISSING
            self._note(kind, f"this is not the file that was begun under this name: {written}", number)
        elif self.ended:
            self._note(FindingKind.ADDED, "there are records after the last one", number)
        elif entry.seq > expected:
            self._note(FindingKind.MISSING, f"records {expected} to {entry.seq - 1} are missing", number)
        elif entry.seq < expected:
            self._note(FindingKind.MISSING, f"record {entry.seq} is not in its place", number)
        elif self.prev is not None and entry.prev != self.prev:
            self._note(FindingKind.CHANGED, "the record before this one is not the one that was written", number)

    def finish(self) -> None:
        """Note the end of the file."""
        if not self.hashes:
            self._note(FindingKind.TORN, "there is no complete record")
            return
        if not self.ended:
            self._note(FindingKind.OPEN, "there is no last record: its writer was killed, or is still running")
        self.found.ends.append(FileEnd(self.name, len(self.hashes), self.hashes[-1]))

    def _note(self, kind: FindingKind, message: str, line: int | None = None) -> None:
        self.found.findings.append(Finding(kind, self.name, message, line))
