"""One pass over the files of one skill: read changed files, keep unchanged ones, and collect diagnostics.

A file counts as unchanged if its fingerprint is the same and it was settled when it was read. An existing file that
cannot be read keeps its last content, and the next load tries again; if permission is denied at two loads in a row, the
file is refused.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skills_core.diagnostics import Diagnostic, Reason, Severity, printable
from skills_core.disk.files import MAX_FILE_SIZE, Location
from skills_core.disk.scan import join, locate, parent
from skills_core.errors import FileRefusedError, did_you_mean, similar_paths
from skills_core.skill import SkillFile, only_respelling
from skills_core.system_faults import Fault

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from skills_core.disk.files import Fingerprint, Reader
    from skills_core.disk.scan import Tree
    from skills_core.format.instructions import Instructions
    from skills_core.skill import SkillContent
    from skills_core.sources import Source

__all__ = ["MAX_MAIN_SIZE", "SkillReading", "UnreadPaths", "is_unchanged"]

MAX_MAIN_SIZE = 1024 * 1024
"""Maximum size of a SKILL.md in bytes; a model reads it as a whole."""

_RACY_NS = 2_000_000_000
# Two writes within the resolution of a file system's timestamps (2 s on FAT) may have the same time, so a file that was
# read sooner after a write may change without a new fingerprint.

_SHOWN = 200
# Characters of a reference that a message quotes.


@dataclass(frozen=True, slots=True)
class UnreadPaths:
    """The paths in a source that could not be read at the last load (`before`) and at this one (`now`)."""

    before: AbstractSet[str] = frozenset()
    now: set[str] = field(default_factory=set)


@dataclass(slots=True)
class SkillReading:
    """Reads files below `folder`; `known` are the files of the last load, `changed` the paths known to have changed.

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
        """The printable name of the folder."""
        return self.source.name_of(self.folder)

    def within_source(self, path: str) -> str:
        """Return a path relative to the root of the source."""
        return join(self.folder, path)

    def shown(self, path: str) -> str:
        """Return a path as shown in diagnostics."""
        return printable(f"{self.source.root}/{self.within_source(path)}")

    def diagnose(self, severity: Severity, code: Reason, message: str, path: str) -> Diagnostic:
        """Return a diagnostic about a file."""
        return Diagnostic(severity, code, message, self.shown(path))

    def note(self, severity: Severity, code: Reason, message: str, path: str) -> None:
        """Add a diagnostic about a file."""
        self.notes.append(self.diagnose(severity, code, message, path))

    def record_missing(self, code: Reason, message: str, path: str) -> None:
        """Record why an entry of the skill's folder is not among its files."""
        self.missing[path] = code
        self.note(Severity.WARNING, code, message, path)

    def note_unpublished(self, fault: str, path: str) -> None:
        """Add the diagnostic why the Skills extension does not list the skill."""
        self.note(Severity.INFO, Reason.NOT_PUBLISHED, f"this skill is not in skills/list: {fault}", path)

    def keep(self, path: str, fingerprint: Fingerprint | None) -> bool:
        """Keep the file as it was last read if it is unchanged; return whether it was kept.

        A file without a fingerprint is in a folder that did not change, so that it was not listed again.
        """
        known = self.known.get(path)
        if known is None or self.within_source(path) in self.changed or known.linked != self._locate(path):
            return False
        if fingerprint is not None and not (known.settled and known.fingerprint == fingerprint):
            return False
        self.files[path] = known
        return True

    def read(self, path: str, limit: int) -> bytes:
        """Read a file, add it to the files, and return its bytes.

        Raises:
            FileRefusedError: it is outside of its root, is too large, or cannot be read.
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
        """Add a file other than the main one, unchanged or read again; record it if it is refused.

        A file that was deleted since its folder was listed is left out.
        """
        if self.keep(path, fingerprint):
            return
        try:
            self.read(path, MAX_FILE_SIZE)
        except FileRefusedError as error:
            kept = self.keep_last_read(path, error)
            deleted = error.fault is Fault.ABSENT and self._locate(path) is None
            if not kept and not deleted:
                self.record_missing(error.reason, error.message, path)

    def keep_last_read(self, path: str, error: FileRefusedError, *, may_keep: bool = True) -> bool:
        """Keep the last content of an unreadable file, with a diagnostic; return whether there is one to keep."""
        if error.fault is Fault.REFUSED:
            return False
        # A listed file that is gone was replaced just now: read its replacement at the next load.
        within = self.within_source(path)
        self.unread.now.add(within)
        known = self.known.get(path)
        lasting = error.fault is Fault.DENIED and within in self.unread.before
        # If its folder cannot be listed, it is unknown whether the file is gone.
        listing = self.tree.get(parent(within))
        gone = error.fault is Fault.ABSENT and not (listing is not None and "" in listing.unread)
        if not may_keep or gone or known is None or lasting:
            return False
        self.files[path] = known
        message = f"{error.message}; its last content is kept, and reading will be tried again"
        self.note(Severity.WARNING, error.reason, message, path)
        return True

    def check_references(self, instructions: Instructions, main: str) -> None:
        """Add diagnostics for references in the frontmatter that are not among the files."""
        for reference in instructions.frontmatter.references:
            path = reference.removeprefix("./").removesuffix("/")
            if path in self.files or any(file.startswith(f"{path}/") for file in self.files):
                continue
            if near := only_respelling(path, self.files):
                message = f"references names {reference[:_SHOWN]!r}, but the file is {near[:_SHOWN]!r}"
                self.note(Severity.WARNING, Reason.PATH_CASE, message, main)
            else:
                hint = did_you_mean(similar_paths(path, self.files), "; did")
                message = f"references names {reference[:_SHOWN]!r}, but the skill has no such file{hint}"
                self.note(Severity.WARNING, Reason.MISSING_REFERENCE, message, main)

    def _locate(self, path: str) -> Location | None:
        """Return the location of a file that is reached through a link, None for any other."""
        if not self.source.follow_symlinks:
            return None
        within = self.within_source(path)
        location = locate(self.source, self.tree, within)
        return None if location == Location(self.source.root, within) else location


def is_unchanged(before: SkillContent | None, after: SkillContent) -> bool:
    """Tell whether the contents are equal and nothing was read again; a new read may have settled a file."""
    return before == after and all(file is before.files[path] for path, file in after.files.items())


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in raw
