"""The size of the body: a model reads all of it each time it loads the skill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.audit.finding import Severity
from skills_core.audit.rule import Hit, Rule
from skills_core.diagnostics import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skills_core.audit.skill.skill_under_audit import SkillUnderAudit

__all__ = ["MAX_LINES", "MAX_TOKENS", "RULES", "estimated_tokens"]

MAX_LINES = 500
MAX_TOKENS = 5000

_ASCII_PER_TOKEN = 4


def estimated_tokens(text: str) -> int:
    """Return about how many tokens a text has: one for four ASCII characters, one for each other character."""
    others = 0 if text.isascii() else len(text) - len(text.encode("ascii", "ignore"))
    return (len(text) - others + _ASCII_PER_TOKEN - 1) // _ASCII_PER_TOKEN + others


def _too_long(skill: SkillUnderAudit) -> Iterator[Hit]:
    lines, tokens = skill.body.count("\n") + 1, estimated_tokens(skill.body)
    if skill.main is None or (lines <= MAX_LINES and tokens <= MAX_TOKENS):
        return
    size = f"{counted(lines, 'line')} and about {counted(tokens, 'token')}; at most {MAX_LINES} and {MAX_TOKENS:,}"
    yield Hit(skill.main, f"the body has {size}", skill.body_start, evidence="")


RULES = (
    Rule(
        "long-body",
        Severity.WARNING,
        "Long body",
        "The body fills the context of every task that loads the skill, and the important parts lose weight in it.",
        "Move details into files that the model reads when it needs them, and say in SKILL.md when that is.",
        _too_long,
    ),
)
