"""What a client would show of the same skills by itself."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.clients import Evidence, NativeListing, Overflow
from server.visibility.entry_state import Entry
from server.visibility.native_listing import native
from tests.server.visibility.conftest import catalog_of, skill_of

SOMEWHERE = Evidence("here", "2026-01-01")
OVERFLOWS = st.sampled_from(Overflow)
SIZES = st.lists(st.integers(1, 400), max_size=20)


def became(sizes: list[int], overflow: Overflow, budget: int | None, entry: int | None = None) -> list[Entry]:
    listing = NativeListing(SOMEWHERE, characters=budget, entry=entry, frame=4, overflow=overflow)
    skills = catalog_of(*("x" * size for size in sizes)).offered
    return [shown for _, shown in native(skills, listing, 200_000).skills]


@given(SIZES, OVERFLOWS, st.integers(1, 5000))
def test_every_skill_is_told_and_all_are_whole_where_there_is_room(
    sizes: list[int], overflow: Overflow, budget: int
) -> None:
    shown = became(sizes, overflow, budget)
    assert len(shown) == len(sizes)
    needed = sum(sizes) + len(sizes) * (len("skill-000") + 4)
    assert (set(shown) <= {Entry.WHOLE}) == (needed <= budget or not sizes)


@given(SIZES, OVERFLOWS, st.integers(1, 4000), st.integers(0, 2000))
def test_more_room_never_shows_less(sizes: list[int], overflow: Overflow, budget: int, more: int) -> None:
    rank = [Entry.MISSING, Entry.NAME, Entry.CUT, Entry.WHOLE]
    less, room = became(sizes, overflow, budget), became(sizes, overflow, budget + more)
    assert all(rank.index(after) >= rank.index(before) for before, after in zip(less, room, strict=True))


@pytest.mark.parametrize(
    ("overflow", "expected"),
    [
        # A name and its frame cost 13, a description 100: 250 is room for two entries, or four names and two more.
        (Overflow.OMITTED, [Entry.WHOLE, Entry.WHOLE, Entry.MISSING, Entry.MISSING]),
        (Overflow.NAMES, [Entry.WHOLE, Entry.NAME, Entry.NAME, Entry.NAME]),
        (Overflow.SHORTENED, [Entry.CUT] * 4),
    ],
)
def test_what_has_no_room_is_left_out_named_or_shortened(overflow: Overflow, expected: list[Entry]) -> None:
    assert became([100] * 4, overflow, 250) == expected


def test_descriptions_are_dropped_before_skills_are_and_short_ones_leave_room_for_others() -> None:
    assert became([10, 300], Overflow.SHORTENED, 26 + 50) == [Entry.WHOLE, Entry.CUT]
    assert became([100] * 3, Overflow.SHORTENED, 30) == [Entry.NAME, Entry.NAME, Entry.MISSING]


def test_an_entry_has_its_own_limit_and_without_a_budget_no_other() -> None:
    assert became([100, 50], Overflow.NAMES, None, entry=60) == [Entry.CUT, Entry.WHOLE]


def test_when_to_use_counts_and_the_list_is_by_name() -> None:
    skills = [skill_of("b", "Four", when_to_use="Five."), skill_of("a", "Four")]
    found = native(skills, NativeListing(SOMEWHERE, frame=0), 200_000)
    assert [skill.name for skill, _ in found.skills] == ["a", "b"]
    assert found.length == len("a" + "Four" + "b" + "Four Five.")


def test_a_share_of_the_context_grows_with_it() -> None:
    skills = catalog_of(*["x" * 400] * 50).offered
    listing = NativeListing(SOMEWHERE, percent=1, overflow=Overflow.NAMES)
    small, large = (native(skills, listing, window) for window in (200_000, 1_000_000))
    assert (small.budget, large.budget) == (8_000, 40_000)
    whole = [Counter(entry for _, entry in found.skills)[Entry.WHOLE] for found in (small, large)]
    assert whole == [18, 50]
