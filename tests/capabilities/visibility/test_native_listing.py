"""What a client would show of the same skills if it read their folders itself."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.capabilities.visibility.native_listing import native_skills
from server.capabilities.visibility.served_listing import EntryState
from server.clients.profile import Evidence, NativeListing, Overflow
from tests.capabilities.visibility.conftest import catalog_of, skill_of

SOMEWHERE = Evidence("here", "2026-01-01")
OVERFLOWS = st.sampled_from(Overflow)
SIZES = st.lists(st.integers(1, 400), max_size=20)


def became(sizes: list[int], overflow: Overflow, budget: int | None, entry: int | None = None) -> list[EntryState]:
    listing = NativeListing(SOMEWHERE, characters=budget, entry=entry, frame=4, overflow=overflow)
    skills = catalog_of(*("x" * size for size in sizes)).offered
    return [shown for _, shown in native_skills(skills, listing, 200_000).skills]


@given(SIZES, OVERFLOWS, st.integers(1, 5000))
def test_every_skill_is_reported_and_whole_if_it_fits(sizes: list[int], overflow: Overflow, budget: int) -> None:
    shown = became(sizes, overflow, budget)
    assert len(shown) == len(sizes)
    needed = sum(sizes) + len(sizes) * (len("skill-000") + 4)
    assert (set(shown) <= {EntryState.WHOLE}) == (needed <= budget or not sizes)


@given(SIZES, OVERFLOWS, st.integers(1, 4000), st.integers(0, 2000))
def test_a_larger_budget_never_shows_less(sizes: list[int], overflow: Overflow, budget: int, more: int) -> None:
    rank = [EntryState.MISSING, EntryState.NAME, EntryState.CUT, EntryState.WHOLE]
    less, room = became(sizes, overflow, budget), became(sizes, overflow, budget + more)
    assert all(rank.index(after) >= rank.index(before) for before, after in zip(less, room, strict=True))


@pytest.mark.parametrize(
    ("overflow", "expected"),
    [
        # A name and its frame cost 13, a description 100: 250 is room for two entries, or four names and two more.
        (Overflow.OMITTED, [EntryState.WHOLE, EntryState.WHOLE, EntryState.MISSING, EntryState.MISSING]),
        (Overflow.NAMES, [EntryState.WHOLE, EntryState.NAME, EntryState.NAME, EntryState.NAME]),
        (Overflow.SHORTENED, [EntryState.CUT] * 4),
    ],
)
def test_skills_beyond_the_budget_are_omitted_named_or_shortened(
    overflow: Overflow, expected: list[EntryState]
) -> None:
    assert became([100] * 4, overflow, 250) == expected


def test_descriptions_are_dropped_before_skills_and_short_ones_leave_space_for_others() -> None:
    assert became([10, 300], Overflow.SHORTENED, 26 + 50) == [EntryState.WHOLE, EntryState.CUT]
    assert became([100] * 3, Overflow.SHORTENED, 30) == [EntryState.NAME, EntryState.NAME, EntryState.MISSING]


def test_without_a_budget_only_the_limit_of_an_entry_applies() -> None:
    assert became([100, 50], Overflow.NAMES, None, entry=60) == [EntryState.CUT, EntryState.WHOLE]


def test_when_to_use_counts_and_the_list_is_by_name() -> None:
    skills = [skill_of("b", "Four", when_to_use="Five."), skill_of("a", "Four")]
    found = native_skills(skills, NativeListing(SOMEWHERE, frame=0), 200_000)
    assert [skill.name for skill, _ in found.skills] == ["a", "b"]
    assert found.length == len("a" + "Four" + "b" + "Four Five.")


def test_a_share_of_the_context_grows_with_it() -> None:
    skills = catalog_of(*["x" * 400] * 50).offered
    listing = NativeListing(SOMEWHERE, percent=1, overflow=Overflow.NAMES)
    small, large = (native_skills(skills, listing, window) for window in (200_000, 1_000_000))
    assert (small.budget, large.budget) == (8_000, 40_000)
    whole = [Counter(entry for _, entry in found.skills)[EntryState.WHOLE] for found in (small, large)]
    assert whole == [18, 50]
