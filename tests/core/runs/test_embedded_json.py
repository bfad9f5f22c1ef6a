"""A JSON object is found wherever it stands in a text, in bounded time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core.runs.structured_answers import visit_objects

PROSE = (
    st.text()
    | st.text(alphabet='{}[]":, \n\\ab1')
    | st.lists(st.sampled_from(["{", "}", '{"a": ', "```json", "x"])).map("".join)
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def found(text: str) -> list[dict[str, Any]]:
    objects: list[dict[str, Any]] = []

    def fits(value: dict[str, Any]) -> bool:
        objects.append(value)
        return "wanted" in value

    visit_objects(text, fits)
    return objects


@given(PROSE, VALUES, PROSE, st.sampled_from([None, 1]))
def test_an_object_is_found_whatever_prose_stands_around_it(
    before: str, value: Any, after: str, indent: int | None
) -> None:
    # An odd quote before it would make it part of a string, in which it is found all the same.
    wanted = {"wanted": value}
    assert wanted in found(f"{before}{json.dumps(wanted, indent=indent)}{after}")


def test_objects_inside_a_fitting_object_are_not_visited() -> None:
    assert found('{"wanted": {"wanted": 1}} {"other": {"wanted": 2}}') == [
        {"wanted": {"wanted": 1}},
        {"other": {"wanted": 2}},
        {"wanted": 2},
    ]


@pytest.mark.parametrize("text", ["{NaN}", '{"a": NaN}', '{"a": Infinity}', "{" * 100_000, '{"a":' * 100_000, "[1]"])
def test_text_without_json_objects_costs_bounded_time(text: str) -> None:
    assert found(text) == []
