"""The rules of a guard: patterns of the user's settings, and those of skills; and the log of what they decide."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from skills_core.diagnostics import one_line
from skills_core.guard import Guard, Rule, Verdict, rules_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from server.config import Settings
    from skills_core.guard import Decision
    from skills_core.skill import Skill

__all__ = ["guard_of", "log_decision"]

logger = logging.getLogger(__name__)


def guard_of(skills: Iterable[Skill], settings: Settings) -> Guard:
    """Return the guard by the patterns of the configuration and of `skills`."""
    own = [
        *(Rule(pattern, Verdict.DENY) for pattern in settings.danger_patterns),
        *(Rule(pattern, Verdict.CONFIRM) for pattern in settings.confirm_patterns),
    ]
    return Guard([*own, *rules_of(skills)])


def log_decision(tool: str, decision: Decision) -> None:
    """Log what a pattern decided, with the digest of the skill whose it is."""
    if decision.rule is not None:
        rule, digest = decision.rule, decision.rule.skill.digest if decision.rule.skill else ""
        logger.info("guard: %s %s by %s %s", decision.verdict, one_line(tool)[:100], rule.origin, digest)
