"""A review as objects for JSON and SARIF."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from server.capabilities.audit.report import AuditedSkill, sarif_object
from skills_core.audit.engine import RULES
from skills_core.diagnostics import printable

if TYPE_CHECKING:
    from server.capabilities.review.agents import AgentEffects
    from server.capabilities.review.changes import SkillChange
    from server.capabilities.review.gates import GateFailure
    from server.capabilities.review.report import ReviewedSkill, SkillReview
    from server.capabilities.review.triggers import TriggerEffect
    from skills_core.audit.findings import Finding
    from skills_core.diagnostics import Diagnostic
    from skills_core.evals.triggers.results import Rate


def review_sarif(review: SkillReview) -> dict[str, Any]:
    """Return the SARIF log of the new findings, with paths from the top of the repository."""
    audited = [AuditedSkill(_folder(each.change), each.findings.new) for each in review.skills]
    return sarif_object(audited, RULES)


def _folder(change: SkillChange) -> str:
    skill = change.after or change.before
    is_file = skill is not None and skill.content.place != skill.content.folder
    return (change.place.rpartition("/")[0] if is_file else change.place) or "."


def review_object(review: SkillReview, failed: Sequence[GateFailure]) -> dict[str, Any]:
    """Return the object of `review --json`; docs/guides/review-pull-requests.md documents it."""
    return {
        "base": {"revision": printable(review.named), "commit": review.base},
        "skills": [_skill_object(each) for each in review.skills],
        "other_skills": [_trigger_object(each) for each in review.others],
        "agent": printable(review.agent) or None,
        "passed": not failed,
        "failures": [
            {"kind": each.kind.value, "skill": printable(each.skill), "reason": printable(each.words)}
            for each in failed
        ],
    }


def _skill_object(skill: ReviewedSkill) -> dict[str, Any]:
    change, (old, new) = skill.change, skill.tokens
    return {
        "name": printable(change.name),
        "path": printable(change.place),
        "state": change.state.value,
        "old_name": None if change.old_name is None else printable(change.old_name),
        "old_path": None if change.old_place is None else printable(change.old_place),
        "files": [printable(each) for each in change.files],
        "version": _pair(*skill.versions),
        "tokens": {
            "description": _pair(old and old[0], new and new[0]),
            "body": _pair(old and old[1], new and new[1]),
        },
        "valid": _pair(*skill.diagnostics.valid),
        "diagnostics": {
            "new": [_diagnostic_object(each) for each in skill.diagnostics.new],
            "gone": [_diagnostic_object(each) for each in skill.diagnostics.gone],
        },
        "findings": {
            "new": [_finding_object(each) for each in skill.findings.new],
            "gone": [_finding_object(each) for each in skill.findings.gone],
        },
        "triggers": _trigger_object(skill.triggers),
        "agent": None if skill.agent is None else _agent_object(skill.agent),
    }


def _pair(before: object, after: object) -> dict[str, object]:
    return {"before": before, "after": after}


def _diagnostic_object(diagnostic: Diagnostic) -> dict[str, Any]:
    fields = asdict(diagnostic)
    return {**fields, "message": printable(diagnostic.message), "path": printable(diagnostic.path)}


def _finding_object(finding: Finding) -> dict[str, Any]:
    return {**asdict(finding), "path": printable(finding.path), "suppressed": finding.suppressed}


_RATE_DIGITS: Final = 4


def _trigger_object(found: TriggerEffect) -> dict[str, Any]:
    return {
        "skill": printable(found.name),
        "path": printable(found.place),
        "queries": len(found.queries),
        "recall": _pair(_rate(found.recall(before=True)), _rate(found.recall(before=False))),
        "false_alarms": _pair(_rate(found.false_alarms(before=True)), _rate(found.false_alarms(before=False))),
        "effect": None if found.effect is None else found.effect.to_json(),
        "changed": [
            {
                "id": each.query.id,
                "query": each.query.text,
                "should_trigger": each.query.should_trigger,
                "before": each.shown_before,
                "after": each.shown_after,
                "score": _pair(each.before, each.after),
            }
            for each in found.differing
        ],
        "note": printable(found.note) or None,
    }


def _rate(rate: Rate | None) -> dict[str, Any] | None:
    if rate is None:
        return None
    low, high = rate.interval
    interval = {"low": round(low, _RATE_DIGITS), "high": round(high, _RATE_DIGITS)}
    value = None if rate.value is None else round(rate.value, _RATE_DIGITS)
    return {"count": rate.count, "total": rate.total, "rate": value, "interval": interval}


def _agent_object(found: AgentEffects) -> dict[str, Any]:
    task = found.task
    return {
        "task": {
            "baseline": task.baseline or None,
            "effect": task.effect,
            "run_summary": task.summary or None,
            "cost_usd": task.cost_usd,
            "errors": task.errors,
            "note": printable(task.note) or None,
        },
        "triggers": {**_trigger_object(found.triggers), "cost_usd": found.trigger_cost},
    }
