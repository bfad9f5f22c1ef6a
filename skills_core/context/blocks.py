"""How a skill's words stand in a message: the marks around them, and what keeps a text from closing these early."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from skills_core.diagnostics import one_line
from skills_core.rendering.containment import attribute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skills_core.skill import Skill

__all__ = ["contained", "instruction_of", "prompt_block", "section_entry", "without_closing_tags", "without_marks"]

_MARK = re.compile(r"\[(?=\s*(?:/\s*)?skill\s*[:\]])", re.IGNORECASE)
_CLOSING_TAG = re.compile(r"<(?=\s*/\s*(?i:skills?|skill_content|user_request)\b)")


def without_marks(text: str) -> str:
    """Return `text` with a backslash after the bracket of each mark of a skill in it."""
    return _MARK.sub(r"[\\", text)


def without_closing_tags(text: str) -> str:
    """Return `text` with `&lt;` where it begins a tag that closes one of ours."""
    return _CLOSING_TAG.sub("&lt;", text)


def contained(text: str) -> str:
    """Return the words of a skill such that they stay within whatever is around them."""
    return without_closing_tags(without_marks(text))


def prompt_block(skill: Skill, max_chars: int) -> str:
    """Return `[skill:<name>]`, at most `max_chars` code points of the body, and `[/skill]`, each on its lines."""
    return f"{_opening(skill)}\n{contained(skill.body)[:max_chars]}\n[/skill]"


def instruction_of(skill: Skill, tools: Sequence[str], max_chars: int) -> str:
    """Return a system instruction: what the skill is, the tools that are there for it, and its body.

    A body of more than `max_chars` code points is cut there, and a line says so.
    """
    body = contained(skill.body)
    parts = [_opening(skill), f"# {_named(skill)}\n{contained(skill.description)}"]
    if tools:
        parts.append(f"Tools for this: {contained(', '.join(map(one_line, tools)))}.")
    parts.append(body[:max_chars])
    if len(body) > max_chars:
        parts.append(f"(The instructions are cut here, after {max_chars} of {len(body)} characters.)")
    return "\n\n".join([*parts, "[/skill]"])


def section_entry(skill: Skill) -> str:
    """Return a skill as it stands in the section `<skills>`: its whole body, which is otherwise verbatim."""
    attributes = f"name={attribute(skill.key)} uri={attribute(skill.uri)}"
    return f"<skill {attributes}>\n{contained(skill.body)}\n</skill>"


def _opening(skill: Skill) -> str:
    return f"[skill:{_named(skill)}]"


def _named(skill: Skill) -> str:
    return one_line(skill.key).replace("[", "(").replace("]", ")")
