"""Rules of sorted values in blocks: they behave as a sorted list, and no revision changes another."""

from __future__ import annotations

from bisect import bisect_left
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from skills_core.ordered import Ordered

VALUES = st.lists(st.integers(0, 60), max_size=60)


@given(VALUES, st.lists(st.tuples(VALUES, st.randoms(use_true_random=False)), max_size=5))
def test_a_revision_is_as_a_sorted_list_and_leaves_what_it_was_made_of_as_it_was(
    first: list[int], rounds: list[tuple[list[int], object]]
) -> None:
    with patch("skills_core.ordered._BLOCK", 3):
        states = [(Ordered(first), sorted(first))]
        for come, chance in rounds:
            now, wanted = states[-1]
            gone = chance.sample(wanted, len(wanted) // 2)  # type: ignore[attr-defined] # a `Random`
            left = [*wanted]
            for value in gone:
                left.remove(value)
            states.append((now.revised(gone, come), sorted([*left, *come])))
    for now, wanted in states:
        assert [*now] == wanted
        assert len(now) == len(wanted)
        assert now == Ordered(wanted)
        for value in range(-1, 62):
            assert [*now.starting_at(value)] == wanted[bisect_left(wanted, value) :]


class Looked(int):
    """A number that counts how often it is compared."""

    count = 0

    def __lt__(self, other: int) -> bool:
        Looked.count += 1
        return int(self) < int(other)


def test_a_revision_of_many_values_looks_at_few_of_them() -> None:
    many = Ordered(map(Looked, range(100_000)))
    Looked.count = 0
    after = many.revised([Looked(70_000)], [Looked(30_000)])
    assert Looked.count < 200
    assert [*after][30_000:30_002] == [30_000, 30_000]
    shared = {id(block) for block in many._blocks} & {id(block) for block in after._blocks}
    assert len(shared) >= len(many._blocks) - 2
