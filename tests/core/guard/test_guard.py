"""The decisions of the guard on tool calls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from skills_core import Library
from skills_core.guard.guard import MAX_SEPARATE, Guard, GuardRule, Verdict, argument_texts, json_text, rules_of


def guard(*rules: tuple[str, Verdict]) -> Guard:
    return Guard([GuardRule(pattern, verdict) for pattern, verdict in rules])


def test_the_text_is_the_tools_name_a_space_and_the_arguments_as_javascript_writes_them() -> None:
    text = r'^run_command {"10":"é","argv":\["a","b"\],"n":1e\+21,"ok":true}$'
    arguments: dict[str, Any] = {"argv": ["a", "b"], "n": 1e21, "ok": True, "10": "é"}
    assert guard((text, Verdict.DENY)).decide("run_command", arguments).verdict is Verdict.DENY
    assert guard((text, Verdict.DENY)).decide("run_commands", arguments).verdict is Verdict.ALLOW


@pytest.mark.parametrize("order", [1, -1])
def test_a_denial_wins_over_a_question(order: int) -> None:
    rules = [("rm", Verdict.CONFIRM), ("rf", Verdict.DENY)][::order]
    decision = guard(*rules).decide("sh", {"c": "rm -rf /"})
    assert decision.verdict is Verdict.DENY
    assert decision.rule is not None
    assert decision.rule.pattern == "rf"
    assert "is denied: it matches `rf`, which the configuration calls dangerous" in decision.reason


def test_a_call_without_a_matching_pattern_is_allowed_without_a_reason() -> None:
    decision = guard(("rm", Verdict.DENY)).decide("sh", {"c": "ls"})
    assert (decision.verdict, decision.reason, decision.rule) == (Verdict.ALLOW, "", None)
    assert Guard([]).decide("sh", {}).verdict is Verdict.ALLOW


def test_arguments_that_nest_too_deeply_are_denied() -> None:
    deep: object = "x"
    for _ in range(1000):
        deep = [deep]
    decision = guard(("never", Verdict.CONFIRM)).decide("sh", {"c": deep})  # type: ignore[dict-item]
    assert decision.verdict is Verdict.DENY
    assert "deep" in decision.reason


def test_a_lone_surrogate_hides_nothing() -> None:
    assert guard(("rm -rf", Verdict.DENY)).decide("\ud800", {"\udc00": "rm -rf"}).verdict is Verdict.DENY


def test_a_skills_rule_names_the_skill(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "a", fields="danger_patterns: [one, two]\nconfirm_patterns: [three]")
    write_skill(tmp_path, "b")
    rules = rules_of(load(tmp_path).catalog.active)
    assert [(rule.pattern, rule.verdict, rule.origin) for rule in rules] == [
        ("one", Verdict.DENY, "the skill a"),
        ("two", Verdict.DENY, "the skill a"),
        ("three", Verdict.CONFIRM, "the skill a"),
    ]
    reason = Guard(rules).decide("x", {"a": "three"}).reason
    assert reason.startswith("The call of x needs the user's consent: it matches `three`")


def denied(pattern: str, tool: str, arguments: dict[str, Any]) -> bool:
    return guard((pattern, Verdict.DENY)).decide(tool, arguments).verdict is Verdict.DENY


def test_a_rule_of_a_skill_that_the_caller_may_not_see_decides_without_being_named(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "zebra", fields="danger_patterns: [zebra-danger]\nconfirm_patterns: [zebra-confirm]")
    write_skill(tmp_path, "plain", fields="danger_patterns: [plain]")
    whole = Guard([*rules_of(load(tmp_path).catalog.active), GuardRule("own", Verdict.DENY)])
    seen = whole.disclosing(lambda skill: None if skill.name == "zebra" else skill)
    for command, verdict in (("zebra-danger", Verdict.DENY), ("zebra-confirm", Verdict.CONFIRM)):
        decision = seen.decide("sh", {"c": command})
        assert (decision.verdict, decision.discloses_rule) == (verdict, False)
        assert "zebra" not in decision.reason
        # The log of the server names it all the same.
        assert decision.rule is not None
        assert "zebra" in whole.decide("sh", {"c": command}).reason
    for command in ("plain", "own"):
        assert seen.decide("sh", {"c": command}) == whole.decide("sh", {"c": command})
    assert seen.decide("sh", {"c": "ls"}).verdict is Verdict.ALLOW


@pytest.mark.parametrize("blank", ["\t", "\n", " ", "  ", "\r\n", "\f", "\t \n"])
@pytest.mark.parametrize("pattern", [r"rm\s+-[a-z]*r", r"^Bash .*rm\s+-r", "rm[[:space:]]+-rf /$", r"(?m)^rm\s"])
def test_a_pattern_with_a_blank_class_matches_any_blank(pattern: str, blank: str) -> None:
    for command in (f"rm{blank}-rf /", f"true\nrm{blank}-rf /"):
        for arguments in ({"command": command}, {"argv": ["sh", "-c", command]}, {"deep": [{"er": {"x": [command]}}]}):
            if not (pattern.startswith("(?m)") and command.startswith("rm")):
                assert denied(pattern, "Bash", arguments)
            assert not denied(f"^Other {pattern.removeprefix('^Bash ')}", "Bash", arguments)


@pytest.mark.parametrize(
    ("pattern", "arguments"),
    [
        ('psql -c "DROP', {"command": 'psql -c "DROP TABLE users"'}),
        (r"C:\\Windows", {"path": r"C:\Windows\x"}),
        ("^Bash rm ", {"command": "rm x"}),
        ("/etc/passwd$", {"path": "/etc/passwd"}),
        (r"\x1b\[", {"text": "\x1b[2J"}),
        ("^Bash secret$", {"secret": 1}),
    ],
)
def test_decoded_strings_of_the_arguments_are_matched(pattern: str, arguments: dict[str, Any]) -> None:
    assert denied(pattern, "Bash", arguments)
    assert not denied(pattern, "Bash", {"other": "x"})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def strings_in(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [*value, *(each for inner in value.values() for each in strings_in(inner))]
    return [each for inner in value for each in strings_in(inner)] if isinstance(value, list) else []


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=3))
def test_each_part_of_the_text_and_each_string_can_be_matched(arguments: dict[str, Any]) -> None:
    whole = f"^{_quoted(f'x {json_text(arguments)}')}$"
    assume(len(whole) <= 2000)  # no longer pattern is taken
    assert denied(whole, "x", arguments)
    for string in strings_in(arguments):
        assert denied(f"^x {_quoted(string)}$", "x", arguments)


def _quoted(text: str) -> str:
    """Quote a text for RE2, which knows no escapes for letters of other scripts."""
    return "".join(f"\\x{{{ord(char):x}}}" for char in text)


def test_strings_beyond_the_first_thousand_are_matched_together() -> None:
    many: dict[str, Any] = {"lines": [f"line {number}" for number in range(200_000)]}
    assert denied(r"line\s199999", "x", many)
    assert len(argument_texts("x", many)) == MAX_SEPARATE + 1
