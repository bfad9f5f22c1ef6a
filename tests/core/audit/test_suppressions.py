from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core.audit.finding import Finding

    Found = Callable[..., tuple[Finding, ...]]

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
        ("ignore no-such-rule -- reason", "'no-such-rule', which is no rule"),
        ("ignor destructive-command -- reason", "the suppression names no rule"),
        ("ignore invalid-suppression -- reason", "cannot be suppressed"),
    ],
)
def test_a_suppression_without_effect_is_a_finding(found_in: Found, directive: str, fault: str) -> None:
    found = found_in(f"<!-- {MARK}: {directive} -->\n{BAD}\n")
    assert states(found) == [("invalid-suppression", None), ("destructive-command", None)]
    assert fault in found[0].message


def test_words_that_are_no_comment_are_no_suppression(found_in: Found) -> None:
    text = f"Write {MARK}: ignore destructive-command -- reason\n{BAD}\n"
    assert states(found_in(text)) == [("destructive-command", None)]
