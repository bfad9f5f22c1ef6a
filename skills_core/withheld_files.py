"""Which files of a skill a model may read: all but the instructions of a skill that only users may invoke.

When the user invokes such a skill (`disable-model-invocation`, or `trigger`), the model needs its supporting files. Its
SKILL.md is withheld, also where it is a file of an enclosing skill.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Final

from skills_core.diagnostics import Reason
from skills_core.disk.names import MAIN_FILE, MAIN_FILE_LOWERCASE
from skills_core.format.instructions import parse_instructions
from skills_core.sources import SkillKind, Strictness

if TYPE_CHECKING:
    from skills_core.skill import Skill, SkillFile

__all__ = ["is_withheld_from_models"]

_FIELD: Final = b"disable-model-invocation"
_PARSED: Final = frozenset({None, Reason.MISSING_FRONTMATTER})


def is_withheld_from_models(skill: Skill, file: SkillFile, raw: bytes) -> bool:
    """Tell whether a file of `skill`, with the bytes `raw`, instructs a model in what only users may invoke."""
    if file is skill.content.main:
        return not skill.model_invocable
    name = posixpath.basename(file.path)
    # The references of a single file may be single files too; in a folder only a SKILL.md makes a skill.
    may_be_single = skill.content.kind is not SkillKind.FOLDER and name.lower().endswith(".md")
    if name not in {MAIN_FILE, MAIN_FILE_LOWERCASE} and not may_be_single:
        return False
    instructions = parse_instructions(raw, name, file.path, Strictness.LENIENT)
    # Unreadable frontmatter may hold the field.
    unclear = instructions.fault not in _PARSED and not instructions.frontmatter.raw and _FIELD in raw
    return unclear or not instructions.frontmatter.model_invocable
