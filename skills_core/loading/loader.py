"""Load one skill: a folder with a SKILL.md, or one Markdown file, a document or a convention file.

One pass reads changed files, keeps unchanged ones, and collects diagnostics. A file counts as unchanged if its
fingerprint is the same and it was settled when it was read. An existing file that cannot be read keeps its last
content, and the next load tries again; if permission is denied at two loads in a row, the file is refused.

The Skills extension (SEP-2640) may publish a skill only if every host can load and verify it. Other skills are served
by tools and prompts, and a diagnostic says why the extension does not list them.
"""

from __future__ import annotations

import hashlib
import posixpath
import time
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skills_core.diagnostics import Diagnostic, Reason, Severity, capped, printable
from skills_core.disk.files import MAX_FILE_SIZE, Location
from skills_core.disk.folders import MAIN_FILE, MAIN_FILE_LOWERCASE, find_main
from skills_core.disk.gitignore import UNUSABLE_RULES
from skills_core.disk.scan import locate
from skills_core.disk.sources import SkillKind, Strictness
from skills_core.disk.tree import join, parent
from skills_core.errors import Fault, FileRefusedError, did_you_mean, similar_paths
from skills_core.format.frontmatter import DESCRIPTION_LIMIT, NAME_LIMIT, name_fault, name_length, written_length
from skills_core.format.instructions import (
    default_name,
    invalid_instructions,
    parse_instructions,
    parse_single_file,
    strictness_for,
)
from skills_core.sharing import shared
from skills_core.skills.bodies import BODIES
from skills_core.skills.skill import SkillContent, SkillFile, SkillFiles, only_respelling

if TYPE_CHECKING:
    from skills_core.disk.files import Fingerprint, Reader
    from skills_core.disk.sources import Source
    from skills_core.disk.tree import Tree
    from skills_core.format.instructions import Instructions, InstructionsHead


MAX_MAIN_SIZE = 1024 * 1024
"""Maximum size of a SKILL.md in bytes; a model reads it as a whole."""

_SHOWN = 200
# Characters of a reference that a message quotes.


@dataclass(frozen=True, slots=True)
class SourceReading:
    """What all skills of a source are read with in one load; all paths are relative to the source.

    `changed` are the paths known to have changed, whatever their metadata says; `unread_before` could not be read at
    the last load, and `unread` cannot at this one. With `main_only`, only the main file of each skill is read.
    """

    source: Source
    tree: Tree
    reader: Reader
    changed: AbstractSet[str]
    unread_before: AbstractSet[str]
    main_only: bool
    unread: set[str] = field(default_factory=set)


@dataclass(slots=True)
class SkillReading:
    """Reads files below `folder`; `known` are the files of the last load."""

    load: SourceReading
    folder: str
    known: Mapping[str, SkillFile]
    files: dict[str, SkillFile] = field(default_factory=dict)
    notes: list[Diagnostic] = field(default_factory=list)
    missing: dict[str, Reason] = field(default_factory=dict)

    @property
    def source(self) -> Source:
        """The source of the skill."""
        return self.load.source

    @property
    def tree(self) -> Tree:
        """The listings of the source's folders."""
        return self.load.tree

    @property
    def folder_name(self) -> str:
        """The printable name of the folder."""
        return self.source.name_of(self.folder)

    def strictness(self, kind: SkillKind) -> Strictness:
        """Return the strictness for a skill of this kind in the folder."""
        return strictness_for(self.source.strictness, (*self.source.root.parts, *self.folder.split("/")), kind)

    def within_source(self, path: str) -> str:
        """Return a path relative to the root of the source."""
        return join(self.folder, path)

    def shown(self, path: str) -> str:
        """Return a path as shown in diagnostics."""
        return self.source.shown(self.within_source(path))

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

    def result(self, main: str) -> tuple[SkillFiles, str | None]:
        """Return the files, and the path of the main file if it is one of them."""
        return SkillFiles.of(self.files.values()), main if main in self.files else None

    def keep(self, path: str, fingerprint: Fingerprint | None) -> bool:
        """Keep the file as it was last read if it is unchanged; return whether it was kept.

        A file without a fingerprint is in a folder that did not change, so that it was not listed again.
        """
        known = self.known.get(path)
        if known is None or self.within_source(path) in self.load.changed or known.linked != self._locate(path):
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
        raw, fingerprint = self.load.reader.read(linked or Location(self.source.root, self.within_source(path)), limit)
        settled = fingerprint.is_settled(now)
        sha256 = hashlib.sha256(raw).digest()
        self.files[path] = SkillFile(path, len(raw), sha256, _is_text(raw), fingerprint, settled, linked)
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
        self.load.unread.add(within)
        known = self.known.get(path)
        lasting = error.fault is Fault.DENIED and within in self.load.unread_before
        # If its folder cannot be listed, it is unknown whether the file is gone.
        listing = self.tree.get(parent(within))
        gone = error.fault is Fault.ABSENT and not (listing is not None and "" in listing.unread)
        if not may_keep or gone or known is None or lasting:
            return False
        self.files[path] = known
        message = f"{error.message}; its last content is kept, and reading will be tried again"
        self.note(Severity.WARNING, error.reason, message, path)
        return True

    def check_references(self, instructions: InstructionsHead, main: str) -> None:
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
    return before is not None and before == after and before.files.is_read_as(after.files)


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in raw


