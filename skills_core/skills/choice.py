"""Choices of skills by text, as settings name skills: a name, `tag:NAME`, `source:SCOPE` or `source:PATH`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skills_core.disk.sources import Source
    from skills_core.skills.skill import SkillContent

__all__ = ["chooses", "fits"]


def chooses(choice: str, content: SkillContent, source: Source, names: Sequence[str]) -> bool:
    """Tell whether a choice selects a skill by one of `names`, in which `*` stands for any characters, or otherwise."""
    kind, colon, value = choice.partition(":")
    if colon and kind == "tag":
        return value.strip().lower() in {tag.lower() for tag in content.instructions.frontmatter.tags}
    if colon and kind == "source":
        return value.strip() in {source.scope.value, str(source.root)}
    return any(fits(choice, name) for name in names)


def fits(choice: str, name: str) -> bool:
    """Tell whether a name is the one of a choice, in which `*` stands for any characters."""
    first, asterisk, rest = choice.partition("*")
    if not asterisk:
        return choice == name
    *middle, last = rest.split("*")
    end = len(name) - len(last)
    if not (name.startswith(first) and name.endswith(last) and len(first) <= end):
        return False
    position = len(first)
    for part in middle:
        found = name.find(part, position, end)
        if found < 0:
            return False
        position = found + len(part)
    return True
