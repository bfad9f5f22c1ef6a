"""Compare the installed skills of a plugin with new ones: which are added, updated or removed, and which are older."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from skills_core.format.semantic_version import parse_version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from server.plugins.record import SkillRecord

__all__ = ["SkillChange", "SkillChangeKind", "compare_skills"]


class SkillChangeKind(StrEnum):
    """What an installation or update does to a skill."""

    ADDED = "added"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class SkillChange:
    """A skill before and after; one of them is None if it is added or removed."""

    before: SkillRecord | None
    after: SkillRecord | None

    @property
    def skill(self) -> SkillRecord:
        """The skill afterwards, or before if it is removed."""
        skill = self.after or self.before
        assert skill is not None  # noqa: S101 - there is one of them
        return skill

    @property
    def kind(self) -> SkillChangeKind:
        """What happens to the skill."""
        if self.before is None:
            return SkillChangeKind.ADDED
        if self.after is None:
            return SkillChangeKind.REMOVED
        same = (self.before.digest, self.before.folder) == (self.after.digest, self.after.folder)
        return SkillChangeKind.UNCHANGED if same else SkillChangeKind.UPDATED

    @property
    def is_downgrade(self) -> bool:
        """Whether the new version precedes the old one; only semantic versions can be compared."""
        before = parse_version((self.before and self.before.version) or "")
        after = parse_version((self.after and self.after.version) or "")
        return before is not None and after is not None and after < before


def compare_skills(before: Sequence[SkillRecord], after: Sequence[SkillRecord]) -> tuple[SkillChange, ...]:
    """Return the change of each skill, by URI; removed skills come last."""
    old = {skill.uri: skill for skill in before}
    new = {skill.uri for skill in after}
    return (
        *(SkillChange(old.get(skill.uri), skill) for skill in after),
        *(SkillChange(skill, None) for skill in before if skill.uri not in new),
    )
