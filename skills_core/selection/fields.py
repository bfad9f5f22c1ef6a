"""The searched fields of a skill, and their texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.selection.words import index_text

if TYPE_CHECKING:
    from skills_core.skill import SkillContent

__all__ = ["FIELDS", "texts_of"]

FIELDS = ("name", "description", "tags", "body")


def texts_of(content: SkillContent) -> tuple[str, ...]:
    """Return the index texts in the order of `FIELDS`; the description includes `when_to_use` and the triggers."""
    front = content.instructions.frontmatter
    description = "\n".join((front.description, front.when_to_use or "", *front.triggers))
    return tuple(map(index_text, (content.name, description, "\n".join(front.tags), content.instructions.body)))
