"""Apply rules to a skill: complete hits to findings, in a stable order and number."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from skills_core.audit.finding import Finding, Severity
from skills_core.audit.registry import RULES, RULES_BY_ID
from skills_core.audit.rule import Hit, Rule
from skills_core.audit.suppressions import apply_suppressions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from skills_core.audit.skill.skill_under_audit import SkillUnderAudit

__all__ = ["audit"]

MAX_ALIKE = 20
"""Findings of one rule in one file that are reported one by one; a hostile file may have thousands."""

_EVIDENCE = 400
# Characters of a line that a fingerprint covers.

_RULE_FAILED = "rule-failed"


def audit(skill: SkillUnderAudit, rules: Sequence[Rule] = RULES, *, suppressions: bool = True) -> tuple[Finding, ...]:
    """Return what the rules find in a skill, suppressed findings included, in order of path, line, column and rule.

    Without `suppressions`, the comments that accept findings have no effect.
    """
    known = RULES_BY_ID.keys() | {rule.id for rule in rules}
    findings: list[Finding] = []
    for rule in rules:
        hits = _numbered(_finding(rule, hit) for hit in _hits(rule, skill))
        findings += _capped(apply_suppressions(hits, skill, known) if suppressions else hits)
    findings.sort(key=lambda each: (each.path, each.line or 0, each.column or 0, each.rule))
    return tuple(findings)


def _hits(rule: Rule, skill: SkillUnderAudit) -> Iterator[Hit]:
    """Yield the hits of a rule; if the rule fails, yield a hit that says so, because the skill was not checked."""
    try:
        yield from rule.check(skill)
    except Exception as error:  # noqa: BLE001 - a hostile file must neither stop the audit nor pass it
        main = skill.main or next(iter(skill.files.values()))
        message = f"the rule {rule.id} failed on this skill ({type(error).__name__}), so it was not checked"
        yield Hit(main, message, severity=Severity.ERROR, evidence=_RULE_FAILED)


def _capped(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the first findings of one rule in each file, and the number of the others."""
    alike: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.suppressed:
            yield finding
        else:
            alike.setdefault(finding.path, []).append(finding)
    for path, found in alike.items():
        yield from found[:MAX_ALIKE]
        if len(found) > MAX_ALIKE:
            more = f"and {len(found) - MAX_ALIKE} more findings of this rule in this file"
            worst = max((each.severity for each in found), key=lambda severity: severity.rank)
            last = found[MAX_ALIKE]
            yield replace(last, severity=worst, message=more, fingerprint=_digest(last.rule, path, "more"))


def _finding(rule: Rule, hit: Hit) -> Finding:
    line, column = hit.file.place_of(hit.start) if hit.start is not None else (None, None)
    evidence = hit.evidence
    if evidence is None:
        evidence = hit.file.line_at(hit.start).strip()[:_EVIDENCE] if hit.start is not None else ""
    return Finding(
        rule.id,
        hit.severity or rule.severity,
        hit.file.path,
        line,
        column,
        hit.message,
        hit.fix or rule.fix,
        _digest(rule.id, hit.file.path, evidence),
    )


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _numbered(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings with unique fingerprints: equal lines of a file differ by their number."""
    seen: Counter[str] = Counter()
    for finding in findings:
        seen[finding.fingerprint] += 1
        number = seen[finding.fingerprint]
        yield finding if number == 1 else replace(finding, fingerprint=_digest(finding.fingerprint, str(number)))
