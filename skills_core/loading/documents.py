"""Decide by a file's path how it is read, and find the single Markdown files that are skills.

A file is the main file of a folder, a document, or a convention file. Rules: adk-skill's. A file named `*.skill.md`,
and each Markdown file below `.skills` or `.claude/skills`, is a document: it needs frontmatter with name and
description. A convention file (`AGENTS.md` and others) needs none. Files in the folder of a skill belong to that skill.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from skills_core.disk.folders import CLAUDE_SKILLS, DOCUMENTS_FOLDER, MAIN_FILE, MAIN_FILE_LOWERCASE, find_main
from skills_core.disk.sources import SkillKind, Strictness
from skills_core.format.document import has_frontmatter
from skills_core.format.instructions import CONVENTIONS, parse_convention, parse_instructions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from skills_core.disk.folders import Listing
    from skills_core.disk.sources import Source
    from skills_core.format.instructions import Instructions


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


_SKILL_SUFFIX = ".skill.md"


def kind_of_file(folders: Sequence[str], name: str) -> SkillKind | None:
    """Return the kind of skill that a file is by the names of its folders and its own; None for any other file."""
    if name in {MAIN_FILE, MAIN_FILE_LOWERCASE}:
        return SkillKind.FOLDER
    is_markdown = name.lower().endswith(".md")
    if is_named_as_skill(name) or (DOCUMENTS_FOLDER in folders and is_markdown):
        return SkillKind.DOCUMENT
    if name.upper() in CONVENTIONS:
        return SkillKind.CONVENTION
    return SkillKind.DOCUMENT if is_markdown and holds_documents(folders) else None


def holds_documents(folders: Sequence[str]) -> bool:
    """Tell whether Markdown files in a folder, given by the names of the folders that lead to it, are documents."""
    if DOCUMENTS_FOLDER in folders:
        return True
    above, below = CLAUDE_SKILLS.split("/")
    return any(pair == (above, below) for pair in itertools.pairwise(folders))


def is_named_as_skill(name: str) -> bool:
    """Tell whether a file is named `*.skill.md`; case does not matter."""
    return name.lower().endswith(_SKILL_SUFFIX)


def default_name(name: str) -> str:
    """Return the name of a skill whose file, called `name`, does not tell it."""
    return name[: -len(_SKILL_SUFFIX)] if is_named_as_skill(name) else name.rpartition(".")[0]


def strictness_for(strictness: Strictness, folders: Sequence[str], kind: SkillKind | None) -> Strictness:
    """Return the strictness for a file: documents, and all skills below `.skills`, need name and description."""
    if strictness is Strictness.LENIENT and (kind is SkillKind.DOCUMENT or DOCUMENTS_FOLDER in folders):
        return Strictness.REQUIRED
    return strictness


def parse_single_file(raw: bytes, kind: SkillKind, name: str, path: str, strictness: Strictness) -> Instructions | None:
    """Parse a document or a convention file called `name`; diagnostics name it as `path`.

    Returns None if the file is not a skill: an empty convention file, and a document without frontmatter that is not
    named `*.skill.md`.
    """
    if kind is SkillKind.CONVENTION:
        return parse_convention(raw, name, path) if raw.strip() else None
    if not has_frontmatter(raw) and not is_named_as_skill(name):
        return None
    return parse_instructions(raw, default_name(name), path, strictness, in_folder=False)
