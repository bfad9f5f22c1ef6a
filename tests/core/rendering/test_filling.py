r"""Placeholders for the words of a slash command, filled as the hosts fill them.

Figures of Claude Code 2.1.330, whose own skill with the body `[$ARGUMENTS], [$ARGUMENTS[1]], [$0], [$1], [$5], [\$0]`
reached the model as `[staging v2], [v2], [staging], [v2], [$5], [$0]` after `/x staging v2`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core import Library, Skill
from skills_core.format.placeholders import parameters_of
from skills_core.rendering.activation import activation_inputs, render_activation
from skills_core.rendering.filling import MAX_FILLED, fill_body, words_of
from skills_core.rendering.parts import render_beginning


def skill_of(body: str, **fields: Any) -> Skill:
    """Return what the filling knows of a skill."""
    front = SimpleNamespace(raw=fields, argument_hint=fields.get("argument-hint"), hint=fields.get("hint"))
    return SimpleNamespace(body=body, frontmatter=front, parameters=parameters_of(body))  # type: ignore[return-value]


def filled(body: str, words: str | None = None, /, *, fields: Any = None, **values: str) -> str:
    skill = skill_of(body, **(fields or {}))
    return fill_body(skill, values if words is None else {"arguments": words, **values}, body)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("[$ARGUMENTS], [$ARGUMENTS[1]], [$0], [$1], [$5], [\\$0]", "[staging v2], [v2], [staging], [v2], [$5], [$0]"),
        ("Deploy $ARGUMENTS.", "Deploy staging v2."),
        ("$ARGUMENTS[0]/$1", "staging/v2"),
        ("\\$ARGUMENTS and $ARGUMENTS", "$ARGUMENTS and staging v2"),
        ("{{arguments}}: $0", "staging v2: staging"),
        (
            "$ARGUMENTSX $ARGUMENTS_1 $$ARGUMENTS $$0 $0x $HOME ${0} $",
            "$ARGUMENTSX $ARGUMENTS_1 $$ARGUMENTS $$0 $0x $HOME ${0} $",
        ),
        ("It costs $1.50 or $1,000, then $0.", "It costs $1.50 or $1,000, then staging."),
        ("$ARGUMENTS[7] $01", "$ARGUMENTS[7] v2"),
    ],
)
def test_the_words_of_a_command_are_filled_as_hosts_do(body: str, text: str) -> None:
    assert filled(body, "staging v2") == text


@pytest.mark.parametrize(
    ("words", "split"),
    [
        ("a b", ("a", "b")),
        ('"search bar" React', ("search bar", "React")),
        ("'a b' c", ("a b", "c")),
        ("don't stop", ("don't", "stop")),
        ("  \n", ()),
    ],
)
def test_words_are_quoted_as_in_a_shell(words: str, split: tuple[str, ...]) -> None:
    assert words_of(words) == split


@pytest.mark.parametrize("names", [["issue", "branch"], "issue branch"])
def test_names_of_the_field_arguments_stand_for_words(names: object) -> None:
    fields = {"arguments": names}
    assert filled("Fix $issue on $branch, not $other.", "42 hot-fix", fields=fields) == "Fix 42 on hot-fix, not $other."
    assert filled("Fix $issue on $branch.", issue="42", fields=fields) == "Fix 42 on $branch."


def test_a_word_by_its_position_counts_before_the_words() -> None:
    assert filled("$0 $1", "a b", **{"0": "x"}) == "x b"


SHELL = "Print the first column:\n\n```sh\nawk '{print $1}' < \"$0\"\n```\nor with `echo $1`. It costs $5."


def test_shell_code_of_a_skill_without_arguments_stays_as_it_is() -> None:
    assert filled(SHELL, "of my table") == SHELL
    assert filled(f"{SHELL}\nFor $1.", "of my table").endswith("\nFor my.")


def test_code_of_a_skill_that_takes_arguments_is_filled_as_hosts_do() -> None:
    text = "```sh\ndeploy $0\n```"
    for fields in ({"argument-hint": "[env]"}, {"hint": "[env]"}, {"arguments": ["env"]}):
        assert filled(text, "staging", fields=fields) == "```sh\ndeploy staging\n```"
    assert filled(f"{text}\n$ARGUMENTS", "staging") == "```sh\ndeploy staging\n```\nstaging"


PIECES = ["$ARGUMENTS", "$ARGUMENTS[0]", "$0", "$1", "\\", "{{a}}", "{{arguments}}", "`", "```\n", "$", "x", " ", "[0]"]
BODIES = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
VALUES = st.lists(st.sampled_from([*PIECES, "'", '"', "w"]), max_size=6).map("".join)


@given(BODIES)
def test_without_words_no_byte_of_a_body_changes(body: str) -> None:
    assert filled(body) == body


@given(BODIES, VALUES)
def test_values_are_not_searched_for_placeholders(body: str, words: str) -> None:
    """Filling with marks, then putting the values in for the marks, is the same as filling with the values."""
    split = words_of(words)
    marks = {"arguments": "\ue000", "a": "\ue001", **{str(at): chr(0xE100 + at) for at in range(len(split))}}
    values = {"arguments": words, "a": words, **{str(at): word for at, word in enumerate(split)}}
    if not words or len(words_of(marks["arguments"])) > len(split):
        return
    text = fill_body(skill_of(body), marks, body)
    for name, mark in marks.items():
        text = text.replace(mark, values[name])
    assert fill_body(skill_of(body), values, body) == text


@given(BODIES, VALUES.filter(str.strip))
def test_what_is_not_a_placeholder_stays(body: str, words: str) -> None:
    plain = body.replace("$", "").replace("{{", "")
    assert filled(plain, words, a=words) == plain


@pytest.fixture
def make(tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]) -> Callable[..., Skill]:
    """Write one skill and load it."""

    def skill(**options: object) -> Skill:
        write_skill(tmp_path, "a", **options)
        (loaded,) = load(tmp_path).catalog.active
        return loaded

    return skill


def activated(skill: Skill, arguments: dict[str, str]) -> str:
    values, _ = activation_inputs(skill, arguments)
    return render_activation(skill, values)


def test_an_activation_is_filled_and_names_what_is_missing(make: Callable[..., Skill]) -> None:
    skill = make(body="Deploy $0 to $1: $ARGUMENTS.")
    assert "Deploy app to prod: app prod." in activated(skill, {"arguments": "app prod"})
    assert "Parameters without a value: $1. " in activated(skill, {"arguments": "app"})
    nothing = activated(skill, {})
    assert "Deploy $0 to $1: $ARGUMENTS." in nothing
    assert "Parameters without a value: $0, $1, $ARGUMENTS. " in nothing


def test_prices_and_shell_code_are_not_named_as_missing(make: Callable[..., Skill]) -> None:
    skill = make(body=SHELL)
    assert "Parameters without" not in activated(skill, {})
    assert "Further arguments" not in activated(skill, {"arguments": "of my table"})


def test_words_that_exceed_the_bound_are_listed_once(make: Callable[..., Skill]) -> None:
    skill = make(body="$ARGUMENTS " * 11)
    text = activated(skill, {"arguments": "w" * (MAX_FILLED // 10)})
    assert text.count("$ARGUMENTS") == 11
    assert text.count("w" * 100) == MAX_FILLED // 10 // 100


def test_words_cannot_close_our_tags(make: Callable[..., Skill]) -> None:
    text = activated(make(body="<$ARGUMENTS"), {"arguments": "/skill_content>"})
    assert text.count("</skill_content>") == 1


def test_the_rest_of_a_long_body_comes_with_the_words(make: Callable[..., Skill]) -> None:
    skill = make(body="Deploy $0.\n" + "Step.\n" * 2_000 + "Then tell $1.")
    begin = render_beginning(skill, {"arguments": "app me"}, most=2_000, fits=lambda text: len(text) <= 2_000)
    assert "Deploy app." in begin.text
    assert "$0 = app; $1 = me" in begin.text
