"""Decide whether the Skills extension (SEP-2640) may publish a skill: only if every host can load and verify it.

Other skills are served by tools and prompts, and a diagnostic says why the extension does not list them.
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
"""Total bytes of a skill's files. Every host supports skills up to these limits, and may refuse larger ones."""

_SHOWN = 3
# Missing files that a message names; each one also has its own diagnostic.


def publication_fault(reading: SkillReading, instructions: Instructions, main: str) -> str | None:
    """Return why a skill with the main file `main` cannot be published, None if it can.

    The manifest of a published skill lists every entry of its folder, except for ignored names.
    """
    front, files = instructions.frontmatter, reading.files
    size = sum(file.size for file in files.values())
    faults = {
        "its main file is not named SKILL.md": main not in files or posixpath.basename(main) != "SKILL.md",
        _incomplete(reading.missing): bool(reading.missing),
        "other parsers cannot read its frontmatter, or read it differently": not instructions.verbatim,
        "it has no name": not front.name,
        "its name breaks the naming rules": bool(name_fault(front.name)) or name_length(front.name) > NAME_LIMIT,
        "its name has non-ASCII letters, which many hosts refuse": not front.name.isascii(),
        f"its description is longer than {DESCRIPTION_LIMIT} characters": written_length(front, "description")
        > DESCRIPTION_LIMIT,
        "it has a file with a backslash in its name, which hosts refuse": any("\\" in path for path in files),
        "its frontmatter has a name or description that is not a string": not _are_strings(front.raw),
        f"it has {len(files)} files; the limit is {MAX_PUBLISHED_FILES}": len(files) > MAX_PUBLISHED_FILES,
        f"its files have {size} bytes; the limit is {MAX_PUBLISHED_SIZE}": size > MAX_PUBLISHED_SIZE,
    }
    return next((fault for fault, holds in faults.items() if holds), None)


def _incomplete(missing: Mapping[str, Reason]) -> str:
    shown = [f"{printable(path)} ({reason})" for path, reason in [*missing.items()][:_SHOWN]]
    more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    return f"its manifest would be incomplete: it lacks {', '.join(shown)}{more}"


def _are_strings(raw: Mapping[str, object]) -> bool:
    # With surrounding whitespace, the verbatim name does not equal the last segment of the URI's path.
    name = raw.get("name")
    return isinstance(name, str) and name == name.strip() and isinstance(raw.get("description"), str)
