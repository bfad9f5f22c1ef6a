"""The reranker by embeddings: what is encoded, when, and what becomes of wrong vectors."""

from __future__ import annotations

import logging
import math
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skills_core import EmbeddingReranker, Library, SelectionPolicy, Skill, SkillSearch
from skills_core.selection import embeddings
from skills_core.selection.embeddings import MAX_DIMENSIONS
from tests.core.selection.hashing_encoder import encode

TEN = SelectionPolicy(top_k=10, min_score=0.0)

Skills = tuple[Skill, ...]


class Recording:
    """An encoder that keeps the texts of each call."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, texts: list[str], /) -> list[list[float]]:
        self.calls.append(texts)
        return encode(texts)

    @property
    def texts(self) -> list[str]:
        return [text for call in self.calls for text in call]


@pytest.fixture
def write(tmp_path: Path, write_skill: Callable[..., Path]) -> Callable[..., Path]:
    return lambda name, **options: write_skill(tmp_path / "skills", name, **options)


@pytest.fixture
def skills(tmp_path: Path, write: Callable[..., Path], load: Callable[..., Library]) -> Skills:
    write("pdf-forms", description="Fill in forms.", fields="when_to_use: A form is to be signed.\ntriggers: [sign]")
    write("invoices", description="Read bills.")
    write("travelling", description="Plan a trip.")
    return load(tmp_path / "skills").catalog.offered


def names(search: SkillSearch, skills: Skills, query: str) -> list[str]:
    return [match.skill.name for match in search.select(skills, query, TEN)]


def test_a_skill_is_found_by_the_similarity_of_its_text(skills: Skills) -> None:
    assert names(SkillSearch(), skills, "travelin") == []
    assert names(SkillSearch(EmbeddingReranker(encode, "hash")), skills, "travelin")[0] == "travelling"


def test_a_text_has_what_says_when_to_use_the_skill(skills: Skills) -> None:
    texts = {skill.name: embeddings.embedded_text(skill.content) for skill in skills}
    begin = "pdf-forms: Fill in forms.\nA form is to be signed.\nsign\n"
    assert texts["pdf-forms"].startswith(begin)
    assert texts["pdf-forms"].endswith(next(skill.body for skill in skills if skill.name == "pdf-forms").rstrip())


def test_texts_are_bounded(write: Callable[..., Path], load: Callable[..., Library], tmp_path: Path) -> None:
    write("long", body="word " * 10_000)
    recording = Recording()
    SkillSearch(EmbeddingReranker(recording, "hash")).select(
        load(tmp_path / "skills").catalog.offered, "word " * 10_000
    )
    assert {len(text) for text in recording.texts} == {2000}


def test_each_skill_is_encoded_once(skills: Skills) -> None:
    recording = Recording()
    search = SkillSearch(EmbeddingReranker(recording, "hash"))
    for query in ("forms", "bills"):
        search.select(skills, query, TEN)
    assert [len(call) for call in recording.calls] == [1, len(skills), 1]


def test_only_a_changed_skill_is_encoded_again(
    skills: Skills, tmp_path: Path, write: Callable[..., Path], load: Callable[..., Library]
) -> None:
    recording = Recording()
    search = SkillSearch(EmbeddingReranker(recording, "hash", cache=tmp_path / "cache"))
    search.select(skills, "forms", TEN)
    write("invoices", description="Read bills and receipts.")
    search.select(load(tmp_path / "skills").catalog.offered, "forms", TEN)
    assert len(recording.texts) == 2 + len(skills) + 1
    assert recording.texts[-1].startswith("invoices: Read bills and receipts.")


def test_a_restart_encodes_no_skill_again(skills: Skills, tmp_path: Path) -> None:
    first, again = Recording(), Recording()
    found = [
        SkillSearch(EmbeddingReranker(recording, "hash", cache=tmp_path / "cache")).select(skills, "travelin", TEN)
        for recording in (first, again)
    ]
    assert found[0] == found[1]
    assert (len(first.texts), again.texts) == (1 + len(skills), ["travelin"])


def test_another_model_does_not_use_the_vectors(skills: Skills, tmp_path: Path) -> None:
    for model in ("one", "two"):
        recording = Recording()
        EmbeddingReranker(recording, model, cache=tmp_path / "cache")("travelin", skills)
        assert len(recording.texts) == 1 + len(skills)


def test_vectors_of_another_length_are_computed_again(skills: Skills, tmp_path: Path) -> None:
    EmbeddingReranker(lambda texts: [[1.0, 2.0] for _ in texts], "m", cache=tmp_path)("travelin", skills)
    recording = Recording()
    EmbeddingReranker(recording, "m", cache=tmp_path)("travelin", skills)
    assert len(recording.texts) == 1 + len(skills)
    again = Recording()
    EmbeddingReranker(again, "m", cache=tmp_path)("travelin", skills)
    assert again.texts == ["travelin"]


def test_a_search_does_not_wait_for_all_vectors(
    tmp_path: Path, write: Callable[..., Path], load: Callable[..., Library]
) -> None:
    for number in range(40):
        write(f"s{number:03}", description=f"Number {number}.")
    many = load(tmp_path / "skills").catalog.offered
    recording = Recording()
    reranker = EmbeddingReranker(recording, "hash", cache=tmp_path / "cache", seconds=0)
    known = [len([*reranker("travelin", many).cosines]) for _ in range(4)]
    assert known == [16, 32, 40, 40]
    assert len(recording.texts) == 4 + len(many)
    patient = EmbeddingReranker(encode, "hash", seconds=math.inf)
    assert len([*patient("travelin", many).cosines]) == 40


def test_vectors_before_a_failure_are_kept(
    tmp_path: Path, write: Callable[..., Path], load: Callable[..., Library]
) -> None:
    for number in range(20):
        write(f"s{number:03}", description=f"Number {number}.")
    many = load(tmp_path / "skills").catalog.offered
    broken = next(skill for skill in many if skill.name == "s019")

    def fails(texts: list[str]) -> list[list[float]]:
        if embeddings.embedded_text(broken.content) in texts:
            raise RuntimeError("no memory")
        return encode(texts)

    with pytest.raises(RuntimeError):
        EmbeddingReranker(fails, "hash", cache=tmp_path / "cache")("travelin", many)
    recording = Recording()
    EmbeddingReranker(recording, "hash", cache=tmp_path / "cache")("travelin", many)
    assert len(recording.texts) == 1 + 4


def test_vectors_that_are_no_longer_used_are_dropped_beyond_the_limit(
    skills: Skills, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embeddings, "_SPARE", 1)
    recording = Recording()
    reranker = EmbeddingReranker(recording, "hash")
    for chosen in (skills[:2], skills[2:], skills[:2]):
        reranker("travelin", chosen)
    # Of the first two, one vector was kept.
    assert [len(call) for call in recording.calls] == [1, 2, 1, 1, 1, 1]


@pytest.mark.parametrize(
    "answer",
    [
        [],
        [[1.0]] * 7,
        [[]],
        [[math.nan]],
        [[math.inf, 1.0]],
        [["one"]],
        [None],
        None,
        1.0,
        [[1.0] * (MAX_DIMENSIONS + 1)],
    ],
)
def test_wrong_vectors_leave_the_word_ranking(
    skills: Skills, caplog: pytest.LogCaptureFixture, tmp_path: Path, answer: Any
) -> None:
    def wrong(texts: list[str]) -> Any:
        return encode(texts) if texts == ["forms"] else answer

    for reranker in (lambda _: answer, wrong):
        with caplog.at_level(logging.ERROR):
            search = SkillSearch(EmbeddingReranker(reranker, "hash", cache=tmp_path / "cache"))
            assert search.select(skills, "forms", TEN) == SkillSearch().select(skills, "forms", TEN)
        assert "the reranker failed" in caplog.text
        caplog.clear()
    assert not (tmp_path / "cache").exists()


def test_a_text_without_a_direction_is_similar_to_nothing(skills: Skills) -> None:
    found = EmbeddingReranker(lambda texts: [[0.0, 0.0] for _ in texts], "zero")("forms", skills)
    assert [cosine for _, cosine in found.cosines] == [0.0] * len(skills)


def test_a_lone_surrogate_does_not_stop_the_search(skills: Skills) -> None:
    recording = Recording()
    EmbeddingReranker(recording, "hash")("forms \ud800", skills)
    assert recording.texts[0] == "forms ?"


def test_weight_and_threshold_are_those_of_the_model(skills: Skills) -> None:
    found = EmbeddingReranker(encode, "hash", weight=1.5, fits=0.7)("forms", skills)
    assert (found.weight, found.fits) == (1.5, 0.7)


def test_cosines_are_the_same_with_and_without_numpy(skills: Skills, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numpy")
    with_numpy = [cosine for _, cosine in EmbeddingReranker(encode, "hash")("forms", skills).cosines]
    monkeypatch.setitem(sys.modules, "numpy", None)
    without = [cosine for _, cosine in EmbeddingReranker(encode, "hash")("forms", skills).cosines]
    assert without == pytest.approx(with_numpy, abs=1e-6)


def test_no_skills_have_no_similarities() -> None:
    assert EmbeddingReranker(encode, "hash")("forms", []).cosines == ()


def test_searches_in_several_threads_encode_each_skill_once(skills: Skills) -> None:
    recording = Recording()
    reranker = EmbeddingReranker(recording, "hash")
    threads = [threading.Thread(target=reranker, args=("forms", skills)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recording.texts.count("forms") == 8
    assert len(recording.texts) == 8 + len(skills)


def test_a_search_does_not_wait_for_another_that_computes_vectors(skills: Skills) -> None:
    begun, finish = threading.Event(), threading.Event()

    def slow(texts: list[str]) -> list[list[float]]:
        if texts != ["forms"]:
            begun.set()
            assert finish.wait(30)
        return encode(texts)

    reranker = EmbeddingReranker(slow, "hash")
    first = threading.Thread(target=reranker, args=("forms", skills))
    first.start()
    assert begun.wait(30)
    assert reranker("forms", skills).cosines == ()
    finish.set()
    first.join()
    assert len([*reranker("forms", skills).cosines]) == len(skills)
