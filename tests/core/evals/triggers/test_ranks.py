"""Ranks of a skill for its trigger queries, and their summary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skills_core import SelectionPolicy, SkillSearch
from skills_core.evals.triggers.queries import Query
from skills_core.evals.triggers.ranks import (
    Confusion,
    LimitVerdict,
    RankedQuery,
    RankLimits,
    rank_queries,
    rank_query,
    summarize,
)
from skills_core.evals.triggers.results import Rate

if TYPE_CHECKING:
    from skills_core import Catalog, Library, Skill
    from skills_core.selection import Match


@pytest.fixture
def catalog(tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]) -> Catalog:
    write_skill(tmp_path, "csv-insights", description="Analyze CSV files: summary statistics and charts.")
    write_skill(tmp_path, "csv-import", description="Upload CSV rows to a database.")
    write_skill(tmp_path, "poems", description="Write a poem.", body="Mind the statistics of syllables.")
    return load(tmp_path).catalog


class Searching:
    """A search of the default ranking that records its policies."""

    def __init__(self, skills: Sequence[Skill]) -> None:
        self._skills, self._search = tuple(skills), SkillSearch()
        self.policies: list[SelectionPolicy] = []

    def __call__(self, query: str, policy: SelectionPolicy, /) -> list[Match]:
        self.policies.append(policy)
        return self._search.select(self._skills, query, policy)


def ranked(catalog: Catalog, *queries: Query, name: str = "csv-insights") -> tuple[RankedQuery, ...]:
    skill = catalog.get(name)
    assert skill is not None
    return rank_queries(Searching(catalog.offered), skill, queries)


def test_the_rank_is_that_of_the_search_and_the_skills_above_are_named(catalog: Catalog) -> None:
    first, second, none = ranked(
        catalog,
        Query("statistics of a csv file", True, "1"),
        Query("upload my csv to the database, then statistics", True, "2"),
        Query("fix the sink", False, "3"),
    )
    assert (first.rank, first.above, first.is_right) == (1, (), True)
    assert (second.rank, second.above, second.is_right) == (2, ("csv-import",), False)
    assert (none.rank, none.match, none.is_false_trigger) == (None, None, False)


def test_a_query_that_should_not_trigger_does_if_the_skill_is_the_best_and_no_weak_match(catalog: Catalog) -> None:
    taken, weak, other = ranked(
        catalog,
        Query("charts of csv statistics", False, "1"),
        Query("charts for the annual orchestra festival programme printed abroad by volunteers", False, "2"),
        Query("upload csv rows to a database", False, "3", expected_skill="csv-import"),
    )
    assert (taken.rank, taken.is_false_trigger, taken.is_right) == (1, True, False)
    assert weak.rank == 1
    assert weak.match is not None
    assert weak.match.weak
    assert not weak.is_false_trigger
    assert (other.expected_rank, other.is_right) == (1, True)


def test_ranks_beyond_the_first_ten_are_found(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    for number in range(20):
        write_skill(tmp_path, f"invoice-{number:02}", description="Check an invoice.")
    skills = load(tmp_path).catalog.offered
    search = Searching(skills)
    assert rank_query(search, skills[15], Query("an invoice", True, "1")).rank == 16
    assert [policy.top_k for policy in search.policies] == [10, 100]


def test_a_search_that_returns_less_than_asked_for_is_not_repeated(catalog: Catalog) -> None:
    search = Searching(catalog.offered)
    rank_query(search, catalog.offered[0], Query("sink", True, "1", expected_skill="poems"))
    assert len(search.policies) == 1


def queries(should: int, should_not: int, **fields: str) -> list[Query]:
    texts = ["charts of csv statistics"] * should + ["upload csv rows to the database"] * should_not
    return [Query(text, number < should, str(number), **fields) for number, text in enumerate(texts)]


def test_the_summary_has_rates_with_intervals(catalog: Catalog) -> None:
    found = summarize(ranked(catalog, *queries(8, 8)), 3)
    assert (found.recall_at_1, found.recall_at_5, found.false_triggers) == (Rate(8, 8), Rate(8, 8), Rate(0, 8))
    assert found.recall_at_1.interval.low == pytest.approx(0.676, abs=0.001)
    assert found.false_triggers.interval.high == pytest.approx(0.324, abs=0.001)
    assert found.expected_first == Rate(0, 0)
    assert found.expected_first.value is None
    assert (found.verdict, found.reasons) == (None, ())


def test_confusions_are_named_by_rival(catalog: Catalog) -> None:
    swapped = [Query("upload csv rows to the database", True, "a"), Query("csv statistics", False, "b")]
    named = Query("charts of csv files", False, "c", expected_skill="csv-import")
    found = summarize(ranked(catalog, *swapped, named), 3)
    assert found.confusions == (Confusion("csv-import", ("a",), ("c",)),)
    assert found.expected_first == Rate(0, 1)


def test_too_few_queries_carry_no_verdict(catalog: Catalog) -> None:
    few = summarize(ranked(catalog, *queries(7, 8)), 3)
    assert few.verdict is LimitVerdict.NONE
    assert few.reasons == ("a verdict takes 8 queries that should trigger, 1 more than there are",)
    assert summarize(ranked(catalog, *queries(7, 8)), 3, RankLimits(max_false=0.5)).verdict is LimitVerdict.PASS
    assert summarize(ranked(catalog, *queries(7, 8)), 3, RankLimits(min_recall=0.5)).verdict is LimitVerdict.NONE


def test_a_skill_alone_in_its_catalog_has_no_verdict(catalog: Catalog) -> None:
    alone = summarize(ranked(catalog, *queries(8, 8)), 1, RankLimits(min_recall=0.5))
    assert (alone.verdict, len(alone.reasons)) == (LimitVerdict.NONE, 1)


def test_limits_decide_the_verdict(catalog: Catalog) -> None:
    assert summarize(ranked(catalog, *queries(8, 8)), 3, RankLimits(1.0, 0.0)).verdict is LimitVerdict.PASS
    taken = summarize(ranked(catalog, *queries(8, 8), name="csv-import"), 3, RankLimits(0.75, 0.5))
    assert taken.verdict is LimitVerdict.FAIL
    assert taken.reasons == ("recall@1 is 0.00, below 0.75", "1.00 of the near-misses trigger, above 0.50")
    assert taken.recall_at_5 == Rate(8, 8)
