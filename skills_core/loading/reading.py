"""One pass over the files of one skill: read what changed, keep what did not, and note what is wrong.

A file counts as unchanged where its fingerprint is the same and it was settled when it was read. One that is there and
cannot be read is not taken for gone: it stays as it was last read, and is read again at the next load. Permission that
is missing at two loads in a row is lasting, and then the file is refused.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skills_core.diagnostics import Diagnostic, Reason, Severity, printable
from skills_core.disk.files import MAX_FILE_SIZE, Location
from skills_core.disk.scan import join, locate, parent
from skills_core.errors import FileRefusedError
from skills_core.skill import SkillFile
from skills_core.system_faults import Fault

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from skills_core.disk.files import Fingerprint, Reader
    from skills_core.disk.scan import Tree
    from skills_core.format.instructions import Instructions
    from skills_core.skill import SkillContent
    from skills_core.sources import Source

__all__ = ["MAX_MAIN_SIZE", "SkillReading", "UnreadPaths", "is_same"]

MAX_MAIN_SIZE = 1024 * 1024
"""Largest SKILL.md, in bytes: it is meant to be read by a model at once."""

_RACY_NS = 2_000_000_000
# A file system may date two writes within its clock's step alike (2 s on FAT), so a file that was written less
# than that before it was read may change without a new fingerprint.

_SHOWN = 200
# Characters of a reference that a message repeats.


@dataclass(frozen=True, slots=True)
class UnreadPaths:
    """The paths in a source that could not be read: `before`, at the last load, and `now`."""

    before: AbstractSet[str] = frozenset()
    now: set[str] = field(default_factory=set)


@dataclass(slots=True)
class SkillReading:
    """Reads files below `folder`; `known` are those of the last load, `changed` the paths known to differ now.

    Paths in `changed` and `unread` are relative to the source.
    """

    source: Source
    folder: str
    tree: Tree
    known: Mapping[str, SkillFile]
    changed: AbstractSet[str]
    reader: Reader
    unread: UnreadPaths = field(default_factory=UnreadPaths)
    files: dict[str, SkillFile] = field(default_factory=dict)
    notes: list[Diagnostic] = field(default_factory=list)
    missing: dict[str, Reason] = field(default_factory=dict)

    @property
    def folder_name(self) -> str:
        """The name of the folder, printable."""
        return self.source.name_of(self.folder)

    def within_source(self, path: str) -> str:
        """Return a path relative to the root of the source."""
        return join(self.folder, path)

    def shown(self, path: str) -> str:
        """Return a path as diagnostics name it."""
        return printable(f"{self.source.root}/{self.within_source(path)}")

    def diagnose(self, severity: Severity, code: Reason, message: str, path: str) -> Diagnostic:
        """Return a diagnostic about a file."""
        return Diagnostic(severity, code, message, self.shown(path))

    def note(self, severity: Severity, code: Reason, message: str, path: str) -> None:
        """Keep a diagnostic about a file."""
        self.notes.append(self.diagnose(severity, code, message, path))

    def leave_out(self, code: Reason, message: str, path: str) -> None:
        """Note that what lies at `path` belongs to the skill and is not among its files, and why."""
        self.missing[path] = code
        self.note(Severity.WARNING, code, message, path)

    def note_unpublished(self, fault: str, path: str) -> None:
        """Note why the Skills extension does not list the skill."""
        self.note(Severity.INFO, Reason.NOT_PUBLISHED, f"hosts do not see this skill in skills/list: {fault}", path)

    def keep(self, path: str, fingerprint: Fingerprint | None) -> bool:
        """Keep the file as it was read before, where it can be trusted to be the same.

        A file without a fingerprint lies in a folder that nobody reported, so that it was not looked at again.
        """
        known = self.known.get(path)
        if known is None or self.within_source(path) in self.changed or known.linked != self._locate(path):
            return False
        if fingerprint is not None and not (known.settled and known.fingerprint == fingerprint):
            return False
        self.files[path] = known
        return True

    def read(self, path: str, limit: int) -> bytes:
        """Read a file, enter it into the files, and return its bytes.

        Raises:
            FileRefusedError: it lies outside the boundary, is too large, or cannot be read.
            FileUnavailableError: the system cannot read it now.
        """
        now = time.time_ns()
        linked = self._locate(path)
        raw, fingerprint = self.reader.read(linked or Location(self.source.root, self.within_source(path)), limit)
        settled = max(fingerprint.mtime_ns, fingerprint.ctime_ns) < now - _RACY_NS
        digest = "sha256:" + hashlib.sha256(raw).hexdigest()
        self.files[path] = SkillFile(path, len(raw), digest, _is_text(raw), fingerprint, settled, linked)
        return raw

    def enter(self, path: str, fingerprint: Fingerprint | None) -> None:
        """Enter a file beside the main one: as it was before, or read again; note it where it is refused.

        A file that was deleted since its folder was listed is absent, as if the folder had been listed later.
        """
        if self.keep(path, fingerprint):
            return
        try:
            self.read(path, MAX_FILE_SIZE)
        except FileRefusedError as error:
            kept = self.fall_back(path, error)
            deleted = error.fault is Fault.ABSENT and self._locate(path) is None
            if not kept and not deleted:
                self.leave_out(error.reason, error.message, path)

    def fall_back(self, path: str, error: FileRefusedError, *, may_keep: bool = True) -> bool:
        """Keep a file that could not be read as it was read before, with a note; tell whether that was possible."""
        if error.fault is Fault.REFUSED:
            return False
        # One that was listed and is gone was replaced at this moment: what took its place is to be looked at.
        within = self.within_source(path)
        self.unread.now.add(within)
        known = self.known.get(path)
        lasting = error.fault is Fault.DENIED and within in self.unread.before
        # In a folder that cannot be listed, what has taken the place of a file is not known either.
        listing = self.tree.get(parent(within))
        gone = error.fault is Fault.ABSENT and not (listing is not None and "" in listing.unread)
        if not may_keep or gone or known is None or lasting:
            return False
        self.files[path] = known
        message = f"{error.message}; it is kept as it was last read, and will be read again"
        self.note(Severity.WARNING, error.reason, message, path)
        return True

    def check_references(self, instructions: Instructions, main: str) -> None:
        """Note what the frontmatter names and the files lack."""
        for reference in instructions.frontmatter.references:
            path = reference.removeprefix("./").removesuffix("/")
            if path not in self.files and not any(file.startswith(f"{path}/") for file in self.files):
                message = f"references names {reference[:_SHOWN]!r}, and there is no such file in the skill"
                self.note(Severity.WARNING, Reason.MISSING_REFERENCE, message, main)

    def _locate(self, path: str) -> Location | None:
        """Tell where a file is that was reached by a link, None for any other."""
        if not self.source.follow_symlinks:
            return None
        within = self.within_source(path)
        location = locate(self.source, self.tree, within)
        return None if location == Location(self.source.root, within) else location


def is_same(before: SkillContent | None, after: SkillContent) -> bool:
    """Tell whether nothing was read again: an equal file may have settled since, and must not be read for ever."""
    return before == after and all(file is before.files[path] for path, file in after.files.items())


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in raw
