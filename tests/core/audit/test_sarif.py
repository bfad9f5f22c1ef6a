from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from skills_core.audit.engine import RULES
from skills_core.audit.findings import sarif_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core.audit.findings import Finding

    Found = Callable[..., tuple[Finding, ...]]

BAD = "Use `" + "r" + "m -rf /`."
MARK = "skillserve-audit"
LEVELS = {"note", "warning", "error"}


def run_of(found: tuple[Finding, ...], prefix: str = "skills/pdf") -> dict[str, Any]:
    log = sarif_log([(prefix, each) for each in found], "1.2.3", RULES)
    assert json.loads(json.dumps(log)) == log
    assert (log["version"], log["$schema"].rpartition("/")[2]) == ("2.1.0", "sarif-2.1.0.json")
    (run,) = log["runs"]
    return dict(run)


def test_the_driver_describes_every_rule(found_in: Found) -> None:
    driver = run_of(found_in())["tool"]["driver"]
    assert driver["name"]
    assert [rule["id"] for rule in driver["rules"]] == [rule.id for rule in RULES]
    for rule in driver["rules"]:
        assert rule["defaultConfiguration"]["level"] in LEVELS
        assert rule["help"]["text"]
        security = rule["properties"].get("security-severity")
        assert security is None or 0 < float(security) <= 10
        assert rule["properties"]["tags"] == (["quality"] if security is None else ["security"])


def test_a_result_has_its_rule_level_place_and_fingerprint(found_in: Found) -> None:
    (found,) = found_in(BAD)
    (result,) = run_of((found,))["results"]
    assert (result["ruleId"], result["level"]) == ("destructive-command", "error")
    assert RULES[result["ruleIndex"]].id == result["ruleId"]
    assert result["message"]["text"].startswith(found.message)
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "skills/pdf/SKILL.md"}
    assert place["region"] == {"startLine": found.line, "startColumn": found.column}
    assert [*result["partialFingerprints"].values()] == [found.fingerprint]
    assert "suppressions" not in result


def test_a_suppressed_finding_has_its_justification(found_in: Found) -> None:
    (result,) = run_of(found_in(f"<!-- {MARK}: ignore destructive-command -- a container -->\n{BAD}"))["results"]
    assert result["suppressions"] == [{"kind": "inSource", "status": "accepted", "justification": "a container"}]


def test_a_finding_about_a_whole_file_has_no_region(found_in: Found) -> None:
    (result,) = run_of(found_in("x", {"a b%.bin": b"\0"}))["results"]
    assert result["locations"][0]["physicalLocation"] == {"artifactLocation": {"uri": "skills/pdf/a%20b%25.bin"}}
