"""Decide by a file's path how it is read: as the main file of a folder, a document, or a convention file.

Rules: adk-skill's. A file named `*.skill.md`, and each Markdown file below `.skills` or `.claude/skills`, is a
document: it needs frontmatter with name and description. A convention file (`AGENTS.md` and others) needs none.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from skills_core.disk.names import CLAUDE_SKILLS, DOCUMENTS_FOLDER, MAIN_FILE, MAIN_FILE_LOWERCASE
from skills_core.format.document import has_frontmatter
from skills_core.format.instructions import CONVENTIONS, parse_convention, parse_instructions
from skills_core.sources import SkillKind, Strictness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skills_core.format.instructions import Instructions

__all__ = [
    "default_name",
    "holds_documents",
    "is_named_as_skill",
    "kind_of_file",
    "parse_single_file",
    "strictness_for",
]

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
