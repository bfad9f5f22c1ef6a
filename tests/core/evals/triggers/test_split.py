from __future__ import annotations

import pytest

from skills_core.evals.triggers.queries import Query
from skills_core.evals.triggers.split import Part, SplitError, split_queries


def queries(positive: int, negative: int, **split: str) -> list[Query]:
    return [
        Query(f"query {number}", number < positive, str(number), split.get(f"q{number}"))
        for number in range(positive + negative)
    ]


def test_each_part_has_its_share_of_both_kinds() -> None:
    parts = split_queries(queries(10, 10), 0)
    for kind in (True, False):
        sizes = [sum(each.should_trigger is kind for each in parts[part]) for part in Part]
        assert sizes == [5, 3, 2]  # of the eight that are not sealed 60 to 40


@pytest.mark.parametrize("size", range(3, 12))
def test_every_query_is_in_one_part_and_no_part_lacks_a_kind(size: int) -> None:
    given = queries(size, size)
    parts = split_queries(given, 7)
    found = [each.id for part in parts.values() for each in part]
    assert sorted(found) == sorted(each.id for each in given)
    assert all({each.should_trigger for each in part} == {True, False} for part in parts.values())


def test_the_split_depends_on_the_seed_and_not_on_the_order_of_the_file() -> None:
    given = queries(10, 10)
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
    with pytest.raises(SplitError, match="no query that should trigger; write at least 3 queries of each kind"):
        split_queries(queries(2, 5), 0)
    with pytest.raises(SplitError, match=r"query 0: split is 'dev'; expected train, validation or test"):
        split_queries(queries(5, 5, q0="dev"), 0)


def test_an_opened_query_is_never_sealed_again() -> None:
    given = queries(10, 10)
    first = split_queries(given, 0)
    opened = {each.query for each in first[Part.TEST]}
    second = split_queries(given, 0, opened)
    assert len(second[Part.TEST]) == len(first[Part.TEST])
    assert not {each.query for each in second[Part.TEST]} & opened
    assert sorted(each.id for part in second.values() for each in part) == sorted(each.id for each in given)
    # Queries that only others have opened change nothing.
    assert split_queries(given, 0, {"another"}) == first


def test_fresh_queries_are_asked_for_when_all_have_been_opened() -> None:
    given = queries(4, 4)
    with pytest.raises(SplitError, match="opened all queries for the test that should trigger; add fresh queries"):
        split_queries(given, 0, {each.query for each in given})
    with pytest.raises(SplitError, match="query 1: an earlier optimization has opened it"):
        split_queries(queries(4, 4, q1="test"), 0, {"query 1"})
