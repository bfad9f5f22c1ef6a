"""What must hold of the places of watched folders: they are as in a dictionary, and take little."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core.live.inotify import Places

_WATCHES = st.integers(1, 2000)


@given(st.lists(st.tuples(_WATCHES, st.none() | st.tuples(_WATCHES, st.sampled_from(["a", "b"])))))
def test_they_are_as_in_a_dictionary(steps: list[tuple[int, tuple[int, str] | None]]) -> None:
    places, expected = Places(), dict[int, tuple[int, str]]()
    for watch, place in steps:
        if place is None:
            assert places.pop(watch, None) == expected.pop(watch, None)
        else:
            places[watch] = expected[watch] = place
        assert places.get(watch) == expected.get(watch)
        assert len(places) == len(expected)
    assert dict(places) == expected


def test_one_that_is_not_there_cannot_be_removed() -> None:
    places = Places()
    places[1] = (2, "a")

    for watch in (3, 1000):
        with pytest.raises(KeyError):
            del places[watch]


def test_a_folder_takes_a_few_bytes_and_none_once_it_is_gone() -> None:
    count = 10_000
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        places = Places()
        for watch in range(1, count + 1):
            places[watch] = (watch, "references")
        used = tracemalloc.get_traced_memory()[0] - before
        for watch in range(1, count + 1):
            del places[watch]
        left = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()

    assert used < 20 * count
    assert left < count
