"""Render the catalog as the reference tools do (`skills-ref to-prompt`), for agents that read skills from the disk."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

from skills_core.diagnostics import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from skills_core.skill import Skill

__all__ = ["render_available_skills"]

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# XML 1.0 has no way to write the other characters.


def render_available_skills(skills: Iterable[Skill]) -> str:
    """Return the element `available_skills` with the name, the description and the path of each skill's main file.

    Characters that XML does not allow become U+FFFD.
    """
    return "\n".join(
        ["<available_skills>", *(line for skill in skills for line in _lines(skill)), "</available_skills>"]
    )


def _lines(skill: Skill) -> Iterator[str]:
    main = skill.content.main
    path = skill.source.root / skill.within_source(main.path if main else "SKILL.md")
    yield "<skill>"
    for tag, text in (("name", skill.name), ("description", skill.description), ("location", str(path))):
        yield from (f"<{tag}>", html.escape(_NOT_XML.sub("\ufffd", printable(text))), f"</{tag}>")
    yield "</skill>"
