"""Load one folder as a skill.

Digest, size and frontmatter of a SKILL.md come from the same read.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from skills_core.diagnostics import Reason, Severity, capped
from skills_core.disk.folders import find_main
from skills_core.disk.gitignore import UNUSABLE_RULES
from skills_core.disk.names import MAIN_FILE, MAIN_FILE_LOWERCASE
from skills_core.errors import FileRefusedError
from skills_core.format.instructions import invalid_instructions, parse_instructions
from skills_core.loading.documents import strictness_at
from skills_core.loading.publication import publication_fault
from skills_core.loading.reading import MAX_MAIN_SIZE, SkillReading, UnreadPaths, is_unchanged
from skills_core.skill import SkillContent
from skills_core.sources import SkillKind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from skills_core.disk.files import Fingerprint, Reader
    from skills_core.disk.scan import Tree
    from skills_core.format.instructions import Instructions
    from skills_core.sources import Source

__all__ = ["load_content"]

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


def load_content(
    source: Source,
    folder: str,
    tree: Tree,
    reader: Reader,
    before: SkillContent | None = None,
    changed: AbstractSet[str] = frozenset(),
    *,
    main_only: bool = False,
    unread: UnreadPaths | None = None,
) -> SkillContent:
    """Load the skill in `folder` from the files in `tree` with `reader`.

    `before` is the content at the last load, and is returned itself if nothing differs. `changed` are paths (relative
    to the source) that are known to have changed, whatever their metadata says. With `main_only`, the other files are
    not read and the skill is not published. Unreadable paths are added to `unread`.
    """
    main = find_main(tree[folder]) or MAIN_FILE
    unread = unread or UnreadPaths()
    reading = SkillReading(source, folder, tree, before.files if before else {}, changed, reader, unread)
    instructions = _load_main(reading, main, before)
    former = before.main if before is not None else None
    if before is not None and former is not None and former.path != main and _is_pending(reading, main, instructions):
        # A new main file replaces the former one only when it can be read.
        main, instructions = former.path, before.instructions
        reading.files[main] = former
    if main_only:
        files = MappingProxyType(reading.files)
        notes = capped(reading.notes)
        content = SkillContent(folder, instructions, files, files.get(main), notes=notes, published=False)
        return before if before is not None and is_unchanged(before, content) else content
    _load_others(reading, main, {"", *before.folders} if before is not None else set())
    reading.check_references(instructions, main)
    files = MappingProxyType(reading.files)
    fault = None if instructions.fault else publication_fault(reading, instructions, main)
    if fault is not None:
        reading.note_unpublished(fault, main)
    published = instructions.fault is None and fault is None
    folders = frozenset(_folders(folder, tree))
    content = SkillContent(folder, instructions, files, files.get(main), folders, capped(reading.notes), published)
    return before if before is not None and is_unchanged(before, content) else content


def _load_main(reading: SkillReading, main: str, before: SkillContent | None) -> Instructions:
    listing = reading.tree[reading.folder]
    if main == MAIN_FILE_LOWERCASE:
        reading.note(
            Severity.WARNING, Reason.FILE_NAME_CASE, f"the file is named {main}, which not every host finds", main
        )
    plain = dict(listing.files)
    known = before.instructions if before and before.main and before.main.path == main else None
    # Only a listed file can be unchanged: a refused entry may have its name.
    if known is not None and main in plain and reading.keep(main, plain[main]):
        return known
    refused = dict(listing.refused).get(main)
    if refused is not None:
        diagnostic = reading.diagnose(Severity.ERROR, refused, _REFUSALS[refused], main)
        return invalid_instructions(reading.folder_name, (diagnostic,), refused)
    try:
        raw = reading.read(main, MAX_MAIN_SIZE)
    except FileRefusedError as error:
        if reading.keep_last_read(main, error, may_keep=known is not None) and known is not None:
            return known
        diagnostic = reading.diagnose(Severity.ERROR, error.reason, error.message, main)
        return invalid_instructions(reading.folder_name, (diagnostic,), error.reason)
    strictness = strictness_at(reading.source, reading.folder, SkillKind.FOLDER)
    return parse_instructions(raw, reading.folder_name, reading.shown(main), strictness)


def _is_pending(reading: SkillReading, main: str, instructions: Instructions) -> bool:
    """Tell whether a main file could not be read now but may be readable at the next load."""
    within = reading.within_source(main)
    unread = within in reading.unread.now or main in reading.tree[reading.folder].unread
    lasting = instructions.fault is Reason.PERMISSION_DENIED and within in reading.unread.before
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
        listing = tree.get("/".join(part for part in (folder, below) if part))
        waiting += [f"{below}/{name}" for name in listing.folders] if listing else []


def _walk(folder: str, tree: Tree) -> Iterator[tuple[str, Fingerprint | None, Reason | None]]:
    """Yield the entries of a skill folder in order of path, each with its fingerprint or the reason it was refused."""
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