MAX_PUBLISHED_FILES = 512
MAX_PUBLISHED_SIZE = 16 * 1024 * 1024
"""Total bytes of a skill's files. Every host supports skills up to these limits, and may refuse larger ones."""

_MAX_NAMED = 3
# Missing files that a message names; each one also has its own diagnostic.


def publication_fault(reading: SkillReading, instructions: InstructionsHead, main: str) -> str | None:
    """Return why a skill with the main file `main` cannot be published, None if it can.

    The manifest of a published skill lists every entry of its folder, except for ignored names.
    """
    front, files = instructions.frontmatter, reading.files
    written = front.raw
    size = sum(file.size for file in files.values())
    faults = {
        "its main file is not named SKILL.md": main not in files or posixpath.basename(main) != "SKILL.md",
        _incomplete(reading.missing): bool(reading.missing),
        "other parsers cannot read its frontmatter, or read it differently": not instructions.verbatim,
        "it has no name": not front.name,
        "its name breaks the naming rules": bool(name_fault(front.name)) or name_length(front.name) > NAME_LIMIT,
        "its name has non-ASCII letters, which many hosts refuse": not front.name.isascii(),
        f"its description is longer than {DESCRIPTION_LIMIT} characters": written_length(written, "description")
        > DESCRIPTION_LIMIT,
        "it has a file with a backslash in its name, which hosts refuse": any("\\" in path for path in files),
        "its frontmatter has a name or description that is not a string": not _are_strings(written),
        f"it has {len(files)} files; the limit is {MAX_PUBLISHED_FILES}": len(files) > MAX_PUBLISHED_FILES,
        f"its files have {size} bytes; the limit is {MAX_PUBLISHED_SIZE}": size > MAX_PUBLISHED_SIZE,
    }
    return next((fault for fault, holds in faults.items() if holds), None)


def _incomplete(missing: Mapping[str, Reason]) -> str:
    shown = [f"{printable(path)} ({reason})" for path, reason in [*missing.items()][:_MAX_NAMED]]
    more = f" and {len(missing) - _MAX_NAMED} more" if len(missing) > _MAX_NAMED else ""
    return f"its manifest would be incomplete: it lacks {', '.join(shown)}{more}"


def _are_strings(raw: Mapping[str, object]) -> bool:
    # With surrounding whitespace, the verbatim name does not equal the last segment of the URI's path.
    name = raw.get("name")
    return isinstance(name, str) and name == name.strip() and isinstance(raw.get("description"), str)


MAX_FILES = 4096
"""Maximum number of served files of one skill; the Skills extension publishes skills of up to 512 files."""

_REFUSALS = {
    Reason.SYMLINK: "symbolic links are not followed, so this is not served",
    Reason.SYMLINK_OUTSIDE: "this link is broken, circular, or leads out of its allowed folder, so it is not served",
    Reason.SPECIAL_FILE: "this is not a regular file, so it is not served",
    Reason.UNREADABLE: "this cannot be read now and will be tried again",
    Reason.PERMISSION_DENIED: "reading this is not permitted; check its permissions",
    Reason.SCAN_LIMIT: "the scan reached its bounds before this folder, so it is not served",
    Reason.INVALID_CONFIGURATION: UNUSABLE_RULES,
}


