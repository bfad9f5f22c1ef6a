"""Findings in a stable order and number, and the suppressions that accept them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from skills_core.audit.engine import MAX_ALIKE, RULES, audit
from skills_core.audit.findings import Finding, Hit, Rule, Severity
from skills_core.audit.sarif import sarif_log
from skills_core.audit.skill import AuditedFile, SkillUnderAudit

Found = Callable[..., tuple[Finding, ...]]


def skill(**files: str | bytes) -> SkillUnderAudit:
    return SkillUnderAudit.of(
        "pdf",
        [
            AuditedFile(path, text.encode() if isinstance(text, str) else text)
            for path, text in {"SKILL.md": "---\nname: pdf\ndescription: d\n---\nBody.\n", **files}.items()
        ],
    )


def rule(check: Callable[[SkillUnderAudit], Iterable[Hit]]) -> Rule:
    return Rule("a-rule", Severity.WARNING, "A rule", "Why.", "Fix it.", check)


def every(word: str) -> Rule:
    def check(audited: SkillUnderAudit) -> Iterator[Hit]:
        for file in audited.texts:
            place = (file.text or "").find(word)
            while place >= 0:
                yield Hit(file, f"has {word}", place)
                place = (file.text or "").find(word, place + 1)

    return rule(check)


def test_a_finding_has_the_line_and_column_of_its_hit() -> None:
    (found,) = audit(skill(a="one\ntwo bad"), [every("bad")])
    assert (found.path, found.line, found.column) == ("a", 2, 5)
    assert (found.rule, found.severity, found.fix) == ("a-rule", Severity.WARNING, "Fix it.")
    assert str(found) == "a:2:5: warning[a-rule]: has bad"


def test_a_hit_on_a_whole_file_has_no_line() -> None:
    (found,) = audit(skill(a=b"\0"), [rule(lambda audited: [Hit(audited.files["a"], "binary")])])
    assert (found.line, found.column) == (None, None)


def test_a_hit_may_change_severity_and_fix() -> None:
    hits = [Hit(skill().files["SKILL.md"], "m", 0, Severity.NOTE, "Other fix.")]
    (found,) = audit(skill(), [rule(lambda _: hits)])
    assert (found.severity, found.fix) == (Severity.NOTE, "Other fix.")


def test_a_fingerprint_survives_lines_above_and_differs_for_each_place() -> None:
    first, second = audit(skill(a="bad\nbad"), [every("bad")])
    moved = audit(skill(a="new\n\nbad\nbad"), [every("bad")])
    assert [each.fingerprint for each in moved] == [first.fingerprint, second.fingerprint]
    assert first.fingerprint != second.fingerprint
    (other,) = audit(skill(b="bad"), [every("bad")])
    assert other.fingerprint != first.fingerprint


def test_many_alike_findings_end_in_their_number() -> None:
    found = audit(skill(a="bad\n" * 1000), [every("bad")])
    assert len(found) == MAX_ALIKE + 1
    assert found[-1].message == f"and {1000 - MAX_ALIKE} more findings of this rule in this file"


def test_a_rule_that_fails_is_an_error_because_the_skill_was_not_checked() -> None:
    def check(_: SkillUnderAudit) -> Iterator[Hit]:
        raise RecursionError

    (found,) = audit(skill(), [rule(check)])
    assert (found.severity, found.rule) == (Severity.ERROR, "a-rule")
    assert "RecursionError" in found.message


def test_a_file_that_cannot_be_read_fails_closed() -> None:
    unread = SkillUnderAudit.of("pdf", [*skill().files.values(), AuditedFile("x.py", fault="reading is not permitted")])
    (found,) = [each for each in audit(unread) if each.rule == "unread-file"]
    assert found.severity is Severity.ERROR
    assert "reading is not permitted" in found.message


def test_one_invalid_byte_hides_no_script_and_no_markdown_from_the_rules() -> None:
    files = skill(**{"a.py": b"bad\xff", "b.md": b"bad\0", "c.bin": b"bad\xff", "d": b"#!/bin/sh\nbad\xff"})
    assert [each.path for each in audit(files, [every("bad")])] == ["a.py", "b.md", "d"]


def test_a_text_with_a_few_invalid_bytes_is_text() -> None:
    files = skill(**{"a.txt": b"bad and more text\xff", "Makefile": b"bad and more text\0", "c.bin": b"bad\xff\xfe"})
    assert [each.path for each in audit(files, [every("bad")])] == ["Makefile", "a.txt"]


def test_utf_16_is_text() -> None:
    assert audit(skill(a="bad".encode("utf-16")), [every("bad")])


def test_a_skill_without_its_skill_md_is_audited_all_the_same() -> None:
    alone = SkillUnderAudit.of("x", [AuditedFile("a", b"bad")])
    assert audit(alone, [every("bad")])
    assert (alone.main, alone.body) == (None, "")


def test_the_body_of_a_skill_md_that_cannot_be_parsed_is_its_whole_text() -> None:
    broken = SkillUnderAudit.of("x", [AuditedFile("SKILL.md", b"---\nname: x\nno end")])
    assert broken.body == "---\nname: x\nno end"


@pytest.mark.parametrize("each", RULES, ids=[each.id for each in RULES])
def test_every_rule_says_what_why_and_how_to_fix_it(each: Rule) -> None:
    assert each.id.replace("-", "").isalnum()
    assert each.id.islower()
    assert each.title
    assert each.why.endswith(".")
    assert each.fix.endswith(".")
    assert each.security_severity is None or 0 < each.security_severity <= 10


def test_the_ids_of_rules_are_unique() -> None:
    assert len({each.id for each in RULES}) == len(RULES)


def test_findings_are_values() -> None:
    (found,) = audit(skill(a="bad"), [every("bad")])
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.line = 1  # type: ignore[misc]


BAD = "Use `" + "r" + "m -rf /`."
MARK = "skillserve-audit"


def states(found: tuple[Finding, ...]) -> list[tuple[str, str | None]]:
    return [(each.rule, each.justification) for each in found]


def test_a_comment_with_a_reason_covers_the_next_line(found_in: Found) -> None:
    text = f"<!-- {MARK}: ignore destructive-command -- runs in a throw-away container -->\n{BAD}\n\n{BAD}\n"
    assert states(found_in(text)) == [
        ("destructive-command", "runs in a throw-away container"),
        ("destructive-command", None),
    ]


@pytest.mark.parametrize("between", ["\n", "\n\n", "\r\n"])
def test_blank_lines_may_lie_between(found_in: Found, between: str) -> None:
    text = f"<!-- {MARK}: ignore destructive-command -- reason -->{between}{BAD}\n"
    assert states(found_in(text)) == [("destructive-command", "reason")]


@pytest.mark.parametrize("start", ["#", "//", "--", "REM"])
def test_a_comment_in_a_script_covers_its_own_line(found_in: Found, start: str) -> None:
    text = "r" + f"m -rf / {start} {MARK}: ignore destructive-command -- reason\n"
    assert states(found_in("Run `scripts/x.sh`.", {"scripts/x.sh": text})) == [("destructive-command", "reason")]


def test_a_whole_file_can_be_covered(found_in: Found) -> None:
    text = f"<!-- {MARK}: ignore-file destructive-command, option-menu -- reason -->\n\nx\n\n{BAD}\n"
    assert states(found_in(text)) == [("destructive-command", "reason")]


def test_other_rules_are_not_covered(found_in: Found) -> None:
    text = f"<!-- {MARK}: ignore padding -- reason -->\n{BAD}\n"
    assert states(found_in(text)) == [("destructive-command", None)]


@pytest.mark.parametrize(
    ("directive", "fault"),
    [
        ("ignore destructive-command", "the suppression has no reason"),
        ("ignore destructive-command --", "the suppression has no reason"),
        ("ignore destructive-command -- ", "the suppression has no reason"),
        ("ignore -- reason", "the suppression names no rule"),
        ("ignore no-such-rule -- reason", "'no-such-rule', which is not a rule"),
        ("ignor destructive-command -- reason", "the suppression names no rule"),
        ("ignore invalid-suppression -- reason", "cannot be suppressed"),
    ],
)
def test_a_suppression_without_effect_is_a_finding(found_in: Found, directive: str, fault: str) -> None:
    found = found_in(f"<!-- {MARK}: {directive} -->\n{BAD}\n")
    assert states(found) == [("invalid-suppression", None), ("destructive-command", None)]
    assert fault in found[0].message


def test_words_outside_of_a_comment_are_not_a_suppression(found_in: Found) -> None:
    text = f"Write {MARK}: ignore destructive-command -- reason\n{BAD}\n"
    assert states(found_in(text)) == [("destructive-command", None)]


LEVELS = {"note", "warning", "error"}


def run_of(found: tuple[Finding, ...], prefix: str = "skills/pdf") -> dict[str, Any]:
    log = sarif_log([(prefix, each) for each in found], "1.2.3")
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
