"""Build a guard from the patterns in the settings and in skills."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.guard import Guard, Rule, Verdict, rules_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from server.capabilities.guard.settings import GuardSettings
    from skills_core.skills.skill import Skill

__all__ = ["guard_of"]


def guard_of(skills: Iterable[Skill], settings: GuardSettings) -> Guard:
    """Return a guard with the patterns of the settings and of `skills`."""
    own = [
        *(Rule(pattern, Verdict.DENY) for pattern in settings.danger_patterns),
        *(Rule(pattern, Verdict.CONFIRM) for pattern in settings.confirm_patterns),
    ]
    return Guard([*own, *rules_of(skills)])
