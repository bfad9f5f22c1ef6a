from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from skills_core.run.secrets import SHORTEST, Secrets

VALUES = st.dictionaries(
    st.text("ABC_", min_size=1, max_size=8), st.text("abcxyz0123.*+", min_size=SHORTEST, max_size=20), max_size=5
)


@given(VALUES, st.lists(st.text("abc .", max_size=5), max_size=6))
def test_no_secret_value_is_left_in_a_text(values: dict[str, str], around: list[str]) -> None:
    text = "|".join(piece for pair in zip(values.values(), around, strict=False) for piece in pair)
    hidden = Secrets(values).hidden(text)
    for value in values.values():
        assert value not in hidden


@given(st.text())
def test_where_nothing_is_secret_nothing_changes(text: str) -> None:
    assert Secrets({}).hidden(text) == text


def test_keys_and_values_of_objects_and_lists_are_looked_through() -> None:
    secrets = Secrets({"TOKEN": "s3cr3t-value", "SHORT": "ab"})
    told = secrets.hidden_in({"s3cr3t-value": ["x s3cr3t-value", {"a": "ab", "n": 1, "t": True, "z": None}]})
    assert told == {"[secret TOKEN]": ["x [secret TOKEN]", {"a": "ab", "n": 1, "t": True, "z": None}]}
    assert "s3cr3t" not in json.dumps(told)


def test_of_two_secrets_of_which_one_begins_the_other_the_longer_is_hidden_whole() -> None:
    secrets = Secrets({"A": "abcdef", "B": "abcdefghi"})
    assert secrets.hidden("abcdefghi abcdef") == "[secret B] [secret A]"
