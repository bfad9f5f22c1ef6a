"""Find single Markdown files that are skills; `file_kinds` decides by their paths how they are read.

Files in the folder of a skill belong to that skill.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.disk.folders import find_main
from skills_core.loading.file_kinds import holds_documents, kind_of_file, strictness_for
from skills_core.sources import SkillKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from skills_core.disk.folders import Listing
    from skills_core.sources import Source, Strictness

__all__ = ["find_documents", "may_be_document", "strictness_at"]

_AT_ROOT_ONLY = "SOUL.MD"

_SUPPORTING_FOLDERS = frozenset({"references", "agents", "scripts"})
# Folders below `.skills` and `.claude/skills` whose Markdown files are supporting files.

_BUILD_FOLDERS = frozenset({"target", "dist", "build", "coverage"})
# Build output, which may hold copies of convention files.


def strictness_at(source: Source, folder: str, kind: SkillKind) -> Strictness:
    """Return the strictness for a skill of this kind in a folder of the source."""
    return strictness_for(source.strictness, _folders(source, folder), kind)


def find_documents(source: Source, tree: Mapping[str, Listing], folder: str) -> Iterator[tuple[str, SkillKind]]:
    """Yield the names and kinds of the files in one folder of the tree that may be skills."""
    parts = {part.lower() for part in folder.split("/")}
    folders = _folders(source, folder)
    is_below = holds_documents(folders)
    if source.kinds <= {SkillKind.FOLDER} or not parts.isdisjoint(_SUPPORTING_FOLDERS if is_below else _BUILD_FOLDERS):
        return
    found = [
        (name, kind)
        for name, _ in tree[folder].files
        if (kind := kind_of_file(folders, name)) is not None and _is_wanted(source, folder, name, kind, below=is_below)
    ]
    if found and not _is_in_skill(tree, folder):
        yield from found


def may_be_document(path: Path) -> bool:
    """Tell whether the file at an absolute path may be a skill by itself, if its folder is a source."""
    return kind_of_file(path.parts[:-1], path.name) in {SkillKind.DOCUMENT, SkillKind.CONVENTION}


def _is_wanted(source: Source, folder: str, name: str, kind: SkillKind, *, below: bool) -> bool:
    if kind is SkillKind.DOCUMENT:
        # One outside of these folders is a `*.skill.md`, and belongs to every source that is searched for single files.
        return kind in source.kinds or not below
    if kind is SkillKind.CONVENTION:
        return kind in source.kinds and not (folder and name.upper() == _AT_ROOT_ONLY)
    return False


def _folders(source: Source, folder: str) -> tuple[str, ...]:
    return (*source.root.parts, *folder.split("/"))


def _is_in_skill(tree: Mapping[str, Listing], folder: str) -> bool:
    above = folder
    while not find_main(tree[above]):
        if not above:
            return False
        above = above.rpartition("/")[0]
    return True
