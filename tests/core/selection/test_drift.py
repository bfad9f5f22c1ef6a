"""Kept queries, and what they find differently in a later catalog."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core.selection.drift import FoundBefore, KeptQuery, KeptQueryError, Move, compared
from skills_core.selection.policy import Band, SelectionPolicy
from skills_core.selection.ranking import SkillIndex

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core import Catalog
    from skills_core.selection.policy import Match

RANKINGS = ("default", "lexical")
GAS = KeptQuery("gas leak", "lexical", SelectionPolicy(10, 0.0))


def found(catalog: Catalog) -> list[Match]:
    return [match for match in SkillIndex(catalog.offered).select(GAS.query, GAS.policy) if match.score]


def moved(before: Catalog, after: Catalog, tolerance: float = 0.1) -> dict[str, tuple[list[str], bool]]:
    drift = compared(GAS.with_matches(found(before)), found(after), tolerance)
    return {each.name: ([move.value for move in each.moves], each.edited) for each in drift.moved}


def test_the_same_catalog_moves_nothing(catalog_of: Callable[..., Catalog]) -> None:
    catalog = catalog_of(gas={"description": "Gas leak."}, water={"description": "A leak."})
    assert moved(catalog, catalog, 0) == {}


def test_a_description_that_lost_its_words_moves_its_skill_and_those_it_ranked_above(
    catalog_of: Callable[..., Catalog],
) -> None:
    before = catalog_of(
        plumber={"description": "Gas leak.", "body": "a"}, water={"description": "A leak.", "body": "a"}
    )
    after = catalog_of(
        plumber={"description": "Emergencies.", "body": "a"}, water={"description": "A leak.", "body": "a"}
    )
    assert moved(before, after) == {"plumber": (["lost"], False), "water": (["rank"], False)}
    assert moved(after, before) == {"water": (["rank"], False), "plumber": (["new"], False)}


def test_an_edit_that_changes_the_score_is_told_with_the_edit(catalog_of: Callable[..., Catalog]) -> None:
    before = catalog_of(plumber={"description": "Gas leak.", "body": "a"})
    after = catalog_of(plumber={"description": "Gas leak.", "body": "a b c d e f g h"})
    assert moved(before, after) == {"plumber": (["band", "score"], True)}
    assert moved(before, after, 0.9) == {"plumber": (["band"], True)}


def test_a_new_skill_counts_where_it_ranks_above_a_former_one(catalog_of: Callable[..., Catalog]) -> None:
    gas = {"description": "Gas leak.", "body": "a"}
    water = {"description": "A leak.", "body": "a"}
    assert moved(catalog_of(gas=gas), catalog_of(gas=gas, water=water)) == {}
    assert moved(catalog_of(water=water), catalog_of(gas=gas, water=water)) == {
        "water": (["rank"], False),
        "gas": (["new"], False),
    }
    assert moved(catalog_of(other={}), catalog_of(other={}, water=water)) == {"water": (["new"], False)}


def test_weak_matches_come_and_go_without_notice(catalog_of: Callable[..., Catalog]) -> None:
    body = "gas " + " ".join(f"w{number}" for number in range(200))
    weak, gas = {"description": "d", "body": body}, {"description": "Gas leak.", "body": "a"}
    before, after = catalog_of(gas=gas, far=weak), catalog_of(gas=gas)
    assert [match.band for match in found(before)] == [Band.HIGH, Band.TRACE]
    assert moved(before, after) == moved(after, before) == {}


def test_a_query_without_a_result_has_nothing_to_compare(catalog_of: Callable[..., Catalog]) -> None:
    drift = compared(GAS, found(catalog_of(gas={"description": "Gas leak."})))
    assert (drift.is_new, drift.moved) == (True, ())


QUERIES = st.builds(
    KeptQuery,
    st.text(),
    st.sampled_from(RANKINGS),
    st.builds(
        SelectionPolicy,
        st.integers(1, 100),
        st.floats(0, 100),
        st.lists(st.text(), max_size=2).map(tuple),
        st.lists(st.text(), max_size=2).map(tuple),
    ),
    st.none()
    | st.lists(
        st.builds(FoundBefore, st.text(), st.just(1), st.floats(0, 10), st.sampled_from(Band), st.none() | st.text())
    ).map(lambda all_: tuple(replace(each, rank=rank) for rank, each in enumerate(all_, 1))),
)


@given(QUERIES)
def test_a_kept_query_reads_back_as_it_was(query: KeptQuery) -> None:
    assert KeptQuery.read(json.loads(json.dumps(query.as_object())), "query 1", RANKINGS) == query


def test_a_string_is_a_query_with_the_defaults_of_the_command() -> None:
    read = KeptQuery.read("gas leak", "query 1", RANKINGS)
    assert read == KeptQuery("gas leak", "default", SelectionPolicy(10, 0.0))


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (7, "expected an object with the field query"),
        ({}, "query must be a string"),
        ({"query": "x", "ranking": "best"}, "expected default or lexical"),
        ({"query": "x", "limit": 0}, "limit must be a whole number from 1 on"),
        ({"query": "x", "limit": 1.5}, "limit must be a whole number from 1 on"),
        ({"query": "x", "min_score": "1"}, "min_score must be a number"),
        ({"query": "x", "tags": "a"}, "tags must be a list of strings"),
        ({"query": "x", "matches": {}}, "matches must be a list, or null"),
        ({"query": "x", "matches": [{"name": "a", "score": 1}]}, "match 1: band must be a string"),
        ({"query": "x", "matches": [{"name": "a", "band": "high"}]}, "match 1: score must be a number"),
        ({"query": "x", "matches": [{"name": "a", "score": 1, "band": "top"}]}, "expected one of trace, broad"),
        ({"query": "x", "matches": [{"name": "a", "score": 1, "band": "high", "id": 1}]}, "id must be a string"),
    ],
)
def test_what_is_no_kept_query_is_an_error_that_names_query_and_field(value: object, told: str) -> None:
    with pytest.raises(KeptQueryError, match=told) as caught:
        KeptQuery.read(value, "query 3", RANKINGS)
    assert str(caught.value).startswith("query 3")


@given(QUERIES)
def test_nothing_found_now_loses_each_match_that_was_not_weak(query: KeptQuery) -> None:
    drift = compared(query, [])
    strong = [each.name for each in query.found or () if each.band is not Band.TRACE]
    assert [each.name for each in drift.moved] == strong
    assert all(each.moves == (Move.LOST,) for each in drift.moved)
