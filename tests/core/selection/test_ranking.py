"""The default ranking: words, fields, scripts, ties and updates of the index."""

from __future__ import annotations

import logging
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core import Band, SelectionPolicy
from skills_core.selection.fulltext import MAX_STEMS, MAX_WORDS, Stems, fold, query_words
from skills_core.selection.policy import menu_of
from skills_core.selection.ranking import TOP_TEN, SkillSearch

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core import Catalog, Library

    Names = Callable[..., list[str]]


@pytest.fixture
def library(tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]) -> Library:
    def write(folder: str, description: str, body: str = "Do it.", fields: str = "", name: str | None = None) -> None:
        write_skill(tmp_path, folder, description=description, body=body, fields=fields, name=name)

    write("pdf-forms", "Fill in forms.", "Open the document and enter each value.", "tags: [Paper]")
    write("csv-tables", "Profile tables of numbers.", "Mentions pdf once.", "tags: [data, Tables]")
    write("slides", "Design a deck.", fields="when_to_use: For a keynote.\ntriggers: [presentation]")
    write("diary", "Notes.", "The café résumé is naïve about 3D.")
    write("db", "查询数据库检查表结构分析性能", "你是数据库运维专家", name="数据库操作")
    write("tasks", "タスクの作成と優先度の管理", "日程")
    write("calendar-ko", "일정을 확인하고 수정합니다")
    write("thai", "ตรวจสอบสัญญาเช่า")
    write("russian", "Проверка договора аренды")
    write("hindi", "अनुबंध की जाँच करें")
    write("x/twin", "Same.")
    write("w/twin", "Same.")
    return load(tmp_path)


@pytest.fixture
def names(library: Library) -> Names:
    search = SkillSearch()

    def ask(query: str, policy: SelectionPolicy = TOP_TEN) -> list[str]:
        return [match.skill.name for match in search.select(library.catalog.offered, query, policy)]

    return ask


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("pdf", "pdf-forms"),
        ("filling the FORM", "pdf-forms"),
        ("paper", "pdf-forms"),
        ("could you please profile a table for me?", "csv-tables"),
        ("keynote", "slides"),
        ("presentations", "slides"),
        ("cafe", "diary"),
        ("RÉSUMÉ", "diary"),
        ("3d", "diary"),
        ("数据库性能", "数据库操作"),
        ("库", "数据库操作"),
        ("タスクの優先度を変更して", "tasks"),
        ("내일 일정 확인해줘", "calendar-ko"),
        ("สัญญาเช่า", "thai"),
        ("договора", "russian"),
        ("जाँच", "hindi"),
    ],
)
def test_words_are_found_in_any_form_field_and_script(names: Names, query: str, first: str) -> None:
    assert names(query)[0] == first


@pytest.mark.parametrize("query", ["", "  ", "?!", "zebra", '"', "zebra OR quagga", "NEAR(", "-", "\0", "\ud800"])
def test_a_query_that_shares_no_word_finds_nothing(names: Names, query: str) -> None:
    assert names(query) == []


@pytest.mark.parametrize(
    "query", ['"pdf', "name:pdf*", "pdf AND zebra", "NOT pdf", "pdf NEAR(zebra)", "^pdf", "pdf)--"]
)
def test_a_query_is_words_and_never_a_query_language(names: Names, query: str) -> None:
    assert names(query)[0] == "pdf-forms"


@given(query=st.text())
def test_any_text_can_be_searched_for(query: str) -> None:
    assert SkillSearch().select((), query) == []


def test_ties_are_ordered_by_name_then_by_path(library: Library) -> None:
    search = SkillSearch()
    for top_k, paths in ((10, ["w/twin", "x/twin"]), (1, ["w/twin"])):
        found = search.select(library.catalog.offered, "same", SelectionPolicy(top_k, 0.0))
        assert [match.skill.path for match in found] == paths


def test_stop_words_count_only_without_other_words(
    tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]
) -> None:
    assert query_words("Could you please help me with this PDF?") == ["pdf"]
    assert query_words("what can you do?") == ["what", "can", "you", "do"]
    write_skill(tmp_path, "a", description="You can do it.", body="x")
    assert len(SkillSearch().select(load(tmp_path).catalog.offered, "what can you do?")) == 1


def test_a_very_long_query_is_bounded() -> None:
    assert len(query_words(" ".join(f"w{number}" for number in range(1000)))) == MAX_WORDS


@pytest.mark.parametrize(("text", "expected"), [("Straße", "strasse"), ("ﬁle", "file"), ("É", "e"), ("한국", "한국")])
def test_folding_keeps_letters_that_distinguish_words(text: str, expected: str) -> None:
    assert fold(text) == expected


@given(text=st.text(st.characters(exclude_categories=())))
def test_any_text_can_be_folded_for_an_index(text: str) -> None:
    assert fold(text).encode("utf-8")[:0] == b""


