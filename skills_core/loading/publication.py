"""Which skills the Skills extension (SEP-2640) may publish: those that every host can load and verify.

The others are served by tools and prompts all the same, and a diagnostic says why hosts do not see them listed.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from skills_core.diagnostics import printable
from skills_core.format.frontmatter import DESCRIPTION_LIMIT, NAME_LIMIT, name_fault, name_length, written_length

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skills_core.diagnostics import Reason
    from skills_core.format.instructions import Instructions
    from skills_core.loading.reading import SkillReading

__all__ = ["MAX_PUBLISHED_FILES", "MAX_PUBLISHED_SIZE", "publication_fault"]

MAX_PUBLISHED_FILES = 512
MAX_PUBLISHED_SIZE = 16 * 1024 * 1024
"""In bytes, over all files of a skill; every host supports skills up to these limits, and may refuse larger ones."""

_SHOWN = 3
# Missing files that a message names; each has a diagnostic of its own.


def publication_fault(reading: SkillReading, instructions: Instructions, main: str) -> str | None:
    """Say why the skill that was read, whose main file is `main`, cannot be published, or None where it can.

    The manifest of a published skill is complete: all that lies in the skill's folder under a name that is not ignored
    is either in it, or the skill is not published.
    """
    front, files = instructions.frontmatter, reading.files
    size = sum(file.size for file in files.values())
    faults = {
        "its SKILL.md is not named so": main not in files or posixpath.basename(main) != "SKILL.md",
        _incomplete(reading.missing): bool(reading.missing),
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


def _incomplete(missing: Mapping[str, Reason]) -> str:
    shown = [f"{printable(path)} ({reason})" for path, reason in [*missing.items()][:_SHOWN]]
    more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    return f"its manifest would not be complete, for it lacks {', '.join(shown)}{more}"


def _are_strings(raw: Mapping[str, object]) -> bool:
    # Kept as written: a name with blanks around it is not the last segment of any path.
    name = raw.get("name")
    return isinstance(name, str) and name == name.strip() and isinstance(raw.get("description"), str)
