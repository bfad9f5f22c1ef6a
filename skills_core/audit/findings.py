"""Rules, their findings with severities, and SARIF; a finding keeps its fingerprint when other lines are edited."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from skills_core.diagnostics import one_line, printable

if TYPE_CHECKING:
    from skills_core.audit.skill import AuditedFile, SkillUnderAudit


class AuditMode(StrEnum):
    """What the audit of a skill leads to: it is off, adds warnings to the skill, or also excludes it for an error."""

    OFF = "off"
    WARN = "warn"
    BLOCK = "block"


class Severity(StrEnum):
    """How serious a finding is, from the least; the names are the levels of SARIF."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        """A number to compare severities: a higher one is more serious."""
        return _RANKS[self]

    @property
    def demoted(self) -> Severity:
        """The next lower severity; a note stays a note."""
        return Severity.WARNING if self is Severity.ERROR else Severity.NOTE


_RANKS = {severity: rank for rank, severity in enumerate(Severity)}


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule found in one place.

    `rule` is the id of the rule. `path` is relative to the skill's folder. `line` and `column` count from 1, columns in
    characters; both are None for a finding about a whole file. `fingerprint` stays the same while the file keeps its
    path and the line its text. `justification` is the reason of the suppression that covers the finding, None if none
    does.
    """

    rule: str
    severity: Severity
    path: str
    line: int | None
    column: int | None
    message: str
    fix: str
    fingerprint: str
    justification: str | None = None

    @property
    def suppressed(self) -> bool:
        """Whether a suppression with a reason covers the finding."""
        return self.justification is not None

    def __str__(self) -> str:
        """Format as compilers do: `path:line:column: severity[rule]: message`."""
        where = self.path if self.line is None else f"{self.path}:{self.line}:{self.column}"
        return one_line(f"{where}: {self.severity}[{self.rule}]: {self.message}")


@dataclass(frozen=True, slots=True)
class Hit:
    """One place that a rule found; `audit` completes it to a finding.

    `start` is the position in the text of the file, None for the file as a whole. `severity` replaces that of the rule.
    `evidence` identifies the hit in its fingerprint; by default, the text of the line does.
    """

    file: AuditedFile
    message: str
    start: int | None = None
    severity: Severity | None = None
    evidence: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; `check` yields its hits in a skill.

    `why` says what can go wrong, `fix` what to do. `security_severity` is a number from 0 to 10 as code scanning reads
    it, None for a rule about quality.
    """

    id: str
    severity: Severity
    title: str
    why: str
    fix: str
    check: Callable[[SkillUnderAudit], Iterable[Hit]]
    security_severity: float | None = None


_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_FINGERPRINT = "skillserveAudit/v1"


def sarif_log(findings: Iterable[tuple[str, Finding]], version: str, rules: Sequence[Rule]) -> dict[str, Any]:
    """Return the SARIF 2.1.0 log of one run of `rules`; each finding comes with the path of its skill, with `/`."""
    numbers = {rule.id: number for number, rule in enumerate(rules)}
    results = [_result(prefix, finding, numbers) for prefix, finding in findings]
    driver = {
        "name": "skillserve-audit",
        "semanticVersion": version,
        "rules": [_rule(rule) for rule in rules],
    }
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Rule) -> dict[str, Any]:
    properties: dict[str, Any] = {"tags": ["quality"]}
    if rule.security_severity is not None:
        properties = {"tags": ["security"], "security-severity": str(rule.security_severity)}
    return {
        "id": rule.id,
        "name": rule.title,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.why},
        "help": {"text": f"{rule.why} {rule.fix}"},
        "defaultConfiguration": {"level": rule.severity.value},
        "properties": properties,
    }


def _result(prefix: str, finding: Finding, numbers: dict[str, int]) -> dict[str, Any]:
    path = printable(f"{prefix}/{finding.path}" if prefix else finding.path)
    place: dict[str, Any] = {"artifactLocation": {"uri": quote(path)}}
    if finding.line is not None:
        place["region"] = {"startLine": finding.line, "startColumn": finding.column or 1}
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": numbers[finding.rule],
        "level": finding.severity.value,
        "message": {"text": f"{finding.message}. {finding.fix}"},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {_FINGERPRINT: finding.fingerprint},
    }
    if finding.justification is not None:
        result["suppressions"] = [{"kind": "inSource", "status": "accepted", "justification": finding.justification}]
    return result
