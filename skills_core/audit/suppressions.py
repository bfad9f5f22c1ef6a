"""Suppressions: comments in a file that accept findings of a rule there, with a reason.

`skillserve-audit: ignore RULE -- reason` in an HTML comment of Markdown, or in a comment of a script, covers its own
line and the next line that is not blank; several rules are separated by commas. `ignore-file` covers the whole file. A
suppression without a reason, or of an unknown rule, covers nothing and is a finding.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from skills_core.audit.finding import Severity
from skills_core.audit.rule import Hit, Rule

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from skills_core.audit.finding import Finding
    from skills_core.audit.skill.skill_under_audit import AuditedFile, SkillUnderAudit

__all__ = ["INVALID_SUPPRESSION", "apply_suppressions", "invalid_suppressions"]

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


class Suppression(NamedTuple):
    """A suppression in a file at a position: the rules that it names, its reason, and the lines that it covers."""

    start: int
    rules: tuple[str, ...]
    reason: str
    lines: range
    whole_file: bool = False


def _suppressions(file: AuditedFile) -> Iterator[Suppression]:
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


def _suppression(file: AuditedFile, number: int, place: int) -> Suppression | None:
    """Return the suppression in a line, None if the words are no comment."""
    before = (file.text or "")[max(file.start_of(number), place - _MAX_INDENT) : place]
    if not before.rstrip().endswith(_COMMENT_STARTS):
        return None
    rest = (file.text or "")[place : place + _MAX_LENGTH].partition("\n")[0]
    for end in _COMMENT_ENDS:
        rest = rest.partition(end)[0]
    match = _DIRECTIVE.fullmatch(rest.strip())
    if match is None:
        return Suppression(place, (), "", range(0))
    named, *reasons = _DASHES.split(match[2], maxsplit=1)
    rules = tuple(each for each in re.split(r"[,\s]+", named) if each)
    following = next((n for n in range(number, min(len(file.lines), number + 20)) if file.lines[n].strip()), number)
    whole_file = match[1] == "ignore-file"
    return Suppression(place, rules, "".join(reasons).strip(), range(number, following + 2), whole_file)


def _fault(suppression: Suppression, known: Collection[str]) -> str | None:
    """Return why a suppression covers nothing, None if it covers something."""
    if not suppression.rules:
        return "the suppression names no rule"
    unknown = [rule for rule in suppression.rules if rule not in known]
    if unknown:
        return f"the suppression names {unknown[0]!r}, which is no rule"
    if INVALID_SUPPRESSION in suppression.rules:
        return f"{INVALID_SUPPRESSION} cannot be suppressed"
    return None if suppression.reason else "the suppression has no reason"


def invalid_suppressions(known: Collection[str]) -> Rule:
    """Return the rule that finds suppressions without effect; `known` are the ids of the other rules."""
    ids = {*known, INVALID_SUPPRESSION}

    def check(skill: SkillUnderAudit) -> Iterator[Hit]:
        for file in skill.texts:
            for suppression in _suppressions(file):
                fault = _fault(suppression, ids)
                if fault is not None:
                    yield Hit(file, f"{fault}, so it covers nothing", suppression.start)

    return Rule(
        INVALID_SUPPRESSION,
        Severity.WARNING,
        "Suppression without effect",
        "A finding that is accepted without a reason cannot be reviewed later.",
        "Write `skillserve-audit: ignore RULE -- reason` with the id of a rule and the reason why the text is right.",
        check,
    )


def apply_suppressions(
    findings: Iterable[Finding], skill: SkillUnderAudit, known: Collection[str]
) -> Iterator[Finding]:
    """Yield the findings, those that a suppression covers with its reason.

    A finding about a whole file is covered by an `ignore-file` only.
    """
    by_file: dict[str, list[Suppression]] = {}
    for finding in findings:
        if finding.path not in by_file:
            found = _suppressions(skill.files[finding.path])
            by_file[finding.path] = [each for each in found if _fault(each, known) is None]
        covering = next((each for each in by_file[finding.path] if _covers(each, finding)), None)
        yield finding if covering is None else replace(finding, justification=covering.reason)


def _covers(suppression: Suppression, finding: Finding) -> bool:
    return finding.rule in suppression.rules and (suppression.whole_file or finding.line in suppression.lines)
