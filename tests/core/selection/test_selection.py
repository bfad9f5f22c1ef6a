"""adk-skill's lexical score."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skills_core import Band, SelectionPolicy, SkillIndex
from skills_core.selection.ranking import tokens

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core import Library

ANY = SelectionPolicy(top_k=10, min_score=0.001)


@pytest.fixture
def library(tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]) -> Library:
    def write(folder: str, description: str, body: str, fields: str = "") -> None:
        write_skill(tmp_path, folder, description=description, body=body, fields=fields)

    write("plumbing", "Fix a leak.", "one two three four", "tags: [Water, emergency]")
    write("gas-leak", "Gas.", "leak leak leak leak leak leak leak leak leak", "tags: [emergency]")
    write("garden", "Trees and lawns.", " ".join(f"w{number}" for number in range(25)) + " leak", "tags: [outdoor]")
    write("x/twin", "Same.", "same")
    write("w/twin", "Same.", "same")
    return load(tmp_path)


@pytest.fixture
def index(library: Library) -> SkillIndex:
    return SkillIndex().extended(library.catalog.active)


def test_an_index_that_is_made_of_skills_selects_as_one_that_is_extended_by_them(
    library: Library, index: SkillIndex
) -> None:
    assert SkillIndex(library.catalog.active).select("gas leak", ANY) == index.select("gas leak", ANY) != []


@pytest.mark.parametrize(
    ("query", "scores"),
    [
        # name 4.0 + description 2.5, and the body's one distinct token; the others by their parts
        ("leak", {"gas-leak": 4.0 + 1.0, "plumbing": 2.5 / 2, "garden": 1.0 / math.sqrt(26)}),
        ("gas leak", {"gas-leak": 4.0 + 2.5 + 4.0 + 1.0, "plumbing": 2.5 / 2, "garden": 1.0 / math.sqrt(26)}),
        ("GAS, Leak!", {"gas-leak": 11.5, "plumbing": 1.25, "garden": 1.0 / math.sqrt(26)}),
        ("leak leak", {"gas-leak": 10.0, "plumbing": 2.5, "garden": 2.0 / math.sqrt(26)}),
        ("emergency", {"gas-leak": 2.0, "plumbing": 2.0 / 2}),
        ("water four", {"plumbing": (2.0 + 1.0) / 2}),
        ("plumbing", {"plumbing": 4.0 / 2}),
        ("plumb", {}),
        ("nothing", {}),
        ("", {}),
        ("!?", {}),
    ],
)
def test_scores_are_weighted_words_over_the_root_of_the_distinct_words_of_the_body(
    index: SkillIndex, query: str, scores: dict[str, float]
) -> None:
    found = {match.skill.name: match.score for match in index.select(query, ANY)}
    assert found == pytest.approx(scores)


def test_an_empty_body_divides_by_one(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "a", description="Word.", body="")
    (match,) = SkillIndex().extended(load(tmp_path).catalog.active).select("word", ANY)
    assert match.score == pytest.approx(2.5)


def test_ties_are_ordered_by_name_then_by_path(index: SkillIndex) -> None:
    assert [match.skill.path for match in index.select("same", ANY)] == ["w/twin", "x/twin"]


def test_by_default_the_best_match_of_at_least_one_point_is_selected(index: SkillIndex) -> None:
    assert SelectionPolicy() == SelectionPolicy(top_k=1, min_score=1.0, include_tags=(), exclude_tags=())
    assert [match.skill.name for match in index.select("leak")] == ["gas-leak"]
    assert index.select("w1") == []


@pytest.mark.parametrize(
    ("bound", "names"), [(1.25, ["gas-leak", "plumbing"]), (1.26, ["gas-leak"]), (5.1, []), (1e300, [])]
)
def test_a_match_must_reach_the_minimum_score(index: SkillIndex, bound: float, names: list[str]) -> None:
    assert [match.skill.name for match in index.select("leak", SelectionPolicy(10, bound))] == names


@pytest.mark.parametrize(
    ("include", "exclude", "names"),
    [
        ((), (), ["gas-leak", "plumbing", "garden"]),
        (("emergency",), (), ["gas-leak", "plumbing"]),
        (("EMERGENCY",), (), ["gas-leak", "plumbing"]),
        (("water", "outdoor"), (), ["plumbing", "garden"]),
        ((), ("Water",), ["gas-leak", "garden"]),
        (("emergency",), ("water",), ["gas-leak"]),
        (("emergency",), ("emergency",), []),
        (("absent",), (), []),
    ],
)
def test_tags_include_and_exclude_in_any_case_and_exclusion_wins(
    index: SkillIndex, include: tuple[str, ...], exclude: tuple[str, ...], names: list[str]
) -> None:
    policy = SelectionPolicy(10, 0.001, include, exclude)
    assert [match.skill.name for match in index.select("leak", policy)] == names


@pytest.mark.parametrize("query", ["", "  ", "?!"])
def test_an_empty_query_with_tags_selects_by_tags_alone(index: SkillIndex, query: str) -> None:
    found = index.select(query, SelectionPolicy(10, 0.0, include_tags=("emergency",)))
    assert [(match.skill.name, match.score) for match in found] == [("gas-leak", 0.0), ("plumbing", 0.0)]
    # Nothing scores above 0, so the default minimum leaves nothing.
    assert index.select(query, SelectionPolicy(10, include_tags=("emergency",))) == []


def test_a_minimum_of_zero_selects_skills_with_score_zero(index: SkillIndex) -> None:
    found = index.select("plumbing", SelectionPolicy(10, 0.0))
    assert [match.skill.name for match in found] == ["plumbing", "garden", "gas-leak", "twin", "twin"]
    assert [match.score for match in found] == [2.0, 0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("top_k", [0, -1])
def test_a_top_k_of_zero_selects_nothing(index: SkillIndex, top_k: int) -> None:
    assert index.select("leak", SelectionPolicy(top_k, 0.0)) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Search the_code-base 2x", ["search", "the", "code", "base", "2x"]),
        ("打开 Safari", ["safari"]),
        ("Déjà vu", ["d", "j", "vu"]),
        ("Жц", []),
        ("\u212aelvin \u0130x", ["elvin", "x"]),
        ("tag: [x_y], !@#$%", ["tag", "x", "y"]),
        ("", []),
    ],
)
def test_tokens_are_runs_of_ascii_letters_and_digits_in_lower_case(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


def test_a_tag_of_several_words_is_found_by_each_of_them(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "a", description="Thing.", body="x", fields="tags: [Code-Search, search tools]")
    index = SkillIndex().extended(load(tmp_path).catalog.active)
    # Two tags have the word, and it counts once.
    assert [match.score for match in index.select("search", ANY)] == [2.0]
    assert [match.score for match in index.select("tools code", ANY)] == [4.0]
    # As a filter a tag counts as a whole.
    assert index.select("search", SelectionPolicy(10, 0.0, include_tags=("search",))) == []
    assert len(index.select("search", SelectionPolicy(10, 0.0, include_tags=("CODE-search",)))) == 1


def test_scores_are_computed_in_single_precision(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    write_skill(tmp_path, "a", description="Seven.", body=" ".join(f"w{number}" for number in range(100)))
    index = SkillIndex().extended(load(tmp_path).catalog.active)
    # 7 / 10 is no number of either precision, and reaches a minimum that is written alike.
    assert len(index.select("w1 w2 w3 w4 w5 w6 w7", SelectionPolicy(1, 0.7))) == 1


def test_a_match_says_which_words_were_found_where(index: SkillIndex) -> None:
    found = index.select("emergency leak leak pump", ANY)
    assert dict(found[0].why) == {"name": ("leak",), "tags": ("emergency",), "body": ("leak",)}
    assert [match.relative for match in found] == pytest.approx([1.0, 3.5 / 12.0, 2 / math.sqrt(26) / 12.0])
    assert [match.weak for match in found] == [False, False, True]


def test_an_empty_query_without_tags_selects_nothing(index: SkillIndex) -> None:
    assert index.select("", SelectionPolicy(10, 0.0, exclude_tags=("water",))) == []


@pytest.mark.parametrize(
    ("score", "band"),
    [
        (0.0, Band.TRACE),
        (0.99, Band.TRACE),
        (1.0, Band.BROAD),
        (2.49, Band.BROAD),
        (2.5, Band.SPECIFIC),
        (4.99, Band.SPECIFIC),
        (5.0, Band.HIGH),
        (1e9, Band.HIGH),
    ],
)
def test_a_score_has_a_band(score: float, band: Band) -> None:
    assert Band.of(score) is band


def test_an_extended_index_equals_a_new_one(tmp_path: Path, library: Library, write_skill: Callable[..., Path]) -> None:
    index = SkillIndex().extended(library.catalog.active)
    for step in range(3):
        write_skill(tmp_path, "plumbing", description=f"Fix leak number{step}.", body="leak " * step)
        write_skill(tmp_path, f"new{step}", description="Leak here.")
        library.reload()
        index = index.extended(library.catalog.active)
        fresh = SkillIndex().extended(library.catalog.active)
        for query in ("leak", "number1 here", "same", f"new{step}"):
            assert index.select(query, ANY) == fresh.select(query, ANY)


def test_an_older_index_still_answers_after_it_was_extended(library: Library, index: SkillIndex) -> None:
    before = index.select("leak", ANY)
    assert index.extended(library.catalog.active[:1]).skills == library.catalog.active[:1]
    assert index.select("leak", ANY) == before
