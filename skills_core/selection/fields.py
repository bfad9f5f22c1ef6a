"""The texts of a skill that are searched, one for each field of the index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.selection.words import indexed

if TYPE_CHECKING:
    from skills_core.skill import SkillContent

__all__ = ["FIELDS", "texts_of"]

FIELDS = ("name", "description", "tags", "body")


def texts_of(content: SkillContent) -> tuple[str, ...]:
    """Return the texts in the order of `FIELDS`, folded; what says when to use the skill belongs to its description."""
    front = content.instructions.frontmatter
    description = "\n".join((front.description, front.when_to_use or "", *front.triggers))
    return tuple(map(indexed, (content.name, description, "\n".join(front.tags), content.instructions.body)))
