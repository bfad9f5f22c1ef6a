"""Turn one skill folder into a `SkillContent`: read what changed, keep what did not.

A file counts as unchanged where its fingerprint is the same and it was settled when it was read. Digest, size
and frontmatter of a SKILL.md come from one read of its bytes.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from skills_core.diagnostics import Diagnostic, Reason, Severity, capped, printable
from skills_core.document import parse_document
from skills_core.errors import FileRefusedError
from skills_core.files import MAX_FILE_SIZE, Location
from skills_core.folders import find_main
from skills_core.frontmatter import Frontmatter, parse_frontmatter
from skills_core.hidden import find_hidden
from skills_core.names import MAIN_FILE, OTHER_SPELLING
from skills_core.publication import publication_fault
from skills_core.scan import locate
from skills_core.skill import Instructions, SkillContent, SkillFile
from skills_core.sources import Strictness

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from skills_core.document import Document
    from skills_core.files import Fingerprint, Reader
    from skills_core.folders import Listing
    from skills_core.scan import Tree
    from skills_core.sources import Source
    from skills_core.yaml12 import JsonValue

__all__ = ["load_content", "parse_instructions"]

MAX_MAIN_SIZE = 1024 * 1024
"""Largest SKILL.md, in bytes: it is meant to be read by a model at once."""

MAX_FILES = 4096
"""Most files of one skill that are served; the Skills extension publishes skills of up to 512."""

_RACY_NS = 2_000_000_000
# A file system may date two writes within its clock's step alike (2 s on FAT), so a file that was written less
# than that before it was read may change without a new fingerprint.

_SHOWN = 200
# Characters of a reference that a message repeats.

_REFUSALS = {
    Reason.SYMLINK: "symbolic links are not followed, so this is not served; put a copy here, or set follow_symlinks",
    Reason.SYMLINK_OUTSIDE: "this link leads out of what it must stay in, in a circle, or nowhere, so it is not served",
    Reason.SPECIAL_FILE: "this is no regular file, so it is not served",
    Reason.UNREADABLE: "this cannot be read, so it is not served; check its permissions",
    Reason.SCAN_LIMIT: "the scan's bound was reached above this folder, so it is not served",
}


def load_content(
    source: Source,
    folder: str,
    tree: Tree,
    reader: Reader,
    before: SkillContent | None = None,
    changed: AbstractSet[str] = frozenset(),
) -> SkillContent:
    """Load the skill in `folder` from the files that `tree` lists, read by `reader`.

    `before` is what the folder held at the last load; `changed` are paths (relative to the source) that are
    known to have changed whatever their metadata says. Returns `before` itself where nothing differs.
    """
    main = find_main(tree[folder]) or MAIN_FILE
    reading = _Reading(source, folder, tree, before, changed, reader)
    instructions = _load_main(reading, main, tree[folder])
    _load_others(reading, main, tree)
    _check_references(reading, instructions, main)
    files = MappingProxyType(reading.files)
    fault = None if instructions.fault else publication_fault(instructions, files, files.get(main))
    if fault is not None:
        message = f"hosts do not see this skill in skills/list: {fault}"
        reading.note(Severity.INFO, Reason.NOT_PUBLISHED, message, main)
    published = instructions.fault is None and fault is None
    folders = frozenset(_folders(folder, tree))
    content = SkillContent(folder, instructions, files, files.get(main), folders, capped(reading.notes), published)
    return before if before is not None and _is_same(before, content) else content


def _is_same(before: SkillContent, after: SkillContent) -> bool:
    """Tell whether nothing was read again: an equal file may have settled since, and must not be read for ever."""
    return before == after and all(file is before.files[path] for path, file in after.files.items())


def parse_instructions(raw: bytes, folder_name: str, path: str, strictness: Strictness) -> Instructions:
    """Understand the bytes of a SKILL.md; `path` is how diagnostics name the file.

    A lenient reading is stopped by errors alone, a strict one by any breach of a rule. Hidden characters are told
    of and break no rule.
    """
    document = parse_document(raw, path)
    if document.fault is not None:
        return _broken(folder_name, document.diagnostics, document.fault)
    front, found = parse_frontmatter(document, folder_name, path)
    breaches = document.diagnostics + found
    fault = next((diagnostic.code for diagnostic in breaches if _stops(diagnostic, strictness)), None)
    diagnostics = (*breaches, *_hidden(raw.decode("utf-8"), document, path))
    return Instructions(front.name or folder_name, front, document.body, diagnostics, fault, document.verbatim)


def _stops(diagnostic: Diagnostic, strictness: Strictness) -> bool:
    """Tell whether a diagnostic costs the skill."""
    if diagnostic.severity is Severity.WARNING:
        required = strictness is Strictness.REQUIRED and diagnostic.code is Reason.MISSING_NAME
        return required or strictness is Strictness.STRICT
    return diagnostic.severity is Severity.ERROR


def _hidden(text: str, document: Document, path: str) -> Iterator[Diagnostic]:
    """Tell of characters that nobody sees, as they stand in the file or as escapes in its YAML."""
    for each in find_hidden(text.removeprefix("\ufeff")):
        message = f"{each}: a model reads what you do not see here; remove them, or check what they say"
        yield Diagnostic(Severity.WARNING, Reason.HIDDEN_CHARACTERS, message, path, each.line)
    if "\\" not in text:
        return
    for name, value in document.fields.items():
        for each in find_hidden(_text_of(value)):
            if each.first not in text:
                message = f"{name}: {each}, written as escapes; remove them, or check what they say"
                yield Diagnostic(Severity.WARNING, Reason.HIDDEN_CHARACTERS, message, path, document.lines.get(name))


def _text_of(value: JsonValue) -> str:
    """Return all text within a value."""
    texts: list[str] = []
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            texts.append(each)
        elif isinstance(each, list):
            waiting += each
        elif isinstance(each, dict):
            texts += each
            waiting += each.values()
    return " ".join(texts)


def _broken(name: str, diagnostics: tuple[Diagnostic, ...], fault: Reason) -> Instructions:
    return Instructions(name, Frontmatter(raw={}, metadata={}), "", diagnostics, fault, verbatim=False)


@dataclass(slots=True)
class _Reading:
    """One pass over a skill folder: what it read and what it has to tell."""

    source: Source
    folder: str
    tree: Tree
    before: SkillContent | None
    changed: AbstractSet[str]
    reader: Reader
    files: dict[str, SkillFile] = field(default_factory=dict)
    notes: list[Diagnostic] = field(default_factory=list)

    @property
    def folder_name(self) -> str:
        return printable(self.folder.rpartition("/")[2] or self.source.root.name)

    def within_source(self, path: str) -> str:
        return f"{self.folder}/{path}" if self.folder else path

    def shown(self, path: str) -> str:
        return printable(f"{self.source.root}/{self.within_source(path)}")

    def diagnose(self, severity: Severity, code: Reason, message: str, path: str) -> Diagnostic:
        return Diagnostic(severity, code, message, self.shown(path))

    def note(self, severity: Severity, code: Reason, message: str, path: str) -> None:
        self.notes.append(self.diagnose(severity, code, message, path))

    def locate(self, path: str) -> Location | None:
        """Tell where a file is that was reached by a link, None for any other."""
        if not self.source.follow_symlinks:
            return None
        within = self.within_source(path)
        location = locate(self.source, self.tree, within)
        return None if location == Location(self.source.root, within) else location

    def keep(self, path: str, fingerprint: Fingerprint | None) -> bool:
        """Keep the file as it was read before, where it can be trusted to be the same.

        A file without a fingerprint lies in a folder that nobody reported, so that it was not looked at again.
        """
        known = self.before.files.get(path) if self.before else None
        if known is None or self.within_source(path) in self.changed or known.linked != self.locate(path):
            return False
        if fingerprint is not None and not (known.settled and known.fingerprint == fingerprint):
            return False
        self.files[path] = known
        return True

    def read(self, path: str, limit: int) -> bytes:
        """Read a file, enter it into the files, and return its bytes.

        Raises:
            FileRefusedError: it lies outside the boundary, is too large, or cannot be read.
        """
        now = time.time_ns()
        linked = self.locate(path)
        raw, fingerprint = self.reader.read(linked or Location(self.source.root, self.within_source(path)), limit)
        settled = max(fingerprint.mtime_ns, fingerprint.ctime_ns) < now - _RACY_NS
        digest = "sha256:" + hashlib.sha256(raw).hexdigest()
        self.files[path] = SkillFile(path, len(raw), digest, _is_text(raw), fingerprint, settled, linked)
        return raw


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in raw


def _load_main(reading: _Reading, main: str, listing: Listing) -> Instructions:
    if main == OTHER_SPELLING:
        reading.note(Severity.WARNING, Reason.FILE_NAME_CASE, f"the file should be named {MAIN_FILE}", main)
    plain, before = dict(listing.files), reading.before
    # Only a file that is listed can be the one from before: what is refused now may bear its name.
    if before and before.main and before.main.path == main and main in plain and reading.keep(main, plain[main]):
        return before.instructions
    refused = dict(listing.refused).get(main)
    if refused is not None:
        diagnostic = reading.diagnose(Severity.ERROR, refused, _REFUSALS[refused], main)
        return _broken(reading.folder_name, (diagnostic,), refused)
    try:
        raw = reading.read(main, MAX_MAIN_SIZE)
    except FileRefusedError as error:
        diagnostic = reading.diagnose(Severity.ERROR, error.reason, error.message, main)
        return _broken(reading.folder_name, (diagnostic,), error.reason)
    return parse_instructions(raw, reading.folder_name, reading.shown(main), reading.source.strictness)


def _load_others(reading: _Reading, main: str, tree: Tree) -> None:
    for number, (path, fingerprint, refused) in enumerate(_walk(reading.folder, tree)):
        if path == main:
            continue
        if number >= MAX_FILES:
            message = f"the skill has more than {MAX_FILES} files; this one and those after it are not served"
            reading.note(Severity.WARNING, Reason.TOO_MANY_FILES, message, path)
            return
        if refused is not None:
            reading.note(Severity.WARNING, refused, _REFUSALS[refused], path)
        elif not reading.keep(path, fingerprint):
            try:
                reading.read(path, MAX_FILE_SIZE)
            except FileRefusedError as error:
                reading.note(Severity.WARNING, error.reason, error.message, path)


def _check_references(reading: _Reading, instructions: Instructions, main: str) -> None:
    for reference in instructions.frontmatter.references:
        path = reference.removeprefix("./").removesuffix("/")
        if path not in reading.files and not any(file.startswith(f"{path}/") for file in reading.files):
            message = f"references names {reference[:_SHOWN]!r}, and there is no such file in the skill"
            reading.note(Severity.WARNING, Reason.MISSING_REFERENCE, message, main)


def _folders(folder: str, tree: Tree) -> Iterator[str]:
    """Yield all folders within a skill folder, relative to it."""
    waiting = list(tree[folder].folders)
    while waiting:
        below = waiting.pop()
        yield below
        listing = tree.get("/".join(part for part in (folder, below) if part))
        waiting += [f"{below}/{name}" for name in listing.folders] if listing else []


def _walk(folder: str, tree: Tree) -> Iterator[tuple[str, Fingerprint | None, Reason | None]]:
    """Yield all files of a skill folder in the order of their paths, each with fingerprint or refusal."""
    waiting = [""]
    while waiting:
        below = waiting.pop()
        listing = tree.get("/".join(part for part in (folder, below) if part))
        if listing is None:
            continue
        prefix = f"{below}/" if below else ""
        for name, fingerprint in listing.files:
            yield prefix + name, fingerprint, None
        for name, reason in listing.refused:
            yield prefix + name, None, reason
        waiting += [prefix + name for name in reversed(listing.folders)]
