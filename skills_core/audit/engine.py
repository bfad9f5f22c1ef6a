"""Apply the rules to a skill: complete hits to findings, in a stable order and number, and apply suppressions.

A comment `skillserve-audit: ignore RULE -- reason`, in Markdown or in a script, accepts the findings of a rule in its
own line and the next line that is not blank; several rules are separated by commas. `ignore-file` covers the whole
file. A suppression without a reason, or of an unknown rule, covers nothing and is a finding.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from skills_core.audit.findings import Finding, Hit, Rule, Severity
from skills_core.audit.rules import (
    body,
    commands,
    data_flow,
    files,
    hidden_text,
    injection,
    lures,
    metadata,
    packages,
    sensitive_files,
)

if TYPE_CHECKING:
    from skills_core.audit.skill import AuditedFile, SkillUnderAudit


MARK = "skillserve-audit:"

_DIRECTIVE = re.compile(r"skillserve-audit:[ \t]{0,8}(ignore(?:-file)?)\b(.*)")
_DASHES = re.compile(r"(?:^|[ \t])--(?:[ \t]|$)")
_COMMENT_ENDS = ("-->", "*/", "#>")
_COMMENT_STARTS = ("<!--", "#", "//", "--", "/*", "REM", "rem", "::", ";", "%", "<#")
_MAX_INDENT = 40
_MAX_LENGTH = 2000
# Characters before a directive that may begin its comment, and characters of a directive.

_MAX_DIRECTIVES = 200
# Suppressions in one file that count.

INVALID_SUPPRESSION = "invalid-suppression"


class _Suppression(NamedTuple):
    """A suppression in a file at a position: the rules that it names, its reason, and the lines that it covers."""

    start: int
    rules: tuple[str, ...]
    reason: str
    lines: range
    whole_file: bool = False


def _suppressions(file: AuditedFile) -> Iterator[_Suppression]:
    text = file.text or ""
    place = text.find(MARK)
    for _ in range(_MAX_DIRECTIVES):
        if place < 0:
            return
        number = file.place_of(place)[0]
        suppression = _suppression(file, number, place)
        if suppression is not None:
            yield suppression
        place = text.find(MARK, place + len(MARK))


def _suppression(file: AuditedFile, number: int, place: int) -> _Suppression | None:
    """Return the suppression in a line, None if the words are not a comment."""
    before = (file.text or "")[max(file.start_of(number), place - _MAX_INDENT) : place]
    if not before.rstrip().endswith(_COMMENT_STARTS):
        return None
    rest = (file.text or "")[place : place + _MAX_LENGTH].partition("\n")[0]
    for end in _COMMENT_ENDS:
        rest = rest.partition(end)[0]
    match = _DIRECTIVE.fullmatch(rest.strip())
    if match is None:
        return _Suppression(place, (), "", range(0))
    named, *reasons = _DASHES.split(match[2], maxsplit=1)
    rules = tuple(each for each in re.split(r"[,\s]+", named) if each)
    following = next((n for n in range(number, min(len(file.lines), number + 20)) if file.lines[n].strip()), number)
    whole_file = match[1] == "ignore-file"
    return _Suppression(place, rules, "".join(reasons).strip(), range(number, following + 2), whole_file)


def _fault(suppression: _Suppression, known: Collection[str]) -> str | None:
    """Return why a suppression covers nothing, None if it covers something."""
    if not suppression.rules:
        return "the suppression names no rule"
    unknown = [rule for rule in suppression.rules if rule not in known]
    if unknown:
        return f"the suppression names {unknown[0]!r}, which is not a rule"
    if INVALID_SUPPRESSION in suppression.rules:
        return f"{INVALID_SUPPRESSION} cannot be suppressed"
    return None if suppression.reason else "the suppression has no reason"


def _with_suppressions(
    findings: Iterable[Finding], skill: SkillUnderAudit, known: Collection[str]
) -> Iterator[Finding]:
    """Yield the findings, those that a suppression covers with its reason.

    A finding about a whole file is covered by an `ignore-file` only.
    """
    by_file: dict[str, list[_Suppression]] = {}
    for finding in findings:
        if finding.path not in by_file:
            found = _suppressions(skill.files[finding.path])
            by_file[finding.path] = [each for each in found if _fault(each, known) is None]
        covering = next((each for each in by_file[finding.path] if _covers(each, finding)), None)
        yield finding if covering is None else replace(finding, justification=covering.reason)


def _covers(suppression: _Suppression, finding: Finding) -> bool:
    return finding.rule in suppression.rules and (suppression.whole_file or finding.line in suppression.lines)


def _invalid_suppressions(skill: SkillUnderAudit) -> Iterator[Hit]:
    for file in skill.texts:
        for suppression in _suppressions(file):
            fault = _fault(suppression, RULES_BY_ID)
            if fault is not None:
                yield Hit(file, f"{fault}, so it covers nothing", suppression.start)


RULES: Final[tuple[Rule, ...]] = (
    *hidden_text.RULES,
    *injection.RULES,
    *commands.RULES,
    *lures.RULES,
    *sensitive_files.RULES,
    *data_flow.RULES,
    *files.RULES,
    *packages.RULES,
    *metadata.RULES,
    *body.RULES,
    Rule(
        INVALID_SUPPRESSION,
        Severity.WARNING,
        "Suppression without effect",
        "A finding that is accepted without a reason cannot be reviewed later.",
        "Write `skillserve-audit: ignore RULE -- reason` with the id of a rule and the reason why the text is right.",
        _invalid_suppressions,
    ),
)
"""All rules, in the order of the documentation."""

RULES_BY_ID: Final[Mapping[str, Rule]] = MappingProxyType({rule.id: rule for rule in RULES})
"""The rules by their ids."""


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
        findings += _capped(_with_suppressions(hits, skill, known) if suppressions else hits)
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
        rule.fix,
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
