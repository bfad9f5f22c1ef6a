"""Alike skills: what a signature tells, which groups there are, and what a start computes again."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from random import Random
from runpy import run_path
from struct import pack
from typing import TYPE_CHECKING
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.config.machine import current_environment
from skills_core.disk.sources import explicit_sources
from skills_core.live.library import Library
from skills_core.selection import twins
from skills_core.selection.postings import TextIndex
from skills_core.selection.ranking import SkillSearch
from skills_core.selection.twins import ALIKE, BINS, Bands, alike, signature, similarity
from tests.command_shapes import REPOSITORY
from tests.skill_values import skill_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from skills_core.skills.skill import Skill


def words_of(seed: str, count: int) -> list[str]:
    rng = Random(seed)  # noqa: S311 - reproducible, not secret
    return [f"w{rng.randrange(10_000)}" for _ in range(count)]


def shingles_of(text: str) -> set[tuple[str, ...]]:
    words = text.split()
    return {*zip(words, words[1:], words[2:], strict=False)}


def jaccard(one: str, other: str) -> float:
    a, b = shingles_of(one), shingles_of(other)
    return len(a & b) / len(a | b)


def fork_of(text: str, changed: int) -> str:
    """Return a text of which the last words are others."""
    words = text.split()
    return " ".join([*words[: len(words) - changed], *words_of(f"fork {text[:50]} {changed}", changed)])


@pytest.mark.parametrize("size", [60, 200, 1000])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.6, 1.0])
def test_a_signature_estimates_how_much_two_texts_have_in_common(size: int, share: float) -> None:
    errors = []
    for number in range(20):
        text = " ".join(words_of(f"text {number}", size))
        fork = fork_of(text, round(size * share))
        errors.append(similarity(signature("", text), signature("", fork)) - jaccard(text, fork))
    # Four standard errors of one estimate, and of their mean; filled bins of short texts make it larger.
    spread = 4 * (0.25 / min(BINS, size)) ** 0.5
    assert max(map(abs, errors)) < spread
    assert abs(sum(errors) / len(errors)) < spread / len(errors) ** 0.5


def plain_signature(description: str, body: str) -> bytes:
    """Return what a signature is by its definition: files keep it, so another one needs another version of these."""
    words = f"{description} {body}".encode().split()
    hashes = {crc32(b" ".join(run)) for run in zip(words, words[1:], words[2:], strict=False)}
    if len(hashes) < twins._MIN_SHINGLES:
        return b""
    least = {
        number: min(each for each in hashes if each % BINS == number) for number in {each % BINS for each in hashes}
    }
    filled = [next(least[other] for other in twins._walk(number) if other in least) for number in range(BINS)]
    said = {twins._mixed(crc32(word.encode())) & 0xFFFF for word in twins._WORD.findall(description)}
    return pack(f">{BINS}H", *(twins._mixed(each) & 0xFFFF for each in filled)) + b"".join(
        pack(">H", each) for each in sorted(said)[:64]
    )


@given(rng=st.randoms(use_true_random=False))
def test_a_signature_has_the_smallest_hash_of_each_bin(rng: Random) -> None:
    words = [*words_of("any", 200), "é", "日本"]
    description, body = (" ".join(rng.choices(words, k=rng.randrange(least, 300))) for least in (0, 60))
    assert signature(description, body) == plain_signature(description, body)


def test_a_short_text_has_no_signature_and_is_alike_to_none() -> None:
    assert signature("Sign a form.", "Sign it.") == b""
    assert alike([b"", b""]) == []


def test_skills_of_one_template_are_told_apart_by_their_descriptions() -> None:
    body = " ".join(words_of("template", 300))
    made = [f"Checks {' '.join(words_of(f'kind {number}', 9))}. Use for checks." for number in range(50)]
    forks = [f"{description} And more of that." for description in made[::5]]
    described = [*made, *forks, made[0]]
    groups = alike([signature(description, body) for description in described])
    expected = {(5 * number, len(made) + number) for number in range(1, len(forks))}
    assert {group.members for group in groups} == {*expected, (0, len(made), len(described) - 1)}


def test_groups_do_not_depend_on_the_order_of_texts() -> None:
    texts = [" ".join(words_of(f"text {number}", 200)) for number in range(40)]
    forks = [fork_of(text, 10 + copy) for text in texts[::2] for copy in range(3)]
    every = [*texts, *forks, texts[0]]
    expected = {
        frozenset(every[member] for member in group.members) for group in alike([signature("", text) for text in every])
    }
    assert len(expected) == 20
    assert {len(group) for group in expected} == {4}
    Random(1).shuffle(every)  # noqa: S311 - reproducible, not secret
    groups = alike([signature("", text) for text in every])
    assert {frozenset(every[member] for member in group.members) for group in groups} == expected
    assert all(ALIKE <= group.least <= 1 for group in groups)


def test_of_generated_skills_all_forks_are_found_and_no_others(tmp_path: Path) -> None:
    count = 250
    corpus = run_path(str(REPOSITORY / "bench/scale_corpus.py"))
    corpus["write_scale_corpus"](tmp_path / "corpus", count)
    skills = Library(explicit_sources([tmp_path / "corpus"]), current_environment).catalog.offered
    search = SkillSearch()
    search.warm(skills)
    forks: dict[int, set[str]] = defaultdict(set)
    for number in range(count):
        forks[corpus["original"](number)].add(corpus["skill_path"](number).rpartition("/")[2])
    expected = {frozenset(group) for group in forks.values()}
    assert {frozenset(each.name for each in search.twins.of(skill)) for skill in skills} == expected
    assert max(map(len, expected)) > 10


def test_pauses_come_while_texts_are_compared() -> None:
    pauses: list[None] = []
    alike([signature("", " ".join(words_of("a", 100)))] * 2, lambda: pauses.append(None))
    assert pauses


def test_warming_finds_alike_skills_and_a_second_start_reads_no_signature_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = " ".join(words_of("body", 300))
    skills = tuple(skill_of(name, body=text) for name, text in (("a", body), ("b", fork_of(body, 20)), ("c", "Other.")))
    path = tmp_path / "search.db"
    first = SkillSearch(texts=TextIndex(path))
    assert not first.twins
    first.warm(skills)
    assert [skill.name for skill in first.twins.of(skills[0])] == ["a", "b"]
    assert first.twins.of(skills[2]) == (skills[2],)

    def compute(_: object) -> bytes:
        raise AssertionError("computed again")

    monkeypatch.setattr("skills_core.selection.bm25.signature", compute)
    second = SkillSearch(texts=TextIndex(path))
    second.warm(skills)
    assert [skill.name for skill in second.twins.of(skills[1])] == ["a", "b"]


def test_only_the_skills_of_a_search_are_its_twins() -> None:
    body = " ".join(words_of("body", 300))
    one, other = skill_of("a", body=body), skill_of("b", body=body)
    texts = TextIndex()
    both, single = SkillSearch(texts=texts), SkillSearch(texts=texts)
    both.warm((one, other))
    single.warm((one,))
    assert both.twins.of(one) == [one, other]
    assert single.twins.of(one) == (one,)


NAMES = [f"skill-{number:02}" for number in range(24)]
FORMS = st.tuples(st.integers(0, 5), st.integers(0, 3))
STATES = st.dictionaries(st.sampled_from(NAMES), FORMS, max_size=len(NAMES))


@cache
def form_of(name: str, family: int, fork: int) -> Skill:
    """Return a skill that is alike to those of its family; of one family, only neighbours are."""
    words = words_of(f"family {family}", 160)
    changed = [*words[25 * fork :], *words_of(f"more of {family}", 75)[: 25 * fork]]
    description = f"Family {family} of skills, which has {' '.join(words[:6])}."
    return skill_of(name, description=description, body=" ".join(changed))


def groups_of(search: SkillSearch, skills: tuple[Skill, ...]) -> set[frozenset[int]]:
    return {frozenset(map(id, search.twins.of(skill))) for skill in skills}


@given(st.lists(STATES, min_size=2, max_size=5))
@settings(deadline=None, max_examples=30)
def test_after_a_change_the_groups_are_those_that_a_comparison_of_all_finds(
    states: list[dict[str, tuple[int, int]]],
) -> None:
    texts = TextIndex()
    search = SkillSearch(texts=texts)
    for state in states:
        skills = tuple(form_of(name, *state[name]) for name in NAMES if name in state)
        search.warm(skills)
        fresh = SkillSearch(texts=texts)
        fresh.warm(skills)
        assert groups_of(search, skills) == groups_of(fresh, skills)
        assert bool(search.twins) is bool(fresh.twins)


def test_a_change_reads_the_signatures_of_those_that_may_be_alike_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = TextIndex()
    search = SkillSearch(texts=texts)
    skills = tuple(form_of(name, number, 0) for number, name in enumerate(NAMES))
    search.warm(skills)
    read: set[int] = set()
    signatures_of = texts.signatures_of

    def noted(rows: Sequence[int]) -> list[bytes | None]:
        read.update(rows)
        return signatures_of(rows)

    monkeypatch.setattr(texts, "signatures_of", noted)
    after = (*skills[:-1], form_of(NAMES[-1], 0, 1))
    search.warm(after)
    assert search.twins.of(after[-1]) == [after[0], after[-1]]
    assert len(read) == 2


def test_an_edit_of_an_alike_skill_leaves_what_is_folded_and_a_skill_that_leaves_its_group_does_not() -> None:
    search = SkillSearch()
    first, second, other = form_of("a", 0, 0), form_of("b", 0, 0), form_of("c", 1, 0)
    search.warm((first, second, other))
    before = search.twins
    edited = form_of("b", 0, 1)
    search.warm((first, edited, other))
    assert search.twins.fold_as(before)
    assert search.twins.of(first) == [first, edited]
    search.warm((first, form_of("b", 1, 0), other))
    assert not search.twins.fold_as(before)
    assert search.twins.of(first) == (first,)


def test_texts_that_share_a_band_are_found_by_it_whatever_lies_between() -> None:
    bands = Bands()
    body = words_of("body", 400)
    signatures = [signature("", " ".join([*body[number:], *words_of("other", number)])) for number in range(0, 400, 20)]
    bands.add([*range(100, 120)], signatures)
    bands.add([7, 100], [b"", signatures[0]])
    for number, each in enumerate(signatures):
        shares = {
            100 + at
            for at, other in enumerate(signatures)
            if any(each[start : start + 8] == other[start : start + 8] for start in range(0, 2 * BINS, 8))
        }
        assert bands.sharing(each) == shares
        assert 100 + number in shares
