"""What makes a review fail: the choice of the user, and the reasons that there are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from skills_core.audit.findings import Severity
from skills_core.diagnostics import Severity as Level

if TYPE_CHECKING:
    from server.capabilities.review.effects import Effect
    from server.capabilities.review.report import ReviewedSkill, SkillReview
    from skills_core.audit.findings import Finding


class FailOn(StrEnum):
    """What makes a review fail."""

    ERROR = "error"
    """New errors of the audit or of validation, a verdict of worse, and a measurement that failed."""
    WARNING = "warning"
    """New warnings too."""
    NOTHING = "nothing"


class Failure(StrEnum):
    """The kinds of reasons for which a review fails."""

    AUDIT = "audit"
    VALIDATION = "validation"
    WORSE = "worse"
    UNMEASURED = "unmeasured"
    LINK = "link"


@dataclass(frozen=True, slots=True)
class GateFailure:
    """One reason for which a review fails; both texts quote the skill, whose place a link's path takes."""

    kind: Failure
    skill: str
    words: str


def failures(review: SkillReview, fail_on: FailOn) -> tuple[GateFailure, ...]:
    """Return why the review fails; nothing if it passes."""
    if fail_on is FailOn.NOTHING:
        return ()
    found = [each for skill in review.skills for each in _of_skill(skill, fail_on)]
    found += [
        each for other in review.others for each in _worse(other.name, "other queries find it first", other.effect)
    ]
    outside = "leads to a folder that is not under review, where agents may find skills"
    found += [GateFailure(Failure.LINK, each, outside) for each in review.links]
    return tuple(found)


def _of_skill(skill: ReviewedSkill, fail_on: FailOn) -> Iterator[GateFailure]:
    name = skill.change.name
    wanted = (Severity.ERROR, Severity.WARNING) if fail_on is FailOn.WARNING else (Severity.ERROR,)
    for severity in wanted:
        for finding in skill.findings.new_of(severity):
            yield GateFailure(Failure.AUDIT, name, f"new {severity} {finding.rule} in {place_of(finding)}")
        for diagnostic in skill.diagnostics.new_of(Level(severity.value)):
            yield GateFailure(Failure.VALIDATION, name, f"new {severity} {diagnostic.code}: {diagnostic.message}")
    yield from _worse(name, "its triggers rank worse", skill.triggers.effect)
    if skill.agent is not None:
        yield from _worse(name, "the agent triggers worse", skill.agent.triggers.effect)
        task = skill.agent.task
        if task.effect and task.effect.get("verdict") == "worse":
            yield GateFailure(Failure.WORSE, name, f"its tasks come out worse: {task.effect.get('reason')}")
        for failed, note in ((task.failed, task.note), (skill.agent.failed, skill.agent.triggers.note)):
            if failed:
                yield GateFailure(Failure.UNMEASURED, name, note)


def _worse(name: str, what: str, effect: Effect | None) -> Iterator[GateFailure]:
    if effect is not None and effect.is_worse:
        yield GateFailure(Failure.WORSE, name, f"{what}: {effect.reason}")


def place_of(finding: Finding) -> str:
    """Return the path of a finding in its skill, with the line."""
    return finding.path if finding.line is None else f"{finding.path}:{finding.line}"
