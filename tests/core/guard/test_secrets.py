from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core.guard.tool import MIN_SECRET, Secrets

VALUES = st.dictionaries(
    st.text("ABC_", min_size=1, max_size=8), st.text("abcxyz0123.*+", min_size=MIN_SECRET, max_size=20), max_size=5
)


@given(VALUES, st.lists(st.text("abc .", max_size=5), max_size=6))
def test_no_secret_value_is_left_in_a_text(values: dict[str, str], around: list[str]) -> None:
    text = "|".join(piece for pair in zip(values.values(), around, strict=False) for piece in pair)
    redact = Secrets(values).redact(text)
    for value in values.values():
        assert value not in redact


@given(st.text())
def test_where_nothing_is_secret_nothing_changes(text: str) -> None:
    assert Secrets({}).redact(text) == text


def test_strings_in_objects_and_lists_are_redacted() -> None:
    secrets = Secrets({"TOKEN": "s3cr3t-value", "SHORT": "ab"})
    told = secrets.redact_json({"key": ["x s3cr3t-value", {"a": "ab", "n": 1, "t": True, "z": None}]})
    assert told == {"key": ["x [secret TOKEN]", {"a": "ab", "n": 1, "t": True, "z": None}]}


def test_the_keys_of_objects_stay_as_they_are() -> None:
    assert Secrets({"STATE": "status"}).redact_json({"status": "done"}) == {"status": "done"}


@pytest.mark.parametrize("value", ['pa"ss\\word-12', "first line of it\nsecond line of it\n", "é-geheim\u2028"])
def test_a_secret_is_hidden_as_json_writes_it_and_line_by_line(value: str) -> None:
    secrets = Secrets({"TOKEN": value})
    for text in (value, json.dumps({"x": value}), json.dumps({"x": value}, ensure_ascii=False), *value.splitlines()):
        told = secrets.redact(f"<{text}>")
        assert "[secret TOKEN]" in told
        assert not any(line in told for line in value.splitlines())


def test_placeholders_are_recognized() -> None:
    secrets = Secrets({"TOKEN": "s3cr3t-value"})
    assert secrets.has_placeholder({"text": ["mode: [secret TOKEN]"]})
    assert not secrets.has_placeholder({"text": "[secret OTHER] [secret]"})


def test_of_two_secrets_with_a_common_prefix_the_longer_is_redacted_whole() -> None:
    secrets = Secrets({"A": "abcdef", "B": "abcdefghi"})
    assert secrets.redact("abcdefghi abcdef") == "[secret B] [secret A]"
