"""Menus of equal options where the skill should name a default."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.audit.finding import Severity
from skills_core.audit.patterns import shown
from skills_core.audit.rule import Hit, Rule
from skills_core.audit.search import find, is_found
from skills_core.mentions.markdown import without_fences

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skills_core.audit.skill.skill_under_audit import SkillUnderAudit

__all__ = ["RULES"]

_ITEM = r"`?[\w.+#/@-]+(?: [\w.+#/@-]+)?`?"
_MENU = (
    r"\b(?:you (?:can|could|may|might)|can|could|either|choose|pick|options?(?: are|:)?|feel free to|use"
    rf"|using|with|try)\b[^.\n,]{{0,30}}?\s(?:{_ITEM},\s+){{2,8}}(?:or\s+){_ITEM}"
)
_CHOICE = (
    r"\b(?:you (?:can|could|may|might)|can (?:use|be)|could|either|choose|pick|options?|feel free|use|using|try)\b"
)
_DEFAULT = (
    r"\b(?:default\w*|prefer\w*|recommend\w*|first choice|unless|start with|best|depending on|based on"
    r"|according to|whichever|matching|if|when|for (?:most|the|scanned|simple|each))\b"
    r"|^\s*use\s+\S+\s+for\b|\.\s+use\s+`?[\w.-]+`?\s+(?:for|unless|by)\b"
)
_NEAR = 300


def _menus(skill: SkillUnderAudit) -> Iterator[Hit]:
    main = skill.main
    if main is None:
        return
    body = without_fences(skill.body)
    for found in find(_MENU, body):
        around = body[max(0, found.start - 80) : found.end + _NEAR].replace("\n", " ")
        if is_found(_CHOICE, found.text) and not is_found(_DEFAULT, around):
            message = f"offers equal options without a default: {shown(found.text)}"
            yield Hit(main, message, skill.body_start + found.start)


RULES = (
    Rule(
        "option-menu",
        Severity.NOTE,
        "Menu without a default",
        "Given equal options, a model chooses differently each time, or spends its effort on choosing.",
        "Name one default, and say briefly when another option is better.",
        _menus,
    ),
)
