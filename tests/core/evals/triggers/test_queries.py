"""Files of trigger queries: what is read, what each error says, and the parts of a set.

How the search ranks each sample skill for its trigger queries: exact figures, which change when the ranking does.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache, partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core import Catalog, Skill, SkillSearch, load_skills
from skills_core.evals.triggers.parts import MissingQueries, Part, SplitError, missing_queries, split_queries
from skills_core.evals.triggers.queries import (
    MAX_FILE,
    MAX_QUERIES,
    MAX_TEXT,
    QUERY_FILES,
    Query,
    QueryFileError,
    queries_of_skill,
    read_queries,
)
from skills_core.evals.triggers.ranks import rank_queries, summarize
from skills_core.skills.withheld_files import files_for_models
from skills_core.testing import mock_environment
from tests.core.evals.sample_outputs import SAMPLES

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
    assert read_queries(raw.encode(), WHERE)[0].text == "é"


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


def test_fields_that_are_not_read_are_told() -> None:
    told: list[str] = []
    read_queries(WAZA.encode(), "trigger_tests.yaml", told.append)
    assert told == ["trigger_tests.yaml: fields of queries that are not read: confidence (1)"]
    entry = {"query": "a", "prompt": "b", "should_trigger": True, "_mine": 1, "why": "c"}
    told.clear()
    read_queries(json.dumps({"queries": [entry], "min_rate": 0.9, "skill": "csv"}).encode(), WHERE, told.append)
    assert told == [
        f"{WHERE}: not read in the file: min_rate (1)",
        f"{WHERE}: fields of queries that are not read: prompt (1)",
    ]
    told.clear()
    read_queries(json.dumps([{"query": "a", "should_trigger": True, "id": 1}]).encode(), WHERE, told.append)
    assert told == []


ENTRY_NAMES = ("query", "prompt", "input", "text")
LIST_NAMES = ("queries", "items", "cases", "evals", "tests")
KIND_NAMES = {True: ("should_trigger", "positive"), False: ("should_not_trigger", "negative", "near_miss")}
LABELLED = st.lists(
    st.tuples(st.text("abc", min_size=1, max_size=8), st.booleans()), min_size=1, unique_by=lambda q: q[0]
)


@given(LABELLED, st.data())
def test_a_set_means_the_same_in_each_shape(labelled: list[tuple[str, bool]], data: st.DataObject) -> None:
    def entry(said: str, *, should: bool | None) -> object:
        fields: dict[str, object] = {data.draw(st.sampled_from(ENTRY_NAMES)): said, "why": "a remark"}
        return fields if should is None else {**fields, "should_trigger": should}

    listed = [entry(said, should=should) for said, should in labelled]
    by_kind: dict[str, list[object]] = {}
    for said, should in labelled:
        name = data.draw(st.sampled_from(KIND_NAMES[should]))
        by_kind.setdefault(name, []).append(data.draw(st.sampled_from([said, entry(said, should=None)])))
    shapes = [listed, {"skill_name": "s", data.draw(st.sampled_from(LIST_NAMES)): listed}, {"about": "x", **by_kind}]
    for shape in shapes:
        assert {(query.text, query.should_trigger) for query in read(shape)} == set(labelled)


def test_lists_that_are_numbered_on_their_own_have_ids_of_their_own() -> None:
    found = read({"should_trigger": [{"id": 1, "prompt": "a"}], "near_miss": [{"id": 1, "prompt": "b", "why": "no"}]})
    assert found == (Query("a", True, "1"), Query("b", False, "near_miss-1"))


def test_the_usual_name_of_a_field_counts_before_others() -> None:
    both = {"prompt": "p", "query": "q", "should_trigger": False, "preferred_skill": "other"}
    assert read([both]) == (Query("q", False, "1", expected_skill="other"),)


@pytest.mark.parametrize("name", ["expected", "kind", "label"])
@pytest.mark.parametrize(("word", "should"), [("trigger", True), ("Positive", True), ("no-trigger", False)])
def test_a_label_may_be_a_word(name: str, word: str, *, should: bool) -> None:
    assert read({"cases": [{"prompt": "q", name: word}]}) == (Query("q", should, "1"),)


@pytest.mark.parametrize("name", QUERY_FILES)
def test_each_usual_name_of_the_file_is_found(tmp_path: Path, name: str) -> None:
    (tmp_path / "evals").mkdir()
    (tmp_path / name).write_text(json.dumps([{"query": "q", "should_trigger": True}]))
    assert queries_of_skill(tmp_path) == (name, (Query("q", True, "1"),))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "expected a list, as in"),
        ({"notes": []}, "not an object with 'notes'"),
        ({"evals": []}, "there are no queries"),
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
        ({"should_trigger_prompts": [{"said": "q"}]}, "should_trigger_prompts[0]: query is missing"),
        ({"should_trigger": [{"query": "q", "should_trigger": False}]}, "[0].should_trigger: the list has queries of"),
        ({"should_trigger": True, "queries": []}, "should_trigger: expected a list"),
        ([{"prompt": "", "should_trigger": True}], "[0].prompt: expected what a user would say"),
        ([{"query": "q", "expected_trigger": "maybe"}], "[0].expected_trigger: expected true or false, not 'maybe'"),
        ([{"query": "q", "should_trigger": "other-skill"}], "[0].should_trigger: expected true or false, not 'other-"),
        ({"one-skill": {"should_trigger": ["q"]}}, "not an object with 'one-skill'"),
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
        (b"[NaN]", "NaN is not a number"),
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


def queries(positive: int, negative: int, **split: str) -> list[Query]:
    return [
        Query(f"query {number}", number < positive, str(number), split.get(f"q{number}"))
        for number in range(positive + negative)
    ]


@pytest.mark.parametrize(
    ("size", "sizes"), [(15, [3, 2, 10]), (20, [5, 3, 12]), (30, [7, 5, 18]), (14, [8, 6, 0]), (10, [6, 4, 0])]
)
def test_three_fifths_of_each_kind_are_sealed_at_least_ten_and_none_if_ten_cannot_be(
    size: int, sizes: list[int]
) -> None:
    parts = split_queries(queries(size, size), 0)
    for kind in (True, False):
        assert [sum(each.should_trigger is kind for each in parts[part]) for part in Part] == sizes


def test_no_kind_is_sealed_without_the_other() -> None:
    parts = split_queries(queries(30, 10), 0)
    assert parts[Part.TEST] == ()
    assert missing_queries(queries(30, 10)) == MissingQueries(0, 5)


@given(st.integers(2, 40), st.integers(2, 40), st.integers(0, 40))
def test_adding_the_missing_queries_and_no_fewer_seals_ten_of_each_kind(
    should: int, should_not: int, opened: int
) -> None:
    given_queries = queries(should, should_not)
    known = {query.text for query in given_queries[:opened]}
    missing = missing_queries(given_queries, known)

    def sealed(more: MissingQueries) -> tuple[Query, ...]:
        fresh = [
            *(Query(f"fresh {number}", True, f"+{number}") for number in range(more.should)),
            *(Query(f"fresh not {number}", False, f"-{number}") for number in range(more.should_not)),
        ]
        return split_queries([*given_queries, *fresh], 0, known)[Part.TEST]

    found = sealed(missing)
    assert all(sum(each.should_trigger is kind for each in found) >= 10 for kind in (True, False))
    assert not {each.text for each in found} & known
    for fewer in (missing._replace(should=missing.should - 1), missing._replace(should_not=missing.should_not - 1)):
        assert min(fewer) < 0 or sealed(fewer) == ()


def test_a_test_that_queries_name_counts_towards_the_ten() -> None:
    named = {f"q{number}": "test" for number in [*range(6), *range(20, 24)]}
    assert missing_queries(queries(20, 20, **named)) == MissingQueries(0, 0)
    small = queries(6, 6, q0="test", q6="test", q1="train", q2="validation", q7="train", q8="validation")
    assert missing_queries(small) == MissingQueries(9, 9)
    assert [each.id for each in split_queries(small, 0)[Part.TEST]] == ["0", "6"]


@pytest.mark.parametrize("second", ["validation", "test"])
def test_two_parts_lack_a_sealed_one(second: str) -> None:
    named = {f"q{number}": ("train" if number % 2 else second) for number in range(60)}
    assert missing_queries(queries(30, 30, **named)) == MissingQueries(10, 10)


@pytest.mark.parametrize("size", range(2, 32))
def test_every_query_is_in_one_part_and_no_part_lacks_a_kind(size: int) -> None:
    given = queries(size, size)
    parts = split_queries(given, 7)
    found = [each.id for part in parts.values() for each in part]
    assert sorted(found) == sorted(each.id for each in given)
    assert all({each.should_trigger for each in part} == {True, False} for part in parts.values() if part)


def test_the_split_depends_on_the_seed_and_not_on_the_order_of_the_file() -> None:
    given = queries(20, 20)
    first, again = split_queries(given, 1), split_queries(given[::-1], 1)
    assert all({*first[part]} == {*again[part]} for part in Part)
    assert any({*first[part]} != {*split_queries(given, 2)[part]} for part in Part)


def test_queries_that_name_their_part_are_in_it() -> None:
    given = queries(3, 3, q0="train", q1="val", q2="test", q3="Train", q4="validation", q5="test")
    parts = split_queries(given, 0)
    assert {part: [each.id for each in found] for part, found in parts.items()} == {
        Part.TRAIN: ["0", "3"],
        Part.VALIDATION: ["1", "4"],
        Part.TEST: ["2", "5"],
    }


@pytest.mark.parametrize("second", ["validation", "val", "test"])
def test_queries_that_all_name_one_of_two_parts_stay_in_two(second: str) -> None:
    given = queries(2, 2, q0="train", q1=second, q2="train", q3=second)
    parts = split_queries(given, 0, {"query 1"})
    assert {part: [each.id for each in found] for part, found in parts.items()} == {
        Part.TRAIN: ["0", "2"],
        Part.VALIDATION: ["1", "3"],
        Part.TEST: [],
    }


def test_each_of_two_parts_needs_both_kinds_of_queries_and_one_of_them_is_for_training() -> None:
    with pytest.raises(SplitError, match="the part validation has no query that should not trigger"):
        split_queries(queries(2, 2, q0="train", q1="validation", q2="train", q3="train"), 0)
    with pytest.raises(SplitError, match="the part train has no query that should trigger"):
        split_queries(queries(2, 2, q0="test", q1="validation", q2="test", q3="validation"), 0)
    with pytest.raises(SplitError, match="query 3: split is 'dev'"):
        split_queries(queries(2, 2, q0="train", q1="validation", q2="train", q3="dev"), 0)


def test_too_few_queries_and_unknown_parts_are_refused() -> None:
    with pytest.raises(SplitError, match="no query that should trigger; write at least 2 queries of each kind"):
        split_queries(queries(1, 5), 0)
    with pytest.raises(SplitError, match=r"query 0: split is 'dev'; expected train, validation or test"):
        split_queries(queries(5, 5, q0="dev"), 0)


def test_an_opened_query_is_never_sealed_again() -> None:
    given = queries(30, 30)
    first = split_queries(given, 0)
    opened = {each.text for each in first[Part.TEST]}
    second = split_queries(given, 0, opened)
    assert len(second[Part.TEST]) == 24  # all that are left
    assert not {each.text for each in second[Part.TEST]} & opened
    assert sorted(each.id for part in second.values() for each in part) == sorted(each.id for each in given)
    # Queries that only others have opened change nothing.
    assert split_queries(given, 0, {"another"}) == first


def test_fresh_queries_are_missing_when_all_have_been_opened() -> None:
    given = queries(20, 20)
    opened = {each.text for each in given}
    assert missing_queries(given, opened) == MissingQueries(10, 10)
    assert split_queries(given, 0, opened)[Part.TEST] == ()
    with pytest.raises(SplitError, match="query 1: an earlier optimization has opened it"):
        split_queries(queries(4, 4, q1="test"), 0, {"query 1"})


WINDOWS_ONLY = "windows-event-triage"

FIGURES: dict[str, tuple[int, int, int, int]] = {
    "code-review": (6, 10, 3, 2),
    "csv-insights": (8, 10, 5, 4),
    "git-bisect-guide": (4, 7, 4, 3),
    "incident-response": (5, 9, 4, 2),
    "postmortem": (6, 9, 3, 1),
    "release-notes": (7, 9, 5, 5),
    "sql-guard": (5, 8, 2, 2),
    "summarize-document": (8, 10, 4, 4),
    "windows-event-triage": (8, 10, 7, 7),
}
"""For ten queries that should trigger a sample: how many find it first, and in the first five. For ten that should not:
how many find it first, and how many do so as no weak match."""

NOT_CHOSEN = {"house-style", "meeting-minutes"}
"""One goes with every message, the other is a command of the user: no model chooses them by their descriptions."""

EACH = pytest.mark.parametrize("name", FIGURES)


@cache
def samples(system: str) -> Catalog:
    """Return the samples as a machine with git sees them."""
    return load_skills(SAMPLES, mock_environment(os=system, bins=["git"]))


def sample(name: str) -> tuple[Catalog, Skill]:
    catalog = samples("windows" if name == WINDOWS_ONLY else "linux")
    skill = catalog.get(name)
    assert skill is not None
    return catalog, skill


def query_file(skill: Skill) -> Path:
    return SAMPLES / skill.path / "evals/eval_queries.json"


def queries_of(skill: Skill) -> tuple[Query, ...]:
    file = query_file(skill)
    return read_queries(file.read_bytes(), file.name)


def test_every_sample_that_a_model_chooses_has_queries() -> None:
    everywhere = samples("windows").skills
    assert {skill.name for skill in everywhere} == FIGURES.keys() | NOT_CHOSEN
    assert {skill.name for skill in everywhere if query_file(skill).exists()} == FIGURES.keys()


@EACH
def test_the_ranking_of_a_sample_is_as_measured(name: str) -> None:
    catalog, skill = sample(name)
    search = SkillSearch()
    ranked = rank_queries(partial(search.select, catalog.offered), skill, queries_of(skill))
    summary = summarize(ranked, len(catalog.offered))
    rates = (summary.recall_at_1, summary.recall_at_5, summary.first_of_near_misses, summary.false_triggers)
    assert [rate.total for rate in rates] == [10, 10, 10, 10]
    assert tuple(rate.count for rate in rates) == FIGURES[name]


@EACH
def test_of_twenty_queries_ten_should_trigger_and_some_of_the_near_misses_belong_to_other_samples(name: str) -> None:
    _, skill = sample(name)
    queries = queries_of(skill)
    assert Counter(query.should_trigger for query in queries) == {True: 10, False: 10}
    rivals = {query.expected_skill for query in queries} - {None}
    # Those that every machine offers, so that no machine warns about an unknown skill.
    assert rivals <= {each.name for each in samples("linux").offered} - {name}
    assert len(rivals) >= 3


@EACH
def test_queries_are_short_and_long_and_few_name_the_skill(name: str) -> None:
    should = [query.text for query in queries_of(sample(name)[1]) if query.should_trigger]
    assert min(map(len, should)) < 80
    assert max(map(len, should)) > 150
    assert sum(name.replace("-", " ") in query.casefold() for query in should) <= 2


def test_no_query_is_used_for_two_samples() -> None:
    texts = Counter(query.text for name in FIGURES for query in queries_of(sample(name)[1]))
    assert [text for text, number in texts.items() if number > 1] == []


@EACH
def test_a_model_that_performs_a_sample_sees_none_of_its_queries(name: str) -> None:
    catalog, _ = sample(name)
    assert [path for skill in catalog.skills for path in files_for_models(skill.content) if "evals" in path] == []
