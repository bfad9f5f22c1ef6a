"""Verify the audit log: whether each record is as it was written, and whether any is missing.

The chain has no secret, so the files alone never show that their end is still there: who removes the newest records, or
all files, leaves a log that is consistent. Anchors show it, which the server wrote elsewhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from server.capabilities.auditlog.log_folder import (
    FIRST,
    MAX_ANCHOR,
    FileEnd,
    InvalidLineError,
    LogFileName,
    anchors_of,
    contents,
    lines_of,
    read_line,
)
from server.capabilities.auditlog.records import AuditEvent
from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from server.capabilities.auditlog.records import ChainedRecord

_ATTEMPTS: Final = 3
_CHUNK: Final = 1024 * 1024


class LogVerdict(StrEnum):
    """What may be said of a log."""

    DAMAGED = "damaged"
    """The server cannot have left the log like this."""
    EMPTY = "empty"
    """There is no record, so there is nothing to verify: none was written, or somebody removed all files."""
    CONSISTENT = "consistent"
    """The records fit one another. Whether some at the end, or whole files, were removed cannot be told."""
    ANCHORED = "anchored"
    """The records fit one another, and are all there up to the anchors. What is newer is only consistent."""


class LogFaultKind(StrEnum):
    """What was found; the last five are not damage."""

    CHANGED = "changed"
    """A line is not what was written."""
    MISSING = "missing"
    """Records within a file, or at its beginning, are missing, or are in another order."""
    SHORTENED = "shortened"
    """Records at the end of a file are missing, which another file or an anchor names."""
    REMOVED = "removed"
    """A file is missing that another file or an anchor names, and retention did not delete it."""
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
    UNCONFIRMED = "unconfirmed"
    """A file is missing that an anchor names; that retention deleted it is in a record that no anchor covers."""

    @property
    def is_damage(self) -> bool:
        """Whether the server cannot have left the log like this."""
        return self not in _HARMLESS


_HARMLESS: Final = frozenset(
    {LogFaultKind.TORN, LogFaultKind.OPEN, LogFaultKind.GAP, LogFaultKind.IGNORED, LogFaultKind.UNCONFIRMED}
)


@dataclass(frozen=True, slots=True)
class LogFault:
    """What was found in a file, at a line if it has a place."""

    kind: LogFaultKind
    file: str
    message: str
    line: int | None = None


@dataclass(slots=True)
class Verification:
    """What a verification found.

    `records` is the number of intact records, and `anchored_records` of those among them that anchors cover;
    `anchored_until` is the time of the newest of these.
    """

    findings: list[LogFault] = field(default_factory=list)
    ends: list[FileEnd] = field(default_factory=list)
    records: int = 0
    anchored_until: str | None = None

    @property
    def anchored_records(self) -> int:
        """The number of records that anchors cover."""
        return sum(end.anchored for end in self.ends)

    @property
    def verdict(self) -> LogVerdict:
        """What may be said of the log."""
        if any(finding.kind.is_damage for finding in self.findings):
            return LogVerdict.DAMAGED
        if not self.records:
            return LogVerdict.EMPTY
        return LogVerdict.ANCHORED if self.anchored_records else LogVerdict.CONSISTENT


@dataclass(frozen=True, slots=True)
class _Retention:
    """A record that says which files retention deletes, by name or by a day; with the place of the record."""

    file: str
    seq: int
    deleted: tuple[str, ...]
    before: str


@dataclass(slots=True)
class _Claims:
    """What files say about others: the hashes of records, by file and number, and what retention deleted."""

    seen: dict[str, dict[int, str]] = field(default_factory=lambda: defaultdict(dict))
    starts: dict[str, tuple[tuple[str, int, str], ...]] = field(default_factory=dict)
    retentions: list[_Retention] = field(default_factory=list)

    def add(self, entry: ChainedRecord, file: str) -> None:
        """Note what a record in a file says."""
        if entry.seen:
            self.starts[file] = entry.seen
        for name, seq, digest in entry.seen:
            self.seen[name][seq] = digest
        if entry.event is AuditEvent.RETENTION:
            before = entry.before or ""
            # A clock that was ahead must not account for files that somebody removes later.
            is_credible = before <= file[:10] <= datetime.now(UTC).date().isoformat()
            self.retentions.append(_Retention(file, entry.seq, entry.deleted, before if is_credible else ""))


def _is_deleted(name: str, retentions: Iterable[_Retention]) -> bool:
    """Tell whether retention deleted a file.

    The day counts too: older versions wrote no names, and what has the names is itself deleted some day.
    """
    return any(name in each.deleted or name[:10] < each.before for each in retentions)


def anchors_in(path: Path | str | int) -> set[FileEnd]:
    """Return the anchors in a file of any kind, such as the log of a server; a number is an open descriptor.

    Raises:
        OSError: it cannot be read.
    """
    found: set[FileEnd] = set()
    with open(path, encoding="utf-8", errors="replace", closefd=not isinstance(path, int)) as file:
        rest = ""
        while chunk := file.read(_CHUNK):
            text = rest + chunk
            # One at the end may go on, and is found once more.
            found.update(anchors_of(text))
            rest = text[-MAX_ANCHOR:]
    return found


def verify_log(folder: Path, anchors: Iterable[FileEnd] = ()) -> Verification:
    """Check all files of a log, and that it still has what `anchors` name; others may write to it meanwhile.

    Raises:
        AuditLogError: the folder or a file cannot be read.
    """
    # If a file vanishes while we read, a file that was begun since then may say that retention deleted it.
    named = frozenset(anchors)
    for _ in range(_ATTEMPTS - 1):
        found, is_complete = _verify_listed(folder, named)
        if is_complete:
            return found
    return _verify_listed(folder, named)[0]


def _verify_listed(folder: Path, anchors: frozenset[FileEnd]) -> tuple[Verification, bool]:
    """Check the files that are there now; return also whether none of them vanished meanwhile."""
    found, claims = Verification(), _Claims()
    # Files are begun while we read; what one of these names must have been there before.
    files, foreign = contents(folder)
    checked = {str(name): _check_file(folder, name, found, claims) for name in files}
    present = {name: file for name, file in checked.items() if file is not None}
    for name, claimed in sorted(claims.seen.items()):
        if name in present:
            _check_claims(present[name], claimed.items(), "another file")
        elif not _is_deleted(name, claims.retentions):
            found.findings.append(LogFault(LogFaultKind.REMOVED, name, "this file is missing; another file names it"))
    _check_anchors(found, present, claims, anchors)
    _note_times(folder, found, files)
    for each in foreign:
        kind = LogFaultKind.IGNORED if LogFileName.parse(each) is None else LogFaultKind.FOREIGN
        found.findings.append(LogFault(kind, each, "this is not a file of the audit log; it was not opened"))
    return found, len(present) == len(checked)


def _check_anchors(
    found: Verification, present: Mapping[str, _CheckedFile], claims: _Claims, anchors: frozenset[FileEnd]
) -> None:
    """Compare the log with anchors, and note how far they cover it."""
    by_file: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for anchor in anchors:
        by_file[anchor.file].append((anchor.records - 1, anchor.hash))
    covered = _covered(present, claims, by_file)
    confirmed = [each for each in claims.retentions if each.seq < covered.get(each.file, 0)]
    for name, named in sorted(by_file.items()):
        if name in present:
            _check_claims(present[name], named, "an anchor")
        elif not _is_deleted(name, claims.retentions):
            found.findings.append(LogFault(LogFaultKind.REMOVED, name, "this file is missing; an anchor names it"))
        elif not _is_deleted(name, confirmed):
            message = "an anchor names this file; a record that no anchor covers says that retention deleted it"
            found.findings.append(LogFault(LogFaultKind.UNCONFIRMED, name, message))
    found.ends = [replace(end, anchored=covered.get(end.file, 0)) for end in found.ends]


def _covered(
    present: Mapping[str, _CheckedFile], claims: _Claims, anchors: Mapping[str, list[tuple[int, str]]]
) -> dict[str, int]:
    """Return how many records of each file the anchors cover.

    An anchor covers the records of its file before it, and with the first of them what that says about other files.
    """
    covered: dict[str, int] = {}
    waiting = [(name, seq, digest) for name, named in anchors.items() for seq, digest in named]
    while waiting:
        name, seq, digest = waiting.pop()
        file = present.get(name)
        if file is None or file.hashes.get(seq) != digest or seq < covered.get(name, 0):
            continue
        if name not in covered:
            waiting += claims.starts.get(name, ())
        covered[name] = seq + 1
    return covered


def _note_times(folder: Path, found: Verification, files: Collection[LogFileName]) -> None:
    """Note the time of the newest record that an anchor covers; it is in a file of the latest day that has one."""
    covered = {end.file: end.anchored for end in found.ends if end.anchored}
    last = max((name.day for name in files if str(name) in covered), default=None)
    for name in files:
        if name.day == last and (count := covered.get(str(name))):
            with suppress(FileNotFoundError, InvalidLineError):
                line = next(line for number, (line, _) in enumerate(lines_of(folder, name), 1) if number == count)
                found.anchored_until = max(found.anchored_until or "", read_line(line).when)


def _check_claims(file: _CheckedFile, claimed: Iterable[tuple[int, str]], who: str) -> None:
    """Compare a file with what others say about its end."""
    for seq, digest in sorted(claimed):
        if seq >= file.expected:
            file.note(LogFaultKind.SHORTENED, f"{who} names its record {seq}, but the last one is {file.expected - 1}")
            return
        if file.hashes.get(seq, digest) != digest:
            file.note(LogFaultKind.CHANGED, f"record {seq} is another one than {who} names", seq + 1)
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
            self.note(LogFaultKind.TORN, f"the last line is not complete ({len(line)} bytes)", number)
            return
        try:
            entry = read_line(line)
        except InvalidLineError as error:
            self.note(LogFaultKind.CHANGED, str(error), number)
            self.expected += 1
            self.prev = None
            return
        self._check_place(entry, number)
        self.hashes[entry.seq] = entry.hash
        self.expected = entry.seq + 1
        self.prev = entry.hash
        self.ended = entry.event is AuditEvent.END
        self.found.records += 1
        self.claims.add(entry, self.name)
        if entry.lost:
            self.note(LogFaultKind.GAP, f"{entry.lost} records were lost since {entry.since}", number)

    def _check_place(self, entry: ChainedRecord, number: int) -> None:
        expected = self.expected
        if expected == 0 and entry.file != self.name:
            written = f"it was written as {entry.file}" if entry.file else "its first record is missing"
            kind = LogFaultKind.FOREIGN if entry.file else LogFaultKind.MISSING
            self.note(kind, f"this is not the file that was begun under this name: {written}", number)
        elif self.ended:
            self.note(LogFaultKind.ADDED, "there are records after the last one", number)
        elif entry.seq > expected:
            self.note(LogFaultKind.MISSING, f"records {expected} to {entry.seq - 1} are missing", number)
        elif entry.seq < expected:
            self.note(LogFaultKind.MISSING, f"record {entry.seq} is not in its place", number)
        elif self.prev is not None and entry.prev != self.prev:
            self.note(LogFaultKind.CHANGED, "the record before this one is not the one that was written", number)

    def finish(self) -> None:
        """Note the end of the file."""
        if not self.expected:
            self.note(LogFaultKind.TORN, "there is no complete record")
            return
        if not self.ended:
            self.note(LogFaultKind.OPEN, "there is no last record: its writer was killed, or is still running")
        self.found.ends.append(FileEnd(self.name, self.expected, self.hashes.get(self.expected - 1, "")))

    def note(self, kind: LogFaultKind, message: str, line: int | None = None) -> None:
        """Add a finding in this file."""
        self.found.findings.append(LogFault(kind, self.name, message, line))


def verification_object(found: Verification) -> dict[str, Any]:
    """Return the object that `audit-log verify --json` prints."""
    return {
        "verdict": found.verdict,
        "intact": found.verdict in {LogVerdict.CONSISTENT, LogVerdict.ANCHORED},
        "records": found.records,
        "anchored_records": found.anchored_records,
        "anchored_until": found.anchored_until,
        "findings": [
            {
                "kind": each.kind,
                "damage": each.kind.is_damage,
                "file": each.file,
                "line": each.line,
                "message": each.message,
            }
            for each in found.findings
        ],
        "files": [
            {
                "file": end.file,
                "records": end.records,
                "hash": end.hash,
                "anchor": end.anchor,
                "anchored_records": end.anchored,
            }
            for end in found.ends
        ],
    }


def verification_lines(found: Verification, folder: Path) -> Iterator[str]:
    """Yield the lines that `audit-log verify` prints as text."""
    for end in found.ends:
        yield f"{end.anchor}  {end.records} records, {end.anchored} anchored"
    for each in found.findings:
        where = each.file if each.line is None else f"{each.file}:{each.line}"
        severity = "error" if each.kind.is_damage else "note"
        yield one_line(f"{where}: {severity}[{each.kind}]: {each.message}")
    size = f"{found.records} records in {len(found.ends)} files"
    match found.verdict:
        case LogVerdict.DAMAGED:
            yield f"NOT intact: {size}"
        case LogVerdict.EMPTY:
            yield one_line(f"empty: there is no record in {folder}")
        case LogVerdict.CONSISTENT:
            yield f"consistent; end not anchored: {size}"
        case LogVerdict.ANCHORED:
            yield f"consistent and anchored up to {found.anchored_until}, {found.anchored_records} of {size}"
