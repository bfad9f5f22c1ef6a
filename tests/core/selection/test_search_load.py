"""Concurrent searches: none waits for the reasons of another, and all find what they find alone."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core.selection import SkillSearch, ranking
from skills_core.selection.fulltext import MAX_STEMS, Stems
from skills_core.selection.ranking import Vocabulary
from skills_core.selection.words import texts_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core import Catalog, Library

WORDS = st.sampled_from(
    ["run", "runs", "running", "runner", "ru", "test", "tests", "tested", "te", "x", "漢字", "naïve"]
)


@pytest.fixture
def catalog(tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]) -> Catalog:
    for number in range(20):
        body = f"Runs number {number} of the tests. {'Words upon words. ' * number}"
        write_skill(tmp_path, f"skill-{number}", description=f"Tests run {number}", body=body)
    return load(tmp_path).catalog


def test_a_search_does_not_wait_for_the_reasons_of_another(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    search, busy, go_on = SkillSearch(), threading.Event(), threading.Event()
    reasons_for = ranking.reasons_for

    def slow(*given: Any) -> Any:
        if threading.current_thread().name.startswith("slow"):
            busy.set()
            assert go_on.wait(60)
        return reasons_for(*given)

    monkeypatch.setattr(ranking, "reasons_for", slow)
    with ThreadPoolExecutor(1, "slow") as slow_one, ThreadPoolExecutor(1, "other") as other:
        first = slow_one.submit(search.select, catalog.offered, "run tests")
        assert busy.wait(60)
        try:
            second = other.submit(search.select, catalog.offered, "number").result(60)
        finally:
            go_on.set()
        assert second
        assert first.result(60) == SkillSearch().select(catalog.offered, "run tests")


def test_concurrent_searches_find_the_same_as_single_ones(catalog: Catalog) -> None:
    queries = [f"run tests number {number} word{number}" for number in range(40)]
    alone = [SkillSearch().select(catalog.offered, query) for query in queries]
    shared = SkillSearch()
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda query: shared.select(catalog.offered, query), queries)) == alone


@given(st.lists(WORDS, max_size=12), st.lists(WORDS, min_size=1, max_size=3))
def test_words_with_a_prefix_are_found_by_field(
    tmp_path_factory: pytest.TempPathFactory,
    write_skill: Callable[..., Path],
    load: Callable[..., Library],
    words: list[str],
    beginnings: list[str],
) -> None:
    root = tmp_path_factory.mktemp("skills")
    write_skill(root, "a", description=" ".join(["d", *words[:4]]), body=" ".join(words))
    (skill,) = load(root).catalog.active
    expected = [
        {word for word in re.findall(r"[^\W_]+", text) if word.startswith(tuple(beginnings))}
        for text in texts_of(skill.content)
    ]
    vocabulary = Vocabulary(skill.content)
    for _ in range(2):
        assert [set(field) for field in vocabulary.words_with_prefix(beginnings)] == expected


def test_stems_equal_the_indexs_own_after_any_number_of_words() -> None:
    stems = Stems()
    expected = Stems().of(["running", "tests", "_", "running"])
    assert expected == {"running": "run", "tests": "test"}
    for start in range(0, MAX_STEMS + 20_000, 10_000):
        stems.of(f"word{number}" for number in range(start, start + 10_000))
        assert stems.of(["running", "tests", "_"]) == expected
