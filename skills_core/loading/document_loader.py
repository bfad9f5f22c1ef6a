"""Load one Markdown file as a skill: a document or a convention file."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from skills_core.diagnostics import Severity, capped, printable
from skills_core.errors import FileRefusedError
from skills_core.format.instructions import invalid_instructions
from skills_core.loading.documents import strictness_at
from skills_core.loading.file_kinds import default_name, parse_single_file
from skills_core.loading.reading import MAX_MAIN_SIZE, SkillReading, UnreadPaths, is_unchanged
from skills_core.skill import SkillContent, SkillFile, only_respelling

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from skills_core.disk.files import Reader
    from skills_core.disk.scan import Tree
    from skills_core.format.instructions import Instructions
    from skills_core.sources import SkillKind, Source

__all__ = ["load_document"]


def load_document(  # noqa: PLR0913 - what `load_content` takes, and the kind
    source: Source,
    place: str,
    kind: SkillKind,
    tree: Tree,
    reader: Reader,
    before: SkillContent | SkillFile | None = None,
    changed: AbstractSet[str] = frozenset(),
    unread: UnreadPaths | None = None,
    *,
    main_only: bool = False,
) -> SkillContent | SkillFile:
    """Load the file at `place`; the other parameters are those of `load_content`.

    The files of the skill include the references in its frontmatter. Returns a `SkillFile` if the file is not a skill.
    """
    folder, _, main = place.rpartition("/")
    known = {main: before} if isinstance(before, SkillFile) else before.files if before else {}
    reading = SkillReading(source, folder, tree, known, changed, reader, unread or UnreadPaths())
    skill = before if isinstance(before, SkillContent) else None
    instructions = _load_main(reading, main, kind, before)
    if instructions is None:
        return reading.files[main]
    if not main_only:
        _load_references(reading, instructions)
        reading.check_references(instructions, main)
    if instructions.fault is None:
        reading.note_unpublished("it is a single file, not a folder with a SKILL.md", main)
    files, notes = MappingProxyType(reading.files), capped(reading.notes)
    content = SkillContent(place, instructions, files, files.get(main), notes=notes, published=False, kind=kind)
    return skill if skill is not None and is_unchanged(skill, content) else content


def _load_main(
    reading: SkillReading, main: str, kind: SkillKind, before: SkillContent | SkillFile | None
) -> Instructions | None:
    """Return the instructions, None if the file is not a skill."""
    listed = reading.tree[reading.folder].file(main)
    if before is not None and reading.keep(main, listed[1] if listed else None):
        return _known(before)
    try:
        raw = reading.read(main, MAX_MAIN_SIZE)
    except FileRefusedError as error:
        if reading.keep_last_read(main, error) and before is not None:
            return _known(before)
        diagnostic = reading.diagnose(Severity.ERROR, error.reason, error.message, main)
        return invalid_instructions(printable(default_name(main)), (diagnostic,), error.reason)
    strictness = strictness_at(reading.source, reading.folder, kind)
    return parse_single_file(raw, kind, printable(main), reading.shown(main), strictness)


def _known(before: SkillContent | SkillFile) -> Instructions | None:
    return before.instructions if isinstance(before, SkillContent) else None


def _load_references(reading: SkillReading, instructions: Instructions) -> None:
    for reference in instructions.frontmatter.references:
        path = reference.removeprefix("./")
        folder, _, name = reading.within_source(path).rpartition("/")
        listing = reading.tree.get(folder)
        if listing is None:
            continue
        listed = listing.file(name)
        if listed is None and (near := only_respelling(name, (each for each, _ in listing.files))):
            path, listed = path.removesuffix(name) + near, listing.file(near)
        if listed is not None and path not in reading.files:
            reading.enter(path, listed[1])
