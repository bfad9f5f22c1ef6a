"""The fusion of the word ranking with that of a reranker."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skills_core import Band, Library, Match, SelectionPolicy, Skill, SkillSearch
from skills_core.selection.fusion import FUSION_DEPTH, Reranking, fuse

TEN = SelectionPolicy(top_k=10, min_score=0.0)


@pytest.fixture
def skills(tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]) -> tuple[Skill, ...]:
    write_skill(tmp_path, "pdf-forms", description="Fill in forms.", fields="tags: [office]")
    write_skill(tmp_path, "invoices", description="Read bills.")
    write_skill(tmp_path, "travel", description="Plan a trip.", fields="tags: [office]")
    write_skill(tmp_path, "forms-lint", description="Check web forms.")
    return load(tmp_path).catalog.offered


def by_name(*names: str) -> Callable[[str, Sequence[Skill]], Iterable[Skill]]:
    def rank(_: str, skills: Sequence[Skill]) -> Iterable[Skill]:
        known = {skill.name: skill for skill in skills}
        return [known[name] for name in names if name in known]

    return rank


def names(matches: Iterable[Match]) -> list[str]:
    return [match.skill.name for match in matches]


def test_skills_of_both_rankings_come_first_and_those_of_one_are_included(skills: tuple[Skill, ...]) -> None:
    plain = SkillSearch().select(skills, "forms", TEN)
    assert set(names(plain)) == {"pdf-forms", "forms-lint"}
    found = SkillSearch(by_name("travel", names(plain)[1])).select(skills, "forms", TEN)
    # 1/62 + 1/62, then 1/61 and 1/61 by name.
    assert names(found) == [names(plain)[1], *sorted([names(plain)[0], "travel"])]
    travel = next(match for match in found if match.skill.name == "travel")
    assert (travel.score, travel.relative, travel.band, travel.weak) == (1 / 61, 0.0, Band.TRACE, False)


def test_a_reranker_receives_only_admitted_skills(skills: tuple[Skill, ...]) -> None:
    policy = SelectionPolicy(10, 0.0, include_tags=("office",))
    found = SkillSearch(by_name("invoices", "travel")).select(skills, "forms", policy)
    assert set(names(found)) == {"pdf-forms", "travel"}


def test_a_failing_reranker_leaves_the_word_ranking(
    skills: tuple[Skill, ...], caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_: str, __: Sequence[Skill]) -> Iterable[Skill]:
        raise RuntimeError("no vectors today")

    with caplog.at_level(logging.ERROR):
        assert SkillSearch(fails).select(skills, "forms", TEN) == SkillSearch().select(skills, "forms", TEN)
    assert "the reranker failed" in caplog.text


def test_a_reranker_without_an_opinion_leaves_the_word_ranking(
    skills: tuple[Skill, ...], caplog: pytest.LogCaptureFixture
) -> None:
    found = SkillSearch(lambda _, __: None).select(skills, "forms", TEN)
    assert found == SkillSearch().select(skills, "forms", TEN)
    assert caplog.text == ""


@pytest.mark.parametrize("answer", [["pdf-forms"], [None], 5])
def test_a_reranker_that_returns_no_skills_leaves_the_word_ranking(
    skills: tuple[Skill, ...], caplog: pytest.LogCaptureFixture, answer: Any
) -> None:
    with caplog.at_level(logging.ERROR):
        found = SkillSearch(lambda _, __: answer).select(skills, "forms", TEN)
    assert found == SkillSearch().select(skills, "forms", TEN)
    assert "the reranker failed" in caplog.text


def test_a_reranker_cannot_add_skills_that_it_did_not_receive(
    skills: tuple[Skill, ...], tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "travel", description="Plan a longer trip.", fields="tags: [office]")
    stale = load(tmp_path).catalog.offered
    policy = SelectionPolicy(10, 0.0, include_tags=("office",))
    found = SkillSearch(lambda _, __: [*stale, *skills]).select(skills, "forms", policy)
    assert set(names(found)) == {"pdf-forms", "travel"}
    assert all(match.skill in skills for match in found)


def test_a_ranking_by_words_only_leaves_the_reranker_out(skills: tuple[Skill, ...]) -> None:
    search = SkillSearch(by_name("travel", "pdf-forms"))
    assert search.select(skills, "forms", TEN, words_only=True) == SkillSearch().select(skills, "forms", TEN)


def test_a_query_without_words_is_not_reranked(skills: tuple[Skill, ...]) -> None:
    def never(_: str, __: Sequence[Skill]) -> Iterable[Skill]:
        raise AssertionError

    policy = SelectionPolicy(10, 0.0, include_tags=("office",))
    assert names(SkillSearch(never).select(skills, "", policy)) == ["pdf-forms", "travel"]


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_only_places_count_and_a_better_place_never_lowers_the_result(
    data: st.DataObject, skills: tuple[Skill, ...]
) -> None:
    words = data.draw(st.permutations(skills))[: data.draw(st.integers(0, 4))]
    second = data.draw(st.permutations(skills))[: data.draw(st.integers(0, 4))]
    ranked = [(skill, 9.0 - place) for place, skill in enumerate(words)]
    order = Reranking(tuple(second))
    found = fuse(ranked, order, 10)
    assert {fused.skill.path for fused in found} == {skill.path for skill in (*words, *second)}
    keys = [(-fused.score, fused.skill.name, fused.skill.path) for fused in found]
    assert keys == sorted(keys)
    # Who is first in both is first.
    if words and second and words[0] is second[0]:
        assert found[0].skill is words[0]
    assert fuse(ranked, order, 1) == found[:1]


def test_only_the_first_places_of_a_ranking_count(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    for number in range(FUSION_DEPTH + 3):
        write_skill(tmp_path, f"s{number:03}")
    many = load(tmp_path).catalog.offered
    found = SkillSearch(lambda _, skills: iter(skills)).select(many, "unknown", TEN)
    assert [match.score for match in found] == [1 / (60 + place) for place in range(1, 11)]
    assert len(fuse([], Reranking(many), 1000)) == FUSION_DEPTH