def test_tags_include_and_exclude_in_any_case(names: Names) -> None:
    assert names("pdf", SelectionPolicy(10, 0.0, include_tags=("DATA",))) == ["csv-tables"]
    assert names("pdf", SelectionPolicy(10, 0.0, exclude_tags=("paper",))) == ["csv-tables"]
    assert names("", SelectionPolicy(10, 0.0, include_tags=("paper", "data"))) == ["csv-tables", "pdf-forms"]
    assert names("", SelectionPolicy(10, 0.0, exclude_tags=("paper",))) == []
    assert names("pdf", SelectionPolicy(0, 0.0)) == []


def test_a_match_has_its_words_by_field_and_its_relative_score(library: Library) -> None:
    best, second = SkillSearch().select(library.catalog.offered, "fill pdf form")
    assert dict(best.why) == {"name": ("pdf", "form"), "description": ("fill", "form")}
    assert dict(second.why) == {"body": ("pdf",)}
    assert (best.relative, best.band, best.weak) == (1.0, Band.HIGH, False)
    assert second.relative == pytest.approx(second.score / best.score)
    assert (second.band, second.weak) == (Band.TRACE, True)


def test_a_minimum_score_excludes_lower_ones(library: Library) -> None:
    search, skills = SkillSearch(), library.catalog.offered
    best, second = search.select(skills, "fill pdf form")
    policy = SelectionPolicy(10, (best.score + second.score) / 2)
    assert search.select(skills, "fill pdf form", policy) == [best]


def test_an_updated_index_equals_a_new_one(tmp_path: Path, library: Library, write_skill: Callable[..., Path]) -> None:
    search = SkillSearch()
    search.select(library.catalog.offered, "pdf")
    for step in range(3):
        write_skill(tmp_path, "pdf-forms", description=f"Fill number{step}.", body="pdf 数据 " * step)
        write_skill(tmp_path, f"new{step}", description="Sign a pdf.")
        library.reload()
        for query in ("pdf", "number1 sign", "same", "fill", "数据"):
            assert search.select(library.catalog.offered, query) == SkillSearch().select(library.catalog.offered, query)
    fewer = library.catalog.offered[:2]
    assert search.select(fewer, "pdf same") == SkillSearch().select(fewer, "pdf same")


def test_threads_may_search_different_catalogs_at_once(library: Library) -> None:
    search, skills = SkillSearch(), library.catalog.offered
    catalogs = [skills, skills[:3], skills[3:]]
    expected = [SkillSearch().select(catalog, "pdf same notes") for catalog in catalogs]
    with ThreadPoolExecutor(8) as threads:
        for found in threads.map(lambda turn: (turn, search.select(catalogs[turn % 3], "pdf same notes")), range(60)):
            assert found[1] == expected[found[0] % 3]


def test_without_a_full_text_index_the_lexical_score_is_used(
    library: Library, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def connect(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("no such module: fts5")

    monkeypatch.setattr(sqlite3, "connect", connect)
    with caplog.at_level(logging.WARNING):
        search = SkillSearch()
    assert "no such module: fts5" in caplog.text
    found = search.select(library.catalog.offered, "pdf")
    assert [match.skill.name for match in found] == ["pdf-forms", "csv-tables"]
    assert found[0].score > found[1].score > 0
    tagged = search.select(library.catalog.offered, "", SelectionPolicy(10, 0.0, include_tags=("paper",)))
    assert [match.skill.name for match in tagged] == ["pdf-forms"]


def test_a_menu_has_matches_within_a_tenth_of_the_best_that_are_not_weak(library: Library) -> None:
    search, skills = SkillSearch(), library.catalog.offered
    assert [match.skill.path for match in menu_of(search.select(skills, "same"))] == ["w/twin", "x/twin"]
    assert menu_of(search.select(skills, "fill pdf form")) == ()
    assert menu_of(search.select(skills, "same zebra quagga okapi")) == ()
    assert menu_of([]) == ()


@pytest.fixture
def catalog(tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]) -> Catalog:
    for number in range(20):
        body = f"Runs number {number} of the tests. {'Words upon words. ' * number}"
        write_skill(tmp_path, f"skill-{number}", description=f"Tests run {number}", body=body)
    return load(tmp_path).catalog


def test_concurrent_searches_find_the_same_as_single_ones(catalog: Catalog) -> None:
    queries = [f"run tests number {number} word{number}" for number in range(40)]
    alone = [SkillSearch().select(catalog.offered, query) for query in queries]
    shared = SkillSearch()
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda query: shared.select(catalog.offered, query), queries)) == alone


def test_stems_equal_the_indexs_own_after_any_number_of_words() -> None:
    stems = Stems()
    expected = Stems().of(["running", "tests", "_", "running"])
    assert expected == {"running": "run", "tests": "test"}
    for start in range(0, MAX_STEMS + 20_000, 10_000):
        stems.of(f"word{number}" for number in range(start, start + 10_000))
        assert stems.of(["running", "tests", "_"]) == expected
