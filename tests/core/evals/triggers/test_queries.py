"""Files of trigger queries: what is read, and what each error says."""

from __future__ import annotations

import json

import pytest

from skills_core.evals.triggers.queries import MAX_FILE, MAX_QUERIES, MAX_TEXT, Query, QueryFileError, read_queries

WHERE = "evals/eval_queries.json"


def read(value: object) -> tuple[Query, ...]:
    return read_queries(json.dumps(value).encode(), WHERE)


def refusal(raw: bytes, where: str = WHERE) -> str:
    with pytest.raises(QueryFileError) as caught:
        read_queries(raw, where)
    assert str(caught.value).startswith(f"{where}: ")
    return str(caught.value).removeprefix(f"{where}: ")


def test_the_list_of_the_guide_is_read() -> None:
    assert read([{"query": "fix my csv", "should_trigger": True}, {"query": "a poem", "should_trigger": False}]) == (
        Query("fix my csv", True, "1"),
        Query("a poem", False, "2"),
    )


def test_ids_splits_and_expected_skills_are_read_and_other_fields_are_ignored() -> None:
    full = {"query": "q", "should_trigger": False, "id": 7, "split": "train", "expected_skill": "other", "note": 1}
    assert read([full, {**full, "query": "r", "id": "b", "split": None}]) == (
        Query("q", False, "7", "train", "other"),
        Query("r", False, "b", None, "other"),
    )


def test_the_list_may_be_that_of_an_object() -> None:
    assert read({"skill_name": "s", "queries": [{"query": "q", "should_trigger": True}]}) == (Query("q", True, "1"),)


def test_a_byte_order_mark_is_ignored() -> None:
    raw = "\ufeff" + json.dumps([{"query": "é", "should_trigger": True}], ensure_ascii=False)
    assert read_queries(raw.encode(), WHERE)[0].query == "é"


WAZA = """
skill: csv
should_trigger_prompts:
  - prompt: Summarize this CSV
    reason: it is about CSV
    confidence: high
should_not_trigger_prompts:
  - prompt: Write a poem
"""


def test_wazas_lists_are_read_from_yaml_and_json() -> None:
    expected = (Query("Summarize this CSV", True, "1"), Query("Write a poem", False, "2"))
    assert read_queries(WAZA.encode(), "trigger_tests.yaml") == expected
    lists = {
        "should_trigger_prompts": ["Summarize this CSV"],
        "should_not_trigger_prompts": [{"prompt": "Write a poem"}],
    }
    assert read(lists) == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "expected a list, as in"),
        ({"evals": []}, "not an object with 'evals'"),
        ("text", "not 'text'"),
        ([], "there are no queries"),
        (["q"], "[0]: expected an object with query and should_trigger, not 'q'"),
        ([{"should_trigger": True}], "[0]: query is missing"),
        ([{"query": "q"}], "[0]: should_trigger is missing"),
        ([{"query": "q", "should_triger": True}], "did you mean 'should_triger'?"),
        ([{"query": "q", "should_trigger": 1}], "[0].should_trigger: expected true or false, not the number 1"),
        ([{"query": "q", "should_trigger": "true"}], "[0].should_trigger: expected true or false, not 'true'"),
        ([{"query": " ", "should_trigger": True}], "[0].query: expected what a user would say, not an empty text"),
        ([{"query": ["q"], "should_trigger": True}], "[0].query: expected what a user would say, not a list"),
        ([{"query": "\ud800", "should_trigger": True}], "[0].query: character 1 is a lone surrogate"),
        ([{"query": "q", "should_trigger": True, "id": True}], "[0].id: expected a name, not true"),
        ([{"query": "q", "should_trigger": True, "split": 1}], "[0].split: expected a name, not the number 1"),
        ([{"query": "q", "should_trigger": True, "expected_skill": {}}], "[0].expected_skill: expected a name, not an"),
        ({"queries": {"query": "q"}}, "queries: expected a list"),
        ({"queries": [{"query": "q"}]}, "queries[0]: should_trigger is missing"),
        ({"should_trigger_prompts": [{"text": "q"}]}, "should_trigger_prompts[0]: prompt is missing"),
        ({"should_trigger_prompts": "q"}, "should_trigger_prompts: expected a list"),
        ([{"query": "x" * (MAX_TEXT + 1), "should_trigger": True}], "[0].query: the text has 10,001 characters"),
        ([{"query": "q", "should_trigger": True}] * (MAX_QUERIES + 1), "there are 1,001 queries"),
    ],
)
def test_an_error_names_the_place_and_what_was_expected(value: object, message: str) -> None:
    assert message in refusal(json.dumps(value).encode())


def test_a_query_counts_once() -> None:
    twice = [{"query": "Fix  it", "should_trigger": True}, {"query": "fix it ", "should_trigger": True}]
    assert refusal(json.dumps(twice).encode()) == "query 2: this is query 1 again; remove one of them"
    twice[1]["should_trigger"] = False
    assert "with another should_trigger" in refusal(json.dumps(twice).encode())
    ids = [{"query": "a", "should_trigger": True, "id": 2}, {"query": "b", "should_trigger": True}]
    assert "two queries have this id" in refusal(json.dumps(ids).encode())


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"[{", "line 1, column 3: this is not JSON"),
        (b"\xff", "byte 0 is not UTF-8"),
        (b"[" * 200_000, "nested too deep"),
        (b'[{"query": "a", "query": "b", "should_trigger": true}]', "the key 'query' twice"),
        (b"[NaN]", "NaN is no number"),
        (b"[" + b"9" * 10_000 + b"]", "this is not JSON that all programs read alike"),
        (b" " * (MAX_FILE + 1), "the file has 1,000,001 bytes"),
    ],
)
def test_hostile_bytes_are_refused(raw: bytes, message: str) -> None:
    assert message in refusal(raw)


def test_hostile_yaml_is_refused() -> None:
    assert "this is not YAML" in refusal(b"a: [", "t.yaml")
    assert "should_trigger_prompts" in refusal(b"should_trigger_prompts: []\nshould_trigger_prompts: []\n", "t.yaml")
    bomb = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
        b"%c: &%c [%s]\n" % (98 + n, 98 + n, b",".join([b"*%c" % (97 + n)] * 9)) for n in range(8)
    )
    assert "this is not YAML" in refusal(bomb, "t.yml")
