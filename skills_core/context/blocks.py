"""How a skill's words stand in a message: the marks and tags around them, which no word of it can close or open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.diagnostics import one_line
from skills_core.rendering.escaping import attribute, contained_between_marks, contained_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skills_core.skill import Skill

__all__ = ["instruction_of", "prompt_block", "section_entry"]


def prompt_block(skill: Skill, max_chars: int) -> str:
    """Return `[skill:<name>]`, at most `max_chars` code points of the body, and `[/skill]`, each on its lines."""
    return f"{_opening(skill)}\n{contained_between_marks(skill.body)[:max_chars]}\n[/skill]"


def instruction_of(skill: Skill, tools: Sequence[str], max_chars: int) -> str:
    """Return a system instruction: what the skill is, the tools that are there for it, and its body.

    A body of more than `max_chars` code points is cut there, and a line says so.
    """
    body = contained_between_marks(skill.body)
    parts = [_opening(skill), f"# {_named(skill)}\n{contained_between_marks(skill.description)}"]
    if tools:
        parts.append(f"Tools for this: {contained_between_marks(', '.join(map(one_line, tools)))}.")
    parts.append(body[:max_chars])
    if len(body) > max_chars:
        parts.append(f"(The instructions are cut here, after {max_chars} of {len(body)} characters.)")
    return "\n\n".join([*parts, "[/skill]"])


def section_entry(skill: Skill) -> str:
    """Return a skill as it stands in the section `<skills>`: its whole body, which is otherwise verbatim."""
    attributes = f"name={attribute(skill.key)} uri={attribute(skill.uri)}"
    return f"<skill {attributes}>\n{contained_between_marks(skill.body)}\n</skill>"


def _opening(skill: Skill) -> str:
    return f"[skill:{_named(skill)}]"


def _named(skill: Skill) -> str:
    return contained_line(skill.key).replace("[", "(").replace("]", ")")
