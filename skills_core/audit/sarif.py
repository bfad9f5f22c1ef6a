"""Findings as SARIF 2.1.0, the format that code scanning reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from skills_core.audit.engine import RULES
from skills_core.diagnostics import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from skills_core.audit.findings import Finding, Rule

__all__ = ["sarif_log"]

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_FINGERPRINT = "skillserveAudit/v1"


def sarif_log(findings: Iterable[tuple[str, Finding]], version: str, rules: Sequence[Rule] = RULES) -> dict[str, Any]:
    """Return the log of one run of `rules`; each finding comes with the path of its skill, with `/`."""
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
