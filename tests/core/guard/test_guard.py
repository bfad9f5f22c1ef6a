"""What decides on a call of a tool."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skills_core import Library
from skills_core.guard import Guard, Rule, Verdict, rules_of


def guard(*rules: tuple[str, Verdict]) -> Guard:
    return Guard([Rule(pattern, verdict) for pattern, verdict in rules])


def test_the_text_is_the_tools_name_a_space_and_the_arguments_as_javascript_writes_them() -> None:
    text = r'^run_command {"10":"é","argv":\["a","b"\],"n":1e\+21,"ok":true}$'
    arguments: dict[str, Any] = {"argv": ["a", "b"], "n": 1e21, "ok": True, "10": "é"}
    assert guard((text, Verdict.DENY)).decide("run_command", arguments).verdict is Verdict.DENY
    assert guard((text, Verdict.DENY)).decide("run_commands", arguments).verdict is Verdict.ALLOW


@pytest.mark.parametrize("order", [1, -1])
def test_who_denies_wins_over_who_asks(order: int) -> None:
    rules = [("rm", Verdict.CONFIRM), ("rf", Verdict.DENY)][::order]
    decision = guard(*rules).decide("sh", {"c": "rm -rf /"})
    assert decision.verdict is Verdict.DENY
    assert decision.rule is not None
    assert decision.rule.pattern == "rf"
    assert "is denied: it matches `rf`, which the configuration calls dangerous" in decision.reason


def test_what_no_pattern_matches_is_allowed_without_a_reason() -> None:
    decision = guard(("rm", Verdict.DENY)).decide("sh", {"c": "ls"})
    assert (decision.verdict, decision.reason, decision.rule) == (Verdict.ALLOW, "", None)
    assert Guard([]).decide("sh", {}).verdict is Verdict.ALLOW


def test_arguments_that_nest_too_deep_to_be_looked_at_are_denied() -> None:
    deep: object = "x"
    for _ in range(1000):
        deep = [deep]
    decision = guard(("never", Verdict.CONFIRM)).decide("sh", {"c": deep})  # type: ignore[dict-item]
    assert decision.verdict is Verdict.DENY
    assert "deep" in decision.reason


def test_half_of_a_character_hides_nothing() -> None:
    assert guard(("rm -rf", Verdict.DENY)).decide("\ud800", {"\udc00": "rm -rf"}).verdict is Verdict.DENY


def test_rules_of_skills_name_whose_they_are(
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