def load_content(load: SourceReading, folder: str, before: SkillContent | None) -> SkillContent:
    """Load the skill in `folder`; return `before`, its content at the last load, if nothing differs.

    A skill of which only the main file is read is not published.
    """
    main = find_main(load.tree[folder]) or MAIN_FILE
    # In one pass: each file is looked up, and there may be thousands.
    reading = SkillReading(load, folder, dict(before.files.items()) if before else {})
    instructions = _load_main(reading, main, before)
    former = before.main_path if before is not None else None
    if before is not None and former is not None and former != main and _is_pending(reading, main, instructions):
        # A new main file replaces the former one only when it can be read.
        main, instructions = former, before.instructions
        reading.files[main] = before.files[main]
    if load.main_only:
        files, main_path = reading.result(main)
        notes = capped(reading.notes)
        content = SkillContent(
            folder, instructions, files, main_path, notes=notes, published=False, root=load.source.root
        )
        return before if before is not None and is_unchanged(before, content) else content
    _load_others(reading, main, {"", *before.folders} if before is not None else set())
    reading.check_references(instructions, main)
    fault = None if instructions.fault else publication_fault(reading, instructions, main)
    if fault is not None:
        reading.note_unpublished(fault, main)
    published = instructions.fault is None and fault is None
    folders = shared(frozenset(_folders(folder, load.tree)))
    files, main_path = reading.result(main)
    notes = capped(reading.notes)
    content = SkillContent(folder, instructions, files, main_path, folders, notes, published, root=load.source.root)
    return before if before is not None and is_unchanged(before, content) else content


def _load_main(reading: SkillReading, main: str, before: SkillContent | None) -> InstructionsHead:
    listing = reading.tree[reading.folder]
    if main == MAIN_FILE_LOWERCASE:
        reading.note(
            Severity.WARNING, Reason.FILE_NAME_CASE, f"the file is named {main}, which not every host finds", main
        )
    listed = listing.file(main)
    known = before.instructions if before is not None and before.main_path == main else None
    # Only a listed file can be unchanged: a refused entry may have its name.
    if known is not None and listed is not None and reading.keep(main, listed[1]):
        return known
    refused = dict(listing.refused).get(main)
    if refused is not None:
        diagnostic = reading.diagnose(Severity.ERROR, refused, _REFUSALS[refused], main)
        return invalid_instructions(reading.folder_name, (diagnostic,), refused).head
    try:
        raw = reading.read(main, MAX_MAIN_SIZE)
    except FileRefusedError as error:
        if reading.keep_last_read(main, error, may_keep=known is not None) and known is not None:
            return known
        diagnostic = reading.diagnose(Severity.ERROR, error.reason, error.message, main)
        return invalid_instructions(reading.folder_name, (diagnostic,), error.reason).head
    if known is not None and before is not None and before.main == reading.files[main]:
        # A checkout may only touch files: what was made of the same bytes is neither made again nor kept twice.
        return known
    strictness = reading.strictness(SkillKind.FOLDER)
    # Most skills have the name of their folder: the parser finds the text that the tree has.
    shared(reading.folder.rpartition("/")[2])
    return _head_of(parse_instructions(raw, reading.folder_name, reading.shown(main), strictness), reading.files[main])


def _head_of(instructions: Instructions, main: SkillFile) -> InstructionsHead:
    """Return all but the body, which is kept apart while there is memory for it."""
    if instructions.body:
        BODIES.keep((main.sha256, instructions.body_offset), instructions.body)
    return instructions.head


def _is_pending(reading: SkillReading, main: str, instructions: InstructionsHead) -> bool:
    """Tell whether a main file could not be read now but may be readable at the next load."""
    within = reading.within_source(main)
    unread = within in reading.load.unread or main in reading.tree[reading.folder].unread
    lasting = instructions.fault is Reason.PERMISSION_DENIED and within in reading.load.unread_before
    return unread and instructions.fault is not None and not lasting


