"""Apply rules to a skill: complete hits to findings, in a stable order and number."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from skills_core.audit.finding import Finding, Severity
from skills_core.audit.registry import RULES
from skills_core.audit.rule import Hit, Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from skills_core.audit.skill_under_audit import SkillUnderAudit

__all__ = ["audit"]

MAX_ALIKE = 20
"""Findings of one rule in one file that are reported one by one; a hostile file may have thousands."""

_EVIDENCE = 400
# Characters of a line that a fingerprint covers.

_RULE_FAILED = "rule-failed"


def audit(skill: SkillUnderAudit, rules: Sequence[Rule] = RULES) -> tuple[Finding, ...]:
    """Return what the rules find in a skill, in order of path, line, column and rule."""
    findings = [finding for rule in rules for finding in _findings(rule, _hits(rule, skill))]
    findings.sort(key=lambda each: (each.path, each.line or 0, each.column or 0, each.rule))
    return _numbered(findings)


def _hits(rule: Rule, skill: SkillUnderAudit) -> Iterator[Hit]:
    """Yield the hits of a rule; if the rule fails, yield a hit that says so, because the skill was not checked."""
    try:
        yield from rule.check(skill)
    except Exception as error:  # noqa: BLE001 - a hostile file must neither stop the audit nor pass it
        main = skill.main or next(iter(skill.files.values()))
        message = f"the rule {rule.id} failed on this skill ({type(error).__name__}), so it was not checked"
        yield Hit(main, message, severity=Severity.ERROR, evidence=_RULE_FAILED)


def _findings(rule: Rule, hits: Iterable[Hit]) -> Iterator[Finding]:
    counts: Counter[str] = Counter()
    last: dict[str, Finding] = {}
    for hit in hits:
        path = hit.file.path
        counts[path] += 1
        if counts[path] <= MAX_ALIKE:
            last[path] = _finding(rule, hit)
            yield last[path]
    for path, count in counts.items():
        if count > MAX_ALIKE:
            more = f"and {count - MAX_ALIKE} more findings of this rule in this file"
            yield replace(last[path], message=more, fingerprint=_digest(rule.id, path, "more"))


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


def _numbered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings with their fingerprints made unique: equal lines differ by their number in the file."""
    seen: Counter[str] = Counter()
    numbered: list[Finding] = []
    for finding in findings:
        seen[finding.fingerprint] += 1
        number = seen[finding.fingerprint]
        fingerprint = finding.fingerprint if number == 1 else _digest(finding.fingerprint, str(number))
        numbered.append(replace(finding, fingerprint=fingerprint))
    return tuple(numbered)
