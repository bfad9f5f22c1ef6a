"""What a client's own list shows, and the effect of shorter texts or another order on a catalog within a budget."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.capabilities.visibility.report import Repacker, native_skills, text_of
from server.capabilities.visibility.served_listing import EntryState
from server.clients.profile import Evidence, NativeListing, Overflow
from server.config.settings.model import Settings
from server.config.settings.skills import CatalogSettings
from server.listing.layout import CatalogPlace, ListingLayout
from server.listing.snapshot import Snapshot
from skills_core.catalog.catalog import Catalog
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


TEXTS = st.lists(st.integers(1, 500).map(lambda size: "word " * (size // 5) + "x"), max_size=15)


def repacker(catalog: Catalog, entry_limit: int = 1536) -> Repacker:
    # A length below what a user can set is tried all the same.
    return Repacker(Snapshot(catalog, Settings(catalog=CatalogSettings(entry_limit=entry_limit))))


# With a budget in which each text has room by itself: what has none is passed over, until it is short enough to have.
@given(TEXTS, st.integers(1000, 5000))
def test_shorter_texts_never_show_less_and_the_best_length_shows_all(texts: list[str], budget: int) -> None:
    found = repacker(catalog_of(*texts)).repacking(ListingLayout(budget))
    assert found.offered == len(texts)
    assert found.shown + len(found.unseen) == found.offered
    shown = [found.shown, *(count for _, count in found.lengths)]
    assert shown == sorted(shown)
    assert found.shortest_first >= found.shown
    if found.best is not None:
        assert repacker(catalog_of(*texts), found.best).repacking(ListingLayout(budget)).shown == found.offered
    for length, count in found.lengths:
        assert (count == found.offered) == (found.best is not None and length <= found.best)


def test_a_skipped_skill_is_hidden_and_the_next_ones_are_shown() -> None:
    catalog = catalog_of("Short.", "&" * 1000, "Also short.")
    found = repacker(catalog).repacking(ListingLayout(2048))
    assert (found.shown, found.unseen) == (2, (catalog.skills[1],))


def test_a_catalog_that_fits_needs_no_advice() -> None:
    found = repacker(catalog_of("Short.", "Also short.")).repacking(ListingLayout(5000))
    assert (found.shown, found.lengths, found.advised, found.unseen) == (2, (), None, ())
    assert found.best == len("Also short.")


def test_the_longest_length_that_shows_most_is_advised() -> None:
    found = repacker(catalog_of(*["word " * 60] * 10)).repacking(ListingLayout(2048))
    length, shown = found.advised or (0, 0)
    assert shown > found.shown
    assert dict(found.lengths)[length] == shown
    assert all(count < shown for other, count in found.lengths if other > length)


def test_if_not_even_names_fit_no_length_shows_all() -> None:
    assert repacker(catalog_of(*["Text."] * 100)).repacking(ListingLayout(500)).best is None


def test_always_on_skills_stay_first_when_texts_are_cut() -> None:
    first = skill_of("z-first", "word " * 100, triggers=("*",))
    others = catalog_of(*["word " * 100] * 20).skills
    found = repacker(Catalog((*others, first))).repacking(ListingLayout(2048))
    assert first not in found.unseen
    assert found.longest[0][1] == len(text_of(first))


def test_the_longest_texts_are_named() -> None:
    found = repacker(catalog_of("a" * 10, "b" * 30, "c" * 20)).repacking(ListingLayout(5000))
    assert [(skill.key, size) for skill, size in found.longest] == [
        ("skill-001", 30),
        ("skill-002", 20),
        ("skill-000", 10),
    ]


def test_entries_in_both_texts_count_once_and_those_in_the_instructions_alone_too() -> None:
    catalog = Catalog((*catalog_of(*["word " * 40] * 30).skills, skill_of("rule", "Always.", triggers=("*",))))
    alone, instructions, both = (
        repacker(catalog).repacking(ListingLayout(2500, place, 2500)) for place in CatalogPlace
    )
    assert instructions.shown <= alone.shown < both.shown < 31
    assert (alone.budget, both.budget) == (2500, 5000)
    assert len(both.unseen) == 31 - both.shown
