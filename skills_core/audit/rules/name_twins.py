"""Names that look like the name of a well-known skill, or of another skill beside it."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

from skills_core.audit.finding import Severity
from skills_core.audit.lookalikes import LOOKALIKES
from skills_core.audit.rule import Hit, Rule
from skills_core.diagnostics import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skills_core.audit.skill.skill_under_audit import SkillUnderAudit

__all__ = ["RULES", "WELL_KNOWN", "skeleton"]

_WELL_KNOWN_TEXT = """
algorithmic-art brand-guidelines canvas-design claude-api doc-coauthoring docx frontend-design internal-comms
mcp-builder pdf pptx skill-creator slack-gif-creator theme-factory web-artifacts-builder webapp-testing xlsx
using-superpowers brainstorming test-driven-development systematic-debugging writing-plans executing-plans
writing-skills find-skills vercel-react-best-practices web-design-guidelines agent-browser
remotion-best-practices
"""
WELL_KNOWN = frozenset(_WELL_KNOWN_TEXT.split())
"""Skills that many people install: those of Anthropic, and the most used of public collections (November 2026)."""

_ALIKE = str.maketrans(
    {"0": "o", "1": "l", "i": "l", "5": "s", "3": "e", "4": "a", "7": "t", "8": "b", "_": "-", ".": "-", " ": "-"}
)
_PAIRS = (("rn", "m"), ("vv", "w"), ("cl", "d"))
_DASHES = re.compile("-+")


@lru_cache(maxsize=4096)
def skeleton(name: str) -> str:
    """Return a form of a name that is equal for names which look alike."""
    text = unicodedata.normalize("NFKD", name).casefold()
    text = "".join(
        LOOKALIKES.get(char, char)
        for char in text
        if not unicodedata.combining(char) and unicodedata.category(char) != "Cf"
    )
    text = text.translate(_ALIKE)
    for pair, letter in _PAIRS:
        text = text.replace(pair, letter)
    return _DASHES.sub("-", text).strip("-")


_WELL_KNOWN_SKELETONS = {skeleton(name): name for name in sorted(WELL_KNOWN)}


def _twins(skill: SkillUnderAudit) -> Iterator[Hit]:
    main = skill.main
    if main is None:
        return
    known = _WELL_KNOWN_SKELETONS | {skeleton(name): name for name in sorted(skill.siblings) if name not in WELL_KNOWN}
    names = {skill.name, skill.frontmatter.name or skill.name}
    for name in sorted(names):
        rival = known.get(skeleton(name))
        if rival is not None and rival not in names and _oddities(name) >= _oddities(rival):
            yield Hit(main, f"{printable(name)!a} looks like the name of another skill: {rival}", evidence=rival)


def _oddities(name: str) -> int:
    """Count the characters that an imitation replaces letters with; the name with fewer of them is the original."""
    return sum(not char.isascii() or char.isdigit() for char in name)


RULES = (
    Rule(
        "name-twin",
        Severity.ERROR,
        "Name that looks like another skill's",
        "Users and models take the skill for the one that they know.",
        "Choose a name of its own, in letters of one alphabet.",
        _twins,
        7.0,
    ),
)
