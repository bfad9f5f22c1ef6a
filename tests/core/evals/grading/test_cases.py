"""Reading `evals/evals.json`: both dialects, and every fault with its place and what is expected."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core.evals.grading.cases import Assertion, EvalCase, InvalidEvalSetError, read_eval_cases

SEED = {
    "skill_name": "csv-analyzer",
    "evals": [
        {
            "id": 1,
            "prompt": "I have a CSV of monthly sales data in data/sales_2025.csv.",
            "expected_output": "A bar chart image showing the top 3 months by revenue.",
            "files": ["evals/files/sales_2025.csv"],
            "assertions": ["The output includes a bar chart image file", "The chart shows exactly 3 months"],
        },
        {"id": 2, "prompt": "clean customers.csv", "files": ["evals/files/customers.csv"]},
    ],
}


def read(value: Any) -> tuple[EvalCase, ...]:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return read_eval_cases(raw, "evals/evals.json")


def one(**fields: Any) -> dict[str, Any]:
    return {"skill_name": "a", "evals": [{"id": 1, "prompt": "do it", **fields}]}


def test_the_example_of_the_guide_is_read() -> None:
    first, second = read(SEED)
    assert (first.id, first.folder, first.files) == (1, "eval-1", ("evals/files/sales_2025.csv",))
    assert first.assertions[1] == Assertion("The chart shows exactly 3 months")
    assert (second.assertions, second.expected_output) == ((), "")


def test_expectations_are_assertions_and_those_in_both_lists_count_once() -> None:
    assert read(one(expectations=["x is y"]))[0].assertions == (Assertion("x is y"),)
    both = read(one(assertions=["a", "b"], expectations=["b", "c"]))[0].assertions
    assert [each.text for each in both] == ["a", "b", "c"]


def test_an_assertion_with_a_check_has_a_command() -> None:
    found = read(one(assertions=[{"text": "valid JSON", "check": "jq . out.json"}, {"text": "short"}]))
    assert found[0].assertions == (Assertion("valid JSON", "jq . out.json"), Assertion("short", None))


@pytest.mark.parametrize(
    ("named", "folders"),
    [
        ([{"id": "top-months"}], ["eval-top-months"]),
        ([{"id": 7, "name": "Top 3 months, chart!"}], ["eval-top-3-months-chart"]),
        ([{"id": 1, "name": "A b"}, {"id": 2, "name": "a-b"}, {"id": 3, "name": "a b 2"}], ["a-b", "a-b-2", "a-b-2-2"]),
        ([{"id": "../../etc"}, {"id": "日本"}, {"id": "eval-x"}], ["etc", "case", "x"]),
        ([{"id": 1, "name": "n" * 300}], ["n" * 60]),
    ],
)
def test_folders_are_safe_unique_and_named_by_name_or_id(named: list[dict[str, Any]], folders: list[str]) -> None:
    found = read({"evals": [{"prompt": "p", **each} for each in named]})
    assert [case.folder for case in found] == [f"eval-{name.removeprefix('eval-')}" for name in folders]


@pytest.mark.parametrize(
    ("value", "place", "says"),
    [
        (b"{", "line 1, column 2", "not JSON"),
        (b"\xff", "", "not UTF-8"),
        (b"[" * 200_000, "", "nested too deep"),
        ([], "", "expected an object"),
        ({"eval": []}, "evals", "Did you mean 'eval'?"),
        ({"evals": []}, "evals", "from 1 to 1000 evals, found 0"),
        ({"evals": ["x"]}, "evals[0]", "found text"),
        ({"evals": [{"prompt": "x"}]}, "evals[0].id", "found nothing"),
        (one(id=True), "evals[0].id", "found true or false"),
        (one(prompt=" "), "evals[0].prompt", "the text that a user would type"),
        ({"evals": [{"id": 1, "promt": "x"}]}, "evals[0].prompt", "Did you mean 'promt'?"),
        (one(prompt="a\0b"), "evals[0].prompt", "without NUL"),
        (one(prompt="\ud800"), "evals[0].prompt", "Unicode"),
        (one(files="x.csv"), "evals[0].files", "put it in [ ]"),
        (one(files=["a", 3]), "evals[0].files[1]", "relative to the skill's folder"),
        (one(files=["../x"]), "evals[0].files[0]", "leaves the skill's folder"),
        (one(files=["/etc/passwd"]), "evals[0].files[0]", "copy the file to evals/files"),
        (one(files=["C:/x"]), "evals[0].files[0]", "leaves"),
        (one(files=["a\\..\\b"]), "evals[0].files[0]", "leaves"),
        (one(files=["./."]), "evals[0].files[0]", "leaves"),
        (one(assertions={"text": "x"}), "evals[0].assertions", "expected a list"),
        (one(assertions=["a", 3]), "evals[0].assertions[1]", "found a number"),
        (one(assertions=[""]), "evals[0].assertions[0]", "expected a text, or an object"),
        (one(assertions=[{"check": "true"}]), "evals[0].assertions[0].text", "found nothing"),
        (one(assertions=[{"text": "x", "check": ""}]), "evals[0].assertions[0].check", "expected a command"),
        (one(assertions=[{"text": "x", "check": ["true"]}]), "evals[0].assertions[0].check", "found a list"),
        (one(assertions=["a", "a"]), "evals[0].assertions[1]", "assertions[0] has the same text"),
    ],
)
def test_a_fault_is_reported_with_its_place_and_what_is_expected(value: Any, place: str, says: str) -> None:
    with pytest.raises(InvalidEvalSetError) as caught:
        read(value)
    assert caught.value.faults[0].startswith(f"{place}: " if place else "")
    assert says in str(caught.value)
    assert str(caught.value).startswith("evals/evals.json: ")


def test_ids_are_unique_whatever_their_type() -> None:
    with pytest.raises(InvalidEvalSetError, match=r"evals\[1\].id: evals\[0\] has the id '1' too") as caught:
        read({"evals": [{"id": 1, "prompt": "x"}, {"id": "1", "prompt": "y"}]})
    assert len(caught.value.faults) == 1


def test_all_faults_are_reported_at_once_in_the_order_of_the_file() -> None:
    with pytest.raises(InvalidEvalSetError) as caught:
        read({"evals": [{"id": 1, "prompt": 3}, {"prompt": "x", "files": [""]}]})
    places = [fault.partition(":")[0] for fault in caught.value.faults]
    assert places == [
        "evals[0].prompt",
        "evals[1].id",
        "evals[1].files[0]",
    ]
    with pytest.raises(InvalidEvalSetError, match="and 90 more faults"):
        read({"evals": [{"id": number} for number in range(100)]})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "name", "prompt", "files", "assertions", "text", "check"]), inner)
    ),
    max_leaves=20,
)


@given(st.binary(max_size=60) | JSON.map(lambda each: json.dumps({"evals": [each]}).encode()))
def test_any_bytes_are_evals_or_an_error_with_a_place(raw: bytes) -> None:
    try:
        found = read(raw)
    except InvalidEvalSetError as error:
        if not error.faults:
            raise
    else:
        assert len({case.slug for case in found}) == len(found) > 0
