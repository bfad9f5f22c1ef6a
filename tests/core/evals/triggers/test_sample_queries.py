"""How the search ranks each sample skill for its trigger queries: exact figures, which change when the ranking does."""

from __future__ import annotations

from collections import Counter
from functools import cache, partial
from pathlib import Path

import pytest

from skills_core import Catalog, Skill, SkillSearch, load_skills
from skills_core.evals.triggers.queries import Query, read_queries
from skills_core.evals.triggers.ranks import rank_queries, summarize
from skills_core.skills.withheld_files import files_for_models
from skills_core.testing import mock_environment
from tests.core.evals.sample_outputs import SAMPLES

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
    search = SkillSearch(many=True)
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
