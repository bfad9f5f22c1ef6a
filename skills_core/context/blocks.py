"""Format a skill for a message, between marks or tags that the skill's own text cannot open or close."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.diagnostics import one_line
from skills_core.rendering.escaping import escape_line, escape_tags_and_marks, quote_attribute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skills_core.skill import Skill

__all__ = ["instruction_of", "prompt_block", "section_entry"]


def prompt_block(skill: Skill, max_chars: int) -> str:
    """Return `[skill:<name>]`, at most `max_chars` code points of the body, and `[/skill]`, on separate lines."""
    return f"{_opening_mark(skill)}\n{escape_tags_and_marks(skill.body)[:max_chars]}\n[/skill]"


def instruction_of(skill: Skill, tools: Sequence[str], max_chars: int) -> str:
    """Return a system instruction: the skill's name and description, its available tools, and its body.

    A body longer than `max_chars` code points is cut, and a line says so.
    """
    body = escape_tags_and_marks(skill.body)
    parts = [_opening_mark(skill), f"# {_mark_name(skill)}\n{escape_tags_and_marks(skill.description)}"]
    if tools:
        parts.append(f"Tools for this: {escape_tags_and_marks(', '.join(map(one_line, tools)))}.")
    parts.append(body[:max_chars])
    if len(body) > max_chars:
        parts.append(f"(The instructions are cut here, after {max_chars} of {len(body)} characters.)")
    return "\n\n".join([*parts, "[/skill]"])


def section_entry(skill: Skill) -> str:
    """Return a skill's entry for the section `<skills>`, with its whole body.

    The element is that of an activation: its name is unmistakable, so the body can hold `</skill>` as its own text.
    """
    attributes = f"name={quote_attribute(skill.key)} uri={quote_attribute(skill.uri)}"
    return f"<skill_content {attributes}>\n{escape_tags_and_marks(skill.body)}\n</skill_content>"


def _opening_mark(skill: Skill) -> str:
    return f"[skill:{_mark_name(skill)}]"


def _mark_name(skill: Skill) -> str:
    return escape_line(skill.key).replace("[", "(").replace("]", ")")
