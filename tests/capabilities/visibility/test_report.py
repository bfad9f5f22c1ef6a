"""What a client's own list shows, and what is advised where texts are shortened or left out."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.capabilities.visibility.report import (
    ClientVisibility,
    Shortening,
    advice,
    native_skills,
    visibility_report,
)
from server.capabilities.visibility.served_listing import EntryState
from server.clients.known import find_client
from server.clients.profile import Evidence, NativeListing, Overflow
from server.listing.snapshot import Snapshot
from skills_core.catalog.catalog import Catalog
from tests.server.settings import make_settings
from tests.skill_values import catalog_of, skill_of

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


def visible(catalog: Catalog, client: str = "somebody", **settings: Any) -> ClientVisibility:
    snapshot = Snapshot(catalog, make_settings(**settings))
    (found,) = visibility_report(snapshot, [(find_client(client), None)], 200_000).clients
    return found


def test_a_catalog_that_fits_needs_no_advice() -> None:
    found = visible(catalog_of("Short.", "Also short."))
    assert (found.shortening, [*advice(found)], found.hides_skills) == (Shortening((), 0), [], False)


def test_shortened_texts_are_counted_and_the_longest_are_named() -> None:
    found = visible(catalog_of(*["word " * 60] * 10, "Short."), catalog_budget=2000)
    assert len(found.shortening.skills) == 10
    assert 100 < found.shortening.characters < 300
    assert not found.hides_skills
    lines = [*advice(found)]
    assert lines[0] == f"10 texts are shortened to {found.shortening.characters} characters or less."
    assert lines[1].startswith("Shorter descriptions leave room for others. The longest: skill-000 (299), ")


def test_if_not_even_short_texts_fit_the_skills_without_an_entry_are_named() -> None:
    found = visible(catalog_of(*["word " * 60] * 100), catalog_budget=1000)
    assert found.hides_skills
    (first, second, _) = advice(found)
    assert first.startswith("Not even short texts of all 100 fit into 1,000 characters: find_skills finds the others; ")
    assert "Not listed unless --pin puts them first: skill-" in first
    assert "which tell a model little: serve fewer." in second


def test_always_on_skills_stay_first_when_texts_are_cut() -> None:
    first = skill_of("z-first", "word " * 100, triggers=("*",))
    found = visible(Catalog((*catalog_of(*["word " * 100] * 40).skills, first)), catalog_budget=1000)
    assert found.served.skills[0].skill is first
    assert found.served.skills[0].entry is EntryState.SHORTENED


def test_where_three_texts_have_entries_all_their_room_counts() -> None:
    assert visible(catalog_of("One."), "claude-code").served.budget == 3 * 4096
