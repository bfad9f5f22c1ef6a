"""Which files of a skill a model may be handed: all but the instructions of a skill that only users may call.

Such a skill (`disable-model-invocation`, or `trigger` by name) has supporting files that the model needs once the user
called it. Its SKILL.md is the skill itself, and it may also be a file of the skill that encloses it.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Final

from skills_core.diagnostics import Reason
from skills_core.disk.names import MAIN_FILE, OTHER_SPELLING
from skills_core.format.instructions import parse_instructions
from skills_core.sources import SkillKind, Strictness

if TYPE_CHECKING:
    from skills_core.skill import Skill, SkillFile

__all__ = ["is_withheld_from_models"]

_FIELD: Final = b"disable-model-invocation"
_READ: Final = frozenset({None, Reason.MISSING_FRONTMATTER})


def is_withheld_from_models(skill: Skill, file: SkillFile, raw: bytes) -> bool:
    """Tell whether a file of `skill`, whose bytes are `raw`, instructs a model in what only users may call."""
    if file is skill.content.main:
        return not skill.model_invocable
    name = posixpath.basename(file.path)
    # A document may refer to another one; in a folder nothing but a SKILL.md makes a skill.
    of_document = skill.content.kind is SkillKind.DOCUMENT and name.endswith(".md")
    if name not in {MAIN_FILE, OTHER_SPELLING} and not of_document:
        return False
    instructions = parse_instructions(raw, name, file.path, Strictness.LENIENT)
    # A frontmatter that cannot be read may say that the skill is for users alone.
    unclear = instructions.fault not in _READ and not instructions.frontmatter.raw and _FIELD in raw
    return unclear or not instructions.frontmatter.model_invocable
