"""An index of texts in a file: kept, shared, damaged, and no part of the scores of others' skills."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from array import array
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core import SelectionPolicy
from skills_core.selection import bm25, postings, ranking
from skills_core.selection.bm25 import SkillRows, count_members
from skills_core.selection.fulltext import pieces_of
from skills_core.selection.postings import Postings, TextIndex
from skills_core.selection.ranking import SkillSearch
from tests.skill_values import skill_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from skills_core import Library, Skill, SkillContent

QUERIES = ("pdf", "fill the form of numbers", "word3 word7 number", "common rare4")


@pytest.fixture
def library(tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]) -> Library:
    root = tmp_path / "skills"
    for number in range(30):
        body = f"Fill form number {number}. common {'rare4' if number % 9 == 0 else ''} word{number % 5} " * (
            number % 4
        )
        write_skill(root, f"s{number:02}", description=f"Forms word{number % 8} of pdf.", body=body)
    return load(root)


@pytest.fixture
def skills(library: Library) -> tuple[Skill, ...]:
    return library.catalog.offered


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "search.db"


def answers(search: SkillSearch, skills: tuple[Skill, ...]) -> list[object]:
    return [search.select(skills, query) for query in QUERIES]


def test_an_index_in_a_file_finds_what_one_in_memory_finds_and_is_read_again(
    skills: tuple[Skill, ...], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = answers(SkillSearch(), skills)
    assert answers(SkillSearch(texts=TextIndex(path)), skills) == expected

    def read(*_: object, **__: object) -> object:
        raise AssertionError("indexed again")

    monkeypatch.setattr(SkillRows, "read", read)
    assert answers(SkillSearch(texts=TextIndex(path)), skills) == expected


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
def test_only_the_user_can_read_the_file(skills: tuple[Skill, ...], path: Path) -> None:
    answers(SkillSearch(texts=TextIndex(path)), skills)
    assert {each.stat().st_mode & 0o777 for each in path.parent.iterdir()} == {0o600}


def test_scores_depend_on_no_other_skill_of_a_shared_index(skills: tuple[Skill, ...], path: Path) -> None:
    texts = TextIndex(path)
    whole, few = SkillSearch(texts=texts), SkillSearch(texts=texts)
    assert answers(whole, skills) == answers(SkillSearch(), skills)
    assert answers(few, skills[5:12]) == answers(SkillSearch(), skills[5:12])


def test_what_another_search_adds_meanwhile_changes_nothing(
    skills: tuple[Skill, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = TextIndex()
    one, other = SkillSearch(texts=texts), SkillSearch(texts=texts)
    one.select(skills[:5], "pdf")
    read = texts.postings

    def meanwhile(stem: str) -> Postings:
        monkeypatch.undo()
        other.select(skills, "number")
        return read(stem)

    monkeypatch.setattr(texts, "postings", meanwhile)
    assert answers(one, skills[:5]) == answers(SkillSearch(), skills[:5])


def test_two_indexes_of_one_file_index_each_content_once(skills: tuple[Skill, ...], path: Path) -> None:
    one, other = TextIndex(path), TextIndex(path)
    searches = [SkillSearch(texts=one), SkillSearch(texts=other)]
    for part in (skills[:10], skills[:20], skills):
        for search in searches:
            assert answers(search, part) == answers(SkillSearch(), part)
    assert len(one) == len(other) == len(skills)


def test_what_one_process_clears_another_indexes_again(skills: tuple[Skill, ...], path: Path) -> None:
    one, other = TextIndex(path), TextIndex(path)
    search = SkillSearch(texts=one)
    expected = answers(search, skills)
    other.clear()
    assert answers(search, skills) == expected
    assert len(other) == len(skills)


@pytest.mark.parametrize("damage", ["no database", "torn", "no table", "another version"])
def test_a_damaged_file_changes_no_answer(skills: tuple[Skill, ...], path: Path, damage: str) -> None:
    expected = answers(SkillSearch(texts=TextIndex(path)), skills)
    if damage == "no database":
        path.write_bytes(b"not a database, but of some length" * 100)
    elif damage == "torn":
        raw = path.read_bytes()
        path.write_bytes(raw[: len(raw) // 2] + b"\x55" * 2000)
    else:
        with sqlite3.connect(path) as database:
            database.execute("DROP TABLE contents" if damage == "no table" else "UPDATE about SET value = '0'")
    for _ in range(2):
        assert answers(SkillSearch(texts=TextIndex(path)), skills) == expected


def test_postings_that_are_damaged_are_noticed(
    skills: tuple[Skill, ...], path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = answers(SkillSearch(texts=TextIndex(path)), skills)
    with closing(sqlite3.connect(path)) as database, database:
        changed = "UPDATE postings SET rows = zeroblob(length(rows)) WHERE stem = 'pdf'"
        assert database.execute(changed).rowcount
    assert answers(SkillSearch(texts=TextIndex(path)), skills) == expected
    assert "damaged postings" in caplog.text


def test_a_file_of_a_version_with_a_table_of_full_texts_is_emptied(skills: tuple[Skill, ...], path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE VIRTUAL TABLE texts USING fts5(name, content='')")
        database.execute("CREATE TABLE about(name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID")
        database.execute("INSERT INTO about VALUES ('version', '2'), ('generation', '7')")
    path.chmod(0o600)
    assert answers(SkillSearch(texts=TextIndex(path)), skills) == answers(SkillSearch(), skills)
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT count(*) FROM contents").fetchone() == (len(skills),)
        assert database.execute("SELECT value FROM about WHERE name = 'generation'").fetchone() == ("8",)
        assert not database.execute("SELECT 1 FROM sqlite_master WHERE name LIKE 'texts%'").fetchall()


def test_a_file_that_fails_later_is_replaced_by_memory(
    skills: tuple[Skill, ...], path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    search = SkillSearch(texts=TextIndex(path))
    expected = answers(search, skills[:20])
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE contents")
    with caplog.at_level(logging.WARNING):
        assert answers(search, skills) == answers(SkillSearch(), skills)
    assert "kept in memory" in caplog.text
    assert answers(search, skills[:20]) == expected


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
def test_a_file_of_others_is_not_used(skills: tuple[Skill, ...], path: Path) -> None:
    path.parent.mkdir()
    path.touch(0o600)
    path.chmod(0o644)
    assert answers(SkillSearch(texts=TextIndex(path)), skills) == answers(SkillSearch(), skills)
    assert path.read_bytes() == b""


def test_a_search_over_some_leaves_others_out_until_they_are_indexed(skills: tuple[Skill, ...]) -> None:
    search = SkillSearch(at_once=10)
    assert search.select(skills[:10], "pdf", SelectionPolicy(100, 0.0))
    assert search.unsearched == 0
    found = search.select(skills, "pdf", SelectionPolicy(100, 0.0))
    assert {match.skill.key for match in found} <= {skill.key for skill in skills[:10]}
    assert search.unsearched == 20
    paused: list[int] = []
    search.warm(skills, lambda: paused.append(1))
    assert search.unsearched == 0
    assert len(paused) >= 20
    assert answers(search, skills) == answers(SkillSearch(), skills)


@pytest.mark.parametrize("step", ["_found", "_add_segment"])
def test_a_search_does_not_wait_for_what_is_looked_up_and_indexed_meanwhile(
    skills: tuple[Skill, ...], path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    search = SkillSearch(texts=TextIndex(path))
    search.warm(skills[:10])
    act, reached, searched = getattr(postings, step), threading.Event(), threading.Event()

    def waiting(*args: object) -> object:
        reached.set()
        assert searched.wait(30)
        return act(*args)

    monkeypatch.setattr(postings, step, waiting)
    with ThreadPoolExecutor(2) as threads:
        warming = threads.submit(search.warm, skills)
        assert reached.wait(30)
        try:
            assert threads.submit(search.select, skills[:10], "pdf").result(30)
        finally:
            searched.set()
        warming.result(30)
    assert answers(search, skills) == answers(SkillSearch(), skills)


def test_what_a_search_waits_for_is_bounded_by_a_number_of_skills(
    skills: tuple[Skill, ...], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SkillSearch(texts=TextIndex(path)).warm(skills)
    monkeypatch.setattr(ranking, "_BATCH", 4)
    monkeypatch.setattr(ranking, "_LOOKED_UP", 3)
    texts = TextIndex(path)
    search = SkillSearch(texts=texts, at_once=0)
    find, place = texts.rows_of, SkillRows.place
    looked_up, placed, unsearched = list[int](), list[int](), list[int]()

    def finding(keys: Sequence[bytes]) -> list[int]:
        looked_up.append(len(keys))
        return find(keys)

    def placing(rows: SkillRows, contents: Sequence[SkillContent], *given: Any) -> None:
        placed.append(len(contents))
        place(rows, contents, *given)

    def pause() -> None:
        search.select(skills, "pdf")
        unsearched.append(search.unsearched)

    monkeypatch.setattr(texts, "rows_of", finding)
    monkeypatch.setattr(SkillRows, "place", placing)
    search.select(skills, "pdf")
    assert (looked_up, placed) == ([3], [3])
    search.warm(skills, pause, compare=False)
    assert max(looked_up) == max(placed) == 4
    assert unsearched == [23, 19, 15, 11, 7, 3, 0]


def test_what_is_indexed_ahead_is_what_is_searched_since(skills: tuple[Skill, ...], path: Path) -> None:
    search = SkillSearch(texts=TextIndex(path), at_once=0)

    def pause() -> None:
        answers(search, skills)

    search.warm(skills[:10], pause)
    assert search.unsearched == 0
    assert answers(search, skills) == answers(SkillSearch(), skills)


def test_a_small_library_is_indexed_before_signatures_are_made(
    skills: tuple[Skill, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for most, signed in ((len(skills), False), (0, True)):
        monkeypatch.setattr(ranking, "_SIGNED_LATER", most)
        texts = TextIndex()
        search = SkillSearch(texts=texts)
        search.warm(skills, compare=False)
        rows = range(1, len(texts) + 1)
        assert {each is not None for each in texts.signatures_of(rows)} == {signed}
        search.warm(skills)
        assert None not in texts.signatures_of(rows)


def test_contents_that_no_skill_has_any_more_are_forgotten_in_time(
    library: Library, tmp_path: Path, write_skill: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skills_core.selection.ranking._MOSTLY_STALE", 40)
    texts = SkillSearch()
    for turn in range(60):
        write_skill(tmp_path / "skills", "s00", description=f"Version{turn} of pdf.")
        library.reload()
        assert texts.select(library.catalog.offered, f"version{turn}")[0].skill.name == "s00"
    assert texts._own is not None
    assert len(texts._own) <= 61
    assert answers(texts, library.catalog.offered) == answers(SkillSearch(), library.catalog.offered)


def test_the_best_are_the_same_whichever_words_are_looked_up_last(skills: tuple[Skill, ...]) -> None:
    search = SkillSearch()
    for query in (*QUERIES, "rare4 word3 fill pdf common form number"):
        everything = search.select(skills, query, SelectionPolicy(100, 0.0))
        for top in (1, 3):
            best = search.select(skills, query, SelectionPolicy(top, 0.0))
            assert [(match.skill, match.why) for match in best] == [(each.skill, each.why) for each in everything[:top]]
            assert [match.score for match in best] == pytest.approx([match.score for match in everything[:top]])


WORDS = [f"word{number}" for number in range(12)]


def text_of(rng: Random, most: int) -> str:
    """Return a text in which the first words are rare, and the last ones frequent."""
    return " ".join(rng.choices(WORDS, [2**number for number in range(len(WORDS))], k=rng.randrange(most)))


@given(rng=st.randoms(use_true_random=False), leading=st.sampled_from([1, 3, 100]), kept=st.sampled_from([0, 1, 4]))
def test_the_best_are_those_of_a_ranking_that_scores_all(rng: Random, leading: int, kept: int) -> None:
    skills = tuple(skill_of(f"s{number}", text_of(rng, 8), text_of(rng, 20)) for number in range(rng.randrange(1, 80)))
    index = TextIndex()
    SkillSearch(texts=index).warm(skills, compare=False)
    # As a view has it: some skills of a shared index.
    shown = tuple(skill for skill in skills if rng.random() < rng.choice((0.5, 1.0))) or skills
    search = SkillSearch(texts=index)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bm25, "_LEADING", leading)
        patch.setattr(bm25, "_KEPT_GAINS", kept)
        for query in (" ".join(rng.sample(WORDS, rng.randrange(1, 6))) for _ in range(6)):
            everything = search.select(shown, query, SelectionPolicy(len(skills) + 1, 0.0))
            for top in (1, 2, 5):
                best = search.select(shown, query, SelectionPolicy(top, 0.0))
                assert [(each.skill, each.score, each.why) for each in best] == [
                    (each.skill, each.score, each.why) for each in everything[:top]
                ]


def postings_of(texts: TextIndex, stems: Iterable[str]) -> list[tuple[list[int], list[int]]]:
    return [(found.rows.tolist(), found.packed.tolist()) for found in map(texts.postings, stems)]


@given(data=st.data())
def test_postings_do_not_depend_on_how_contents_are_added(data: st.DataObject) -> None:
    words = st.lists(st.sampled_from(["pdf", "forms", "form", "tests"]), max_size=4).map(" ".join)
    contents = data.draw(st.lists(st.tuples(words, words, words, words), min_size=1, max_size=40))
    together, apart = TextIndex(), TextIndex()
    counts = {b"%d" % number: each for number, each in enumerate(together.count([*map(pieces_of, contents)]))}
    keys = list(counts)
    together.add(counts)
    while keys:
        size = data.draw(st.integers(1, 8))
        apart.add({key: counts[key] for key in keys[:size]})
        keys = keys[size:]
    stems = ("pdf", "form", "test", "other")
    assert postings_of(apart, stems) == postings_of(together, stems)
    assert apart.lengths == together.lengths


def test_another_process_may_join_what_one_knows_with_what_it_does_not(path: Path) -> None:
    one, other = TextIndex(path), TextIndex(path)
    (counted,) = one.count([pieces_of(("pdf", "", "", ""))])
    counts = {b"%d" % number: counted for number in range(5)}
    rows = one.add({key: counts[key] for key in (b"0", b"1")})
    other.add(counts)
    assert postings_of(one, ["pdf"])[0][0] == rows
    assert one.rows_of([*counts]) == postings_of(one, ["pdf"])[0][0] == [1, 2, 3, 4, 5]


@given(st.lists(st.text(), min_size=4, max_size=4))
def test_words_are_those_of_the_full_text_index(texts: list[str]) -> None:
    texts = [each.encode("utf-8", "replace").decode() for each in texts]
    index = TextIndex()
    ((length, packed),) = index.count([pieces_of(texts)])
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE VIRTUAL TABLE texts USING fts5(a, b, c, d, tokenize='porter unicode61')")
        database.execute("CREATE VIRTUAL TABLE words USING fts5vocab(texts, instance)")
        database.execute("INSERT INTO texts VALUES (?, ?, ?, ?)", texts)
        words = database.execute("SELECT term, col FROM words").fetchall()
    assert length == len(words)
    fields: dict[str, int] = defaultdict(int)
    for term, field in words:
        fields[term] |= 1 << "abcd".index(field)
    assert {stem: count & 15 for stem, count in packed.items()} == fields


def test_a_word_that_comes_very_often_keeps_its_fields() -> None:
    index = TextIndex()
    (counted,) = index.count([pieces_of(("pdf", "", "", "pdf " * 100_000))])
    index.add({b"key": counted})
    (packed,) = index.postings("pdf").packed
    assert packed & 15 == 0b1001
    assert packed >> 4 > 4000


@given(data=st.data())
def test_members_are_counted_whatever_their_number(data: st.DataObject) -> None:
    members = bytearray([0, *data.draw(st.lists(st.sampled_from([1, 1, 1, 0]), min_size=1, max_size=80))])
    rows = sorted(data.draw(st.sets(st.integers(1, len(members) - 1))))
    assert count_members(array("I", rows), members, members.count(0)) == sum(members[row] for row in rows)