def _load_others(reading: SkillReading, main: str, known: AbstractSet[str]) -> None:
    """Load the other files; `known` folders that cannot be listed now keep their last known files."""
    for number, (path, fingerprint, refused) in enumerate(_walk(reading.folder, reading.tree)):
        if path == main:
            continue
        if number >= MAX_FILES:
            message = f"the skill has more than {MAX_FILES} files; this one and those after it are not served"
            reading.record_missing(Reason.TOO_MANY_FILES, message, path)
            return
        folder, _, name = path.rpartition("/")
        if refused is not None and not name and folder in known:
            reading.note(Severity.WARNING, refused, _REFUSALS[refused], path)
        elif refused is not None:
            reading.record_missing(refused, _REFUSALS[refused], path)
        else:
            reading.enter(path, fingerprint)


def _folders(folder: str, tree: Tree) -> Iterator[str]:
    """Yield all folders in a skill folder, relative to it."""
    waiting = list(tree[folder].folders)
    while waiting:
        below = waiting.pop()
        yield below
        listing = tree.get(join(folder, below))
        waiting += [f"{below}/{name}" for name in listing.folders] if listing else []


def _walk(folder: str, tree: Tree) -> Iterator[tuple[str, Fingerprint | None, Reason | None]]:
    """Yield the entries of a skill folder in order of path, each with its fingerprint or the reason it was refused."""
    waiting = [""]
    while waiting:
        below = waiting.pop()
        listing = tree.get(join(folder, below))
        if listing is None:
            continue
        prefix = f"{below}/" if below else ""
        for name, fingerprint in listing.files:
            yield prefix + name, fingerprint, None
        for name, reason in listing.refused:
            yield prefix + name, None, reason
        waiting += [prefix + name for name in reversed(listing.folders)]


def load_document(
    load: SourceReading, place: str, kind: SkillKind, before: SkillContent | SkillFile | None
) -> SkillContent | SkillFile:
    """Load the file at `place`; return `before`, what it was at the last load, if nothing differs.

    The files of the skill include the references in its frontmatter. Returns a `SkillFile` if the file is not a skill.
    """
    folder, _, main = place.rpartition("/")
    known = {main: before} if isinstance(before, SkillFile) else dict(before.files.items()) if before else {}
    reading = SkillReading(load, folder, known)
    skill = before if isinstance(before, SkillContent) else None
    instructions = _load_document_main(reading, main, kind, before)
    if instructions is None:
        return reading.files[main]
    if not load.main_only:
        _load_references(reading, instructions)
        reading.check_references(instructions, main)
    if instructions.fault is None:
        reading.note_unpublished("it is a single file, not a folder with a SKILL.md", main)
    files, main_path = reading.result(main)
    content = SkillContent(
        place,
        instructions,
        files,
        main_path,
        notes=capped(reading.notes),
        published=False,
        kind=kind,
        root=load.source.root,
    )
    return skill if skill is not None and is_unchanged(skill, content) else content


def _load_document_main(
    reading: SkillReading, main: str, kind: SkillKind, before: SkillContent | SkillFile | None
) -> InstructionsHead | None:
    """Return the instructions, None if the file is not a skill."""
    entry = reading.tree[reading.folder].file(main)
    listed = entry[1] if entry else None
    if before is not None and reading.keep(main, listed):
        return _known(before)
    try:
        raw = reading.read(main, MAX_MAIN_SIZE)
    except FileRefusedError as error:
        if reading.keep_last_read(main, error) and before is not None:
            return _known(before)
        diagnostic = reading.diagnose(Severity.ERROR, error.reason, error.message, main)
        return invalid_instructions(printable(default_name(main)), (diagnostic,), error.reason).head
    found = parse_single_file(raw, kind, printable(main), reading.shown(main), reading.strictness(kind))
    return None if found is None else _head_of(found, reading.files[main])


def _known(before: SkillContent | SkillFile) -> InstructionsHead | None:
    return before.instructions if isinstance(before, SkillContent) else None


def _load_references(reading: SkillReading, instructions: InstructionsHead) -> None:
    for reference in instructions.frontmatter.references:
        path = reference.removeprefix("./")
        folder, _, name = reading.within_source(path).rpartition("/")
        listing = reading.tree.get(folder)
        if listing is None:
            continue
        listed = listing.file(name)
        if listed is None and (near := only_respelling(name, listing.file_names)):
            path, listed = path.removesuffix(name) + near, listing.file(near)
        if listed is not None and path not in reading.files:
            reading.enter(path, listed[1])
