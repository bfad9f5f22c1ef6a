"""A review as a whole: what is known of each skill that differs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skills_core.audit.rules.body import estimated_tokens

if TYPE_CHECKING:
    from server.capabilities.review.agents import AgentEffects
    from server.capabilities.review.changes import SkillChange
    from server.capabilities.review.findings import DiagnosticChanges, FindingChanges
    from server.capabilities.review.triggers import TriggerEffect
    from skills_core.skills.skill import Skill


@dataclass(frozen=True, slots=True)
class ReviewedSkill:
    """One skill that differs, and what was found; without an agent, `agent` is None."""

    change: SkillChange
    findings: FindingChanges
    diagnostics: DiagnosticChanges
    triggers: TriggerEffect
    agent: AgentEffects | None = None

    @property
    def tokens(self) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
        """About how many tokens the description and the body have, before and after."""
        return _tokens(self.change.before), _tokens(self.change.after)

    @property
    def versions(self) -> tuple[str | None, str | None]:
        """The version in the frontmatter, before and after."""
        return _version(self.change.before), _version(self.change.after)


@dataclass(frozen=True, slots=True)
class SkillReview:
    """What a branch does to skills, compared with the commit `base`, where it left `named`.

    `others` are effects on skills that do not differ. `agent` names the agent that performed, empty without one.
    `links` are new links to folders that are not under review, and new submodules.
    """

    base: str
    named: str
    skills: tuple[ReviewedSkill, ...]
    others: tuple[TriggerEffect, ...] = ()
    agent: str = ""
    links: tuple[str, ...] = ()


def _tokens(skill: Skill | None) -> tuple[int, int] | None:
    return None if skill is None else (estimated_tokens(skill.description), estimated_tokens(skill.body))


def _version(skill: Skill | None) -> str | None:
    return None if skill is None else skill.frontmatter.version
