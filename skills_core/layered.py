"""For states that follow each other and differ in little.

The copies of a mapping share what they have in common, and of two sequences the part is found in which they differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from operator import is_
from typing import Any, Final, TypeVar, overload

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_Default = TypeVar("_Default")

_LEAST: Final = 64
_SHARE: Final = 16
# A layer becomes part of what is below it when it has more entries than this number, and than this part of the others.

_BELOW: Final[Any] = object()
# Stands for the value of a key that a layer does not have.


class Layered(MutableMapping[_Key, _Value]):
    """A mapping like a dict, whose `copy` costs time for what changed of late instead of for all entries.

    It has a dict that is shared with copies and never changed, and a layer of its own with the changes since; None
    stands there for what was removed, so it cannot be a value. A key that was removed and set again keeps its place in
    the order. Other threads may read a mapping while it is copied.
    """

    __slots__ = ("_below", "_count", "_layer")

    def __init__(self, known: Mapping[_Key, _Value] | None = None) -> None:
        """Start with the entries of `known`, or empty; if that is a dict, it must not be changed any more."""
        self._layer: dict[_Key, _Value | None] = {}
        self._below: dict[_Key, Any] = {}
        self._count = 0
        if isinstance(known, Layered):
            self._below, self._layer, self._count = known.shared()
        elif known is not None:
            self._below = known if isinstance(known, dict) else dict(known)
            self._count = len(known)

    def copy(self) -> Layered[_Key, _Value]:
        """Return a mapping with the same entries, which may be changed."""
        return Layered(self)

    def merge(self) -> None:
        """Let a layer that has grown large become part of what is below, which keeps what the layer has replaced.

        A copy does this first. Call it after many changes that no copy follows soon.
        """
        if len(self._layer) > max(_LEAST, len(self._below) // _SHARE):
            # A reader looks into the layer first: at each moment it finds what it would have found before.
            below = self._below | self._layer if self._below else self._layer
            for key in [key for key, value in self._layer.items() if value is None]:
                del below[key]
            self._below = below
            self._layer = {}

    def shared(self) -> tuple[dict[_Key, Any], dict[_Key, _Value | None], int]:
        """Return what a copy shares with this mapping, the layer that it begins with, and the number of entries."""
        if self._count <= _LEAST:
            # Copied as a whole, few entries keep nothing that is replaced later.
            return {}, dict(self.items()), self._count
        self.merge()
        return self._below, self._layer.copy(), self._count

    def __getitem__(self, key: _Key) -> _Value:
        found: Any = self._layer.get(key, _BELOW)
        if found is _BELOW:
            found = self._below[key]
        if found is None:
            raise KeyError(key)
        value: _Value = found
        return value

    @overload
    def get(self, key: _Key, /) -> _Value | None: ...
    @overload
    def get(self, key: _Key, /, default: _Value | _Default) -> _Value | _Default: ...
    def get(self, key: _Key, /, default: Any = None) -> Any:
        """Return the value of a key, or `default`."""
        found = self._layer.get(key, _BELOW)
        if found is _BELOW:
            found = self._below.get(key)
        return default if found is None else found

    def __contains__(self, key: object) -> bool:
        found: Any = self._layer.get(key, _BELOW)  # type: ignore[arg-type] # any object may be looked up
        return key in self._below if found is _BELOW else found is not None

    def __setitem__(self, key: _Key, value: _Value) -> None:
        self._count += key not in self
        self._layer[key] = value

    def __delitem__(self, key: _Key) -> None:
        if key not in self:
            raise KeyError(key)
        self._count -= 1
        if key in self._below:
            self._layer[key] = None
        else:
            del self._layer[key]

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[_Key]:
        # The layer is read first, as it may become part of what is below meanwhile.
        layer = self._layer
        below = self._below
        if not below or not layer:
            yield from (key for key in layer if layer[key] is not None) if layer else below
            return
        yield from (key for key in below if layer.get(key, _BELOW) is not None)
        yield from (key for key, value in layer.items() if value is not None and key not in below)

    def __repr__(self) -> str:
        return f"Layered({dict(self)!r})"


def differing(before: Sequence[object], after: Sequence[object]) -> tuple[slice, slice]:
    """Return the part of each sequence in which they may differ: equal beginnings and ends are the same objects."""
    start = _same(before, after)
    end = _same(before[start:][::-1], after[start:][::-1])
    return slice(start, len(before) - end), slice(start, len(after) - end)


def _same(before: Sequence[object], after: Sequence[object]) -> int:
    # A search in bytes takes a fraction of a loop over a hundred thousand skills.
    found = bytes(map(is_, before, after)).find(0)
    return found if found >= 0 else min(len(before), len(after))
