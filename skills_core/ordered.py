"""Sorted values in blocks, so that states that follow each other share nearly all of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Any, Final, Generic, TypeVar

_Value = TypeVar("_Value")

_BLOCK: Final = 256
# Values of a block; one with twice as many is split.

_first = itemgetter(0)


class Ordered(Generic[_Value]):
    """Sorted values that never change; `revised` costs copies of some blocks, where a tuple would be copied as a whole.

    Values must be comparable. Equal ones may occur more than once.
    """

    __slots__ = ("_blocks", "_count")

    def __init__(self, values: Iterable[_Value] = ()) -> None:
        """Take values in any order."""
        given: list[Any] = [*values]
        given.sort()
        starts = range(0, len(given), _BLOCK)
        self._blocks: list[tuple[Any, ...]] = [tuple(given[start : start + _BLOCK]) for start in starts]
        self._count = len(given)

    def revised(self, gone: Iterable[_Value], come: Iterable[_Value]) -> Ordered[_Value]:
        """Return these values without those that are `gone`, which must be there, and with those that `come`."""
        after = Ordered[_Value]()
        after._blocks, after._count = self._blocks.copy(), self._count
        for value in gone:
            after._remove(value)
        for value in come:
            after._insert(value)
        return after

    def starting_at(self, value: _Value) -> Iterator[_Value]:
        """Yield the values from the first one on that is not less than `value`."""
        start: Any = value
        # The block before the one that begins with it may end with equal ones.
        at = max(bisect_left(self._blocks, start, key=_first) - 1, 0)
        for number, block in enumerate(islice(self._blocks, at, None)):
            yield from islice(block, 0 if number else bisect_left(block, start), None)

    def __iter__(self) -> Iterator[_Value]:
        for block in self._blocks:
            yield from block

    def __len__(self) -> int:
        return self._count

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ordered) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment] # like a list

    def __repr__(self) -> str:
        return f"Ordered({[*self]!r})"

    def _remove(self, value: _Value) -> None:
        block, at = self._block_for(value)
        del block[bisect_left(block, value)]
        self._blocks[at : at + 1] = [tuple(block)] if block else []
        self._count -= 1

    def _insert(self, value: _Value) -> None:
        block, at = self._block_for(value)
        insort(block, value)
        parts = [block] if len(block) < 2 * _BLOCK else [block[:_BLOCK], block[_BLOCK:]]
        self._blocks[at : at + 1] = map(tuple, parts)
        self._count += 1

    def _block_for(self, value: Any) -> tuple[list[Any], int]:  # noqa: ANN401 - it is compared
        """Return a copy of the last block that may have a value, and its number."""
        at = max(bisect_right(self._blocks, value, key=_first) - 1, 0)
        return [*self._blocks[at]] if self._blocks else [], at
