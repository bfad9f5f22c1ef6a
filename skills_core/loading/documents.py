"""Find single Markdown files that are skills: convention files (`AGENTS.md` and others), and documents below `.skills`.

Rules: adk-skill's. A convention file needs no frontmatter; below `.skills`, a file without frontmatter is supporting
text. Files in the folder of a skill belong to that skill.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.disk.folders import find_main
from skills_core.disk.names import DOCUMENTS_FOLDER
from skills_core.format.conventions import CONVENTIONS
from skills_core.sources import SkillKind, Strictness

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from skills_core.disk.folders import Listing
    from skills_core.sources import Source

__all__ = ["find_documents", "may_be_document", "strictness_at"]

_AT_ROOT_ONLY = "SOUL.MD"

_SUPPORTING_FOLDERS = frozenset({"references", "agents", "scripts"})
# Folders below `.skills` whose documents are supporting files.

_BUILD_FOLDERS = frozenset({"target", "dist", "build", "coverage"})
# Build output, which may hold copies of convention files.


def strictness_at(source: Source, path: str) -> Strictness:
    """Return the strictness for `path`: below `.skills`, name and description are required."""
    if source.strictness is Strictness.LENIENT and _is_below_documents(source, path):
        return Strictness.REQUIRED
    return source.strictness


def find_documents(source: Source, tree: Mapping[str, Listing], folder: str) -> Iterator[tuple[str, SkillKind]]:
    """Yield the names and kinds of the files in one folder of the tree that may be skills."""
    parts = {part.lower() for part in folder.split("/")}
    below = _is_below_documents(source, folder)
    if source.kinds <= {SkillKind.FOLDER} or not parts.isdisjoint(_SUPPORTING_FOLDERS if below else _BUILD_FOLDERS):
        return
    found = [(name, kind) for name, _ in tree[folder].files if (kind := _kind(source, folder, name, below=below))]
    if found and not _is_in_skill(tree, folder):
        yield from found


def may_be_document(path: Path) -> bool:
    """Tell whether the file at an absolute path may be a skill by itself, if its folder is a source."""
    return path.name.upper() in CONVENTIONS or (DOCUMENTS_FOLDER in path.parts and path.name.lower().endswith(".md"))


def _kind(source: Source, folder: str, name: str, *, below: bool) -> SkillKind | None:
    if below:
        is_document = SkillKind.DOCUMENT in source.kinds and name.lower().endswith(".md")
        return SkillKind.DOCUMENT if is_document else None
    if SkillKind.CONVENTION not in source.kinds or name.upper() not in CONVENTIONS:
        return None
    return None if folder and name.upper() == _AT_ROOT_ONLY else SkillKind.CONVENTION


def _is_below_documents(source: Source, path: str) -> bool:
    return DOCUMENTS_FOLDER in source.root.parts or DOCUMENTS_FOLDER in path.split("/")


def _is_in_skill(tree: Mapping[str, Listing], folder: str) -> bool:
    above = folder
    while not find_main(tree[above]):
        if not above:
            return False
        above = above.rpartition("/")[0]
    return True
