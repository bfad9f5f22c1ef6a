"""Render the catalog as the reference tools do (`skills-ref to-prompt`), for agents that read skills from the disk."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from skills_core.diagnostics import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from skills_core.skill import Skill

__all__ = ["render_available_skills"]


def render_available_skills(skills: Iterable[Skill]) -> str:
    """Return the element `available_skills` with the name, the description and the path of each skill's main file."""
    return "\n".join(
        ["<available_skills>", *(line for skill in skills for line in _lines(skill)), "</available_skills>"]
    )


def _lines(skill: Skill) -> Iterator[str]:
    main = skill.content.main
    path = skill.source.root / skill.within_source(main.path if main else "SKILL.md")
    yield "<skill>"
    for tag, text in (("name", skill.name), ("description", skill.description), ("location", str(path))):
        yield from (f"<{tag}>", html.escape(printable(text)), f"</{tag}>")
    yield "</skill>"
