"""The fusion of word scores with a reranker's similarities."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skills_core import Band, Library, Match, SelectionPolicy, Similarities, Skill, SkillSearch
from skills_core.selection import ranking
from skills_core.selection.bm25 import Hit, QueryTerms, Reasons, SkillRows
from skills_core.selection.fusion import FITTING_SIMILARITY, FUSION_DEPTH, SIMILARITY_WEIGHT

TEN = SelectionPolicy(top_k=10, min_score=0.0)
QUERY = "forms"


@pytest.fixture
def skills(tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]) -> tuple[Skill, ...]:
    write_skill(tmp_path, "pdf-forms", description="Fill in forms.", fields="tags: [office]")
    write_skill(tmp_path, "invoices", description="Read bills.")
    write_skill(tmp_path, "travel", description="Plan a trip.", fields="tags: [office]")
    write_skill(tmp_path, "forms-lint", description="Check web forms.")
    return load(tmp_path).catalog.offered


def similar(cosines: Mapping[str, float], **options: float) -> Callable[[str, Sequence[Skill]], Similarities]:
    def rank(_: str, skills: Sequence[Skill]) -> Similarities:
        return Similarities(((skill, cosines[skill.name]) for skill in skills if skill.name in cosines), **options)

    return rank


def by_name(matches: Sequence[Match]) -> dict[str, Match]:
    return {match.skill.name: match for match in matches}


def test_the_score_is_the_share_of_the_best_word_score_plus_the_weighted_cosine(skills: tuple[Skill, ...]) -> None:
    plain = by_name(SkillSearch().select(skills, QUERY, TEN))
    cosines = {"pdf-forms": 0.1, "forms-lint": 0.3, "travel": 0.5, "invoices": 0.2}
    found = by_name(SkillSearch(similar(cosines)).select(skills, QUERY, TEN))
    assert found["pdf-forms"].score == pytest.approx(plain["pdf-forms"].relative + SIMILARITY_WEIGHT * 0.1)
    assert found["forms-lint"].score == pytest.approx(plain["forms-lint"].relative + SIMILARITY_WEIGHT * 0.3)
    assert found["travel"].score == pytest.approx(SIMILARITY_WEIGHT * 0.5)
    half = by_name(SkillSearch(similar(cosines, weight=0.5)).select(skills, QUERY, TEN))
    assert half["travel"].score == pytest.approx(0.25)


def test_the_relative_score_is_the_share_of_the_best_score(skills: tuple[Skill, ...]) -> None:
    found = SkillSearch(similar({"travel": 0.9, "pdf-forms": 0.2})).select(skills, QUERY, TEN)
    assert found[0].relative == 1.0
    assert [match.relative for match in found] == [pytest.approx(match.score / found[0].score) for match in found]


def test_a_skill_that_only_the_similarity_finds_fits_and_gives_no_words(skills: tuple[Skill, ...]) -> None:
    below = FITTING_SIMILARITY - 0.01
    found = by_name(SkillSearch(similar({"travel": FITTING_SIMILARITY, "invoices": below})).select(skills, QUERY, TEN))
    assert (found["travel"].band, found["travel"].weak, found["travel"].why) == (Band.TRACE, False, ())
    assert (found["invoices"].band, found["invoices"].weak, found["invoices"].why) == (Band.TRACE, True, ())
    unlike = FITTING_SIMILARITY * 0.4 - 0.01
    assert "invoices" not in by_name(SkillSearch(similar({"invoices": unlike})).select(skills, QUERY, TEN))
    found = by_name(SkillSearch(similar({"invoices": below}, fits=below)).select(skills, QUERY, TEN))
    assert not found["invoices"].weak


def test_the_best_of_poor_word_matches_counts_less_than_a_skill_that_has_the_whole_query(
    skills: tuple[Skill, ...],
) -> None:
    search = SkillSearch(similar({"invoices": 0.3}))
    assert search.select(skills, "zebras giraffes lions and forms", TEN)[0].skill.name == "invoices"
    found = search.select(skills, "web forms", TEN)
    assert (found[0].skill.name, found[0].score) == ("forms-lint", 1)


def test_a_weak_match_is_not_weak_if_the_similarity_says_that_it_fits(skills: tuple[Skill, ...]) -> None:
    query = "forms for the annual report of a museum about glass"
    assert by_name(SkillSearch().select(skills, query, TEN))["forms-lint"].weak
    found = by_name(SkillSearch(similar({"forms-lint": 0.6, "pdf-forms": 0.0})).select(skills, query, TEN))
    assert (found["forms-lint"].weak, found["pdf-forms"].weak) == (False, True)
    assert found["forms-lint"].why == (("name", ("forms",)), ("description", ("forms",)))


def test_a_match_of_words_stays_whatever_its_cosine(skills: tuple[Skill, ...]) -> None:
    found = by_name(SkillSearch(similar({"pdf-forms": -1.0, "forms-lint": -1.0})).select(skills, QUERY, TEN))
    assert {name: match.score for name, match in found.items()} == {"pdf-forms": 0.0, "forms-lint": 0.0}
    assert set(by_name(SkillSearch(similar({})).select(skills, QUERY, TEN))) == {"pdf-forms", "forms-lint"}


def test_the_minimum_score_applies_to_the_sum(skills: tuple[Skill, ...]) -> None:
    policy = SelectionPolicy(10, 1.4)
    found = SkillSearch(similar({"travel": 0.5, "pdf-forms": 0.0, "forms-lint": 0.0})).select(skills, QUERY, policy)
    assert set(by_name(found)) == {"travel"}


def wrong_pairs(skills: Sequence[Skill]) -> dict[str, Any]:
    (first, *_), path = skills, "elsewhere"
    stranger = Skill(first.content, first.source, first.key, path, first.state)
    return {
        "not a number": [(first, math.nan)],
        "infinite": [(first, math.inf)],
        "no cosine": [(first, 1.5)],
        "text": [(first, "0.5")],
        "None": [(first, None)],
        "twice": [(first, 0.5), (first, 0.4)],
        "not passed": [(stranger, 0.5)],
        "no pairs": [first],
        "names": [(first.name, 0.5)],
    }


@pytest.mark.parametrize(
    "case", ["not a number", "infinite", "no cosine", "text", "None", "twice", "not passed", "no pairs", "names"]
)
def test_a_wrong_similarity_leaves_the_word_ranking(
    skills: tuple[Skill, ...], caplog: pytest.LogCaptureFixture, case: str
) -> None:
    with caplog.at_level(logging.ERROR):
        found = SkillSearch(lambda _, given: Similarities(wrong_pairs(given)[case])).select(skills, QUERY, TEN)
    assert found == SkillSearch().select(skills, QUERY, TEN)
    assert "the reranker failed" in caplog.text


@pytest.mark.parametrize("options", [{"weight": -1.0}, {"weight": math.nan}, {"weight": math.inf}, {"fits": math.nan}])
def test_a_wrong_weight_is_an_error(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        Similarities((), **options)


def test_errors_name_the_skill_and_what_was_expected(skills: tuple[Skill, ...]) -> None:
    with pytest.raises(ValueError, match=r"^travel: expected a cosine from -1 to 1, not 7"):
        Similarities([(next(skill for skill in skills if skill.name == "travel"), 7.0)])


def test_a_cosine_may_exceed_1_by_rounding(skills: tuple[Skill, ...]) -> None:
    found = SkillSearch(similar({"travel": 1.0000002})).select(skills, QUERY, TEN)
    assert found[0].skill.name == "travel"


def test_an_order_still_counts_by_places(skills: tuple[Skill, ...]) -> None:
    found = SkillSearch(lambda _, given: given).select(skills, "unknown", TEN)
    assert [match.score for match in found] == [1 / (60 + place) for place in range(1, len(skills) + 1)]


def test_a_similar_skill_keeps_its_word_score_beyond_the_first_places(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    for number in range(FUSION_DEPTH + 10):
        write_skill(tmp_path, f"s{number:03}", description="Fill in forms.")
    many = load(tmp_path).catalog.offered
    last = f"s{FUSION_DEPTH + 9:03}"
    first = SkillSearch(similar({last: 0.5})).select(many, QUERY, TEN)[0]
    assert (first.skill.name, first.why) == (last, (("description", ("forms",)),))
    assert first.score == pytest.approx(1 + SIMILARITY_WEIGHT * 0.5)


@pytest.mark.parametrize("answer", ["order", "similarities"])
def test_reasons_are_computed_only_for_returned_matches(
    tmp_path: Path,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
) -> None:
    for number in range(20):
        write_skill(tmp_path, f"s{number:03}", description="Fill in forms.")
    many = load(tmp_path).catalog.offered
    explained: list[int] = []

    reasons = SkillRows.reasons

    def counted(rows: SkillRows, terms: QueryTerms, hits: Sequence[Hit]) -> list[Reasons]:
        explained.append(len(hits))
        return reasons(rows, terms, hits)

    monkeypatch.setattr(SkillRows, "reasons", counted)
    reranker = {"order": lambda _, given: given, "similarities": similar({"s007": 0.5})}[answer]
    assert len(SkillSearch(reranker).select(many, QUERY, SelectionPolicy(3, 0.0))) == 3
    assert explained == [3]


def test_similarities_work_without_a_full_text_index(
    skills: tuple[Skill, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "open_texts", lambda: None)
    found = SkillSearch(similar({"travel": 0.5})).select(skills, QUERY, TEN)
    assert found[0].skill.name == "travel"
    assert {"pdf-forms", "forms-lint"} <= set(by_name(found))


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_higher_cosine_never_lowers_a_skill(data: st.DataObject, skills: tuple[Skill, ...]) -> None:
    cosine = st.floats(-1, 1)
    cosines = data.draw(st.fixed_dictionaries({skill.name: cosine for skill in skills}))
    raised = data.draw(st.sampled_from(skills)).name
    higher = {**cosines, raised: data.draw(st.floats(cosines[raised], 1))}
    before, after = (
        [match.skill.name for match in SkillSearch(similar(each)).select(skills, QUERY, TEN)]
        for each in (cosines, higher)
    )
    if raised in before:
        assert after.index(raised) <= before.index(raised)
