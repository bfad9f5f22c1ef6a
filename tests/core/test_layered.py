"""Rules of mappings whose copies share their entries: they behave as dicts, and no copy changes another."""

from __future__ import annotations

from unittest.mock import patch
from weakref import ref

from hypothesis import given
from hypothesis import strategies as st

from skills_core.layered import Layered, differing

KEYS = st.integers(0, 200)
STEPS = st.lists(st.tuples(KEYS, st.none() | st.integers()), max_size=150)


@given(st.dictionaries(KEYS, st.integers(), max_size=100), st.lists(STEPS, max_size=6))
def test_a_copy_is_as_a_dict_and_leaves_what_it_was_copied_from_as_it_was(
    first: dict[int, int], rounds: list[list[tuple[int, int | None]]]
) -> None:
    states = [(Layered(dict(first)), first)]
    for steps in rounds:
        with patch("skills_core.layered._LEAST", 3):
            now, wanted = states[-1][0].copy(), dict(states[-1][1])
        for key, value in steps:
            if value is not None:
                now[key] = wanted[key] = value
            else:
                assert now.pop(key, -1) == wanted.pop(key, -1)
        states.append((now, wanted))
    for now, wanted in states:
        assert now == wanted
        assert len(now) == len(wanted)
        assert sorted(now) == sorted(wanted)
        assert dict(now.items()) == wanted
        assert bool(now) is bool(wanted)
        for key in range(201):
            assert (key in now, now.get(key), now.get(key, "none")) == (
                key in wanted,
                wanted.get(key),
                wanted.get(key, "none"),
            )


def test_the_order_is_that_in_which_keys_were_set_first() -> None:
    numbers: Layered[int, str] = Layered()
    for number in range(1000):
        numbers[number] = str(number)
    later = numbers.copy()
    later[5] = "five"
    later[2000] = "new"
    del later[7]
    assert list(numbers) == [*range(1000)]
    assert list(later) == [number for number in [*range(1000), 2000] if number != 7]


def test_a_reader_of_a_mapping_that_is_copied_meanwhile_reads_on() -> None:
    numbers: Layered[int, int] = Layered(dict.fromkeys(range(1000), 0))
    for number in range(900, 1200):
        numbers[number] = 1
    reading = iter(numbers)
    found = [next(reading) for _ in range(100)]
    numbers.copy()
    assert [*found, *reading] == [*range(1200)]


class Value:
    """Something that can be asked whether it is still there."""


def test_a_copy_of_few_entries_keeps_nothing_that_was_replaced() -> None:
    first = Layered({number: Value() for number in range(10)})
    old = ref(first[3])
    later = first.copy()
    later[3] = Value()
    del first
    assert old() is None
    assert len(later) == 10


def test_after_many_changes_nothing_is_kept_that_was_replaced() -> None:
    first = Layered({number: Value() for number in range(1000)})
    old = [*map(ref, first.values())]
    later = first.copy()
    for number in range(900):
        later[number] = Value()
    later.merge()
    del first
    assert [number for number, each in enumerate(old) if each() is not None] == [*range(900, 1000)]


@given(st.lists(st.integers(0, 3), max_size=8), st.lists(st.integers(0, 3), max_size=8))
def test_outside_of_the_part_that_differs_two_sequences_have_the_same_objects(
    before: list[int], after: list[int]
) -> None:
    was, now = differing(before, after)
    assert before[: was.start] == after[: now.start]
    assert before[was.stop :] == after[now.stop :]
    assert not before[was] or not after[now] or before[was][0] != after[now][0]
    assert not before[was] or not after[now] or before[was][-1] != after[now][-1]
