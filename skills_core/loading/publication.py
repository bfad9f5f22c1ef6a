"""Which skills the Skills extension (SEP-2640) may publish: those that every host can load and verify.

The others are served by tools and prompts all the same, and a diagnostic says why hosts do not see them listed.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from skills_core.format.frontmatter import DESCRIPTION_LIMIT, NAME_LIMIT, name_fault, name_length, written_length

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skills_core.skill import Instructions, SkillFile

__all__ = ["MAX_PUBLISHED_FILES", "MAX_PUBLISHED_SIZE", "publication_fault"]

MAX_PUBLISHED_FILES = 512
MAX_PUBLISHED_SIZE = 16 * 1024 * 1024
"""In bytes, over all files of a skill; every host supports skills up to these limits, and may refuse larger ones."""


def publication_fault(instructions: Instructions, files: Mapping[str, SkillFile], main: SkillFile | None) -> str | None:
    """Say why a skill cannot be published, or None where it can."""
    front = instructions.frontmatter
    size = sum(file.size for file in files.values())
    faults = {
        "its SKILL.md is not named so": main is None or posixpath.basename(main.path) != "SKILL.md",
        "other parsers cannot read its frontmatter, or read it differently": not instructions.verbatim,
        "it has no name": not front.name,
        "its name breaks the naming rules": bool(name_fault(front.name)) or name_length(front.name) > NAME_LIMIT,
        "its name has letters beyond a to z, which many hosts refuse": not front.name.isascii(),
        f"its description is longer than {DESCRIPTION_LIMIT} characters": written_length(front, "description")
        > DESCRIPTION_LIMIT,
        "it has a file with a backslash in its name, which hosts refuse": any("\\" in path for path in files),
        "its frontmatter has a name or a description that is no string": not _are_strings(front.raw),
        f"it has {len(files)} files; the limit is {MAX_PUBLISHED_FILES}": len(files) > MAX_PUBLISHED_FILES,
        f"its files have {size} bytes; the limit is {MAX_PUBLISHED_SIZE}": size > MAX_PUBLISHED_SIZE,
    }
    return next((fault for fault, holds in faults.items() if holds), None)


def _are_strings(raw: Mapping[str, object]) -> bool:
    # Kept as written: a name with blanks around it is not the last segment of any path.
    name = raw.get("name")
    return isinstance(name, str) and name == name.strip() and isinstance(raw.get("description"), str)
