"""Pages of a list: cut once a snapshot, found by a cursor that outlives the snapshot.

A cursor names the last entry of the page before it, so that a list that changed between two pages neither
repeats nor skips what stayed. It begins with a checksum over the list and that entry: what is no cursor of ours, or is
one of another list, is refused instead of being taken for the end of the list. There is no key in it, so every replica
takes a cursor of any other, also after a restart.
"""

from __future__ import annotations

import base64
import hashlib
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["InvalidCursorError", "Pager"]

ItemT = TypeVar("ItemT")

_CHECK_BYTES = 9
# A multiple of three, so that the checksum has no padding; that a random text has the right one does not happen.


class InvalidCursorError(SkillsError):
    """The text is no cursor of ours for this list."""

    def __init__(self) -> None:
        super().__init__(
            "invalid cursor: expected the nextCursor of a page of this list, unchanged; begin again without a cursor"
        )


class Pager(Generic[ItemT]):
    """Pages over `items`, which are pairs of a sort key and a value, in the order of the keys."""

    def __init__(
        self,
        items: Sequence[tuple[str, ItemT]],
        size: int,
        key: str,
        describe: Callable[[ItemT], Any],
        envelope: Mapping[str, Any],
        *,
        of: str = "",
    ) -> None:
        """A page holds what `describe` says of at most `size` values under `key`, in the given envelope.

        `of` tells lists with the same key apart: a cursor of one is none of another.
        """
        self._items = items
        self._size = size
        self._key = key
        self._list = f"{key}\0{of}"
        self._describe = describe
        self._envelope = envelope
        self._pages: dict[int, dict[str, Any]] = {}

    def page(self, cursor: str | None) -> dict[str, Any]:
        """Return the result for a cursor, None for the first page.

        Raises:
            InvalidCursorError: the text is no cursor of ours for this list.
        """
        last = None if cursor is None else _decode(self._list, cursor)
        start = 0 if last is None else bisect_right(self._items, last, key=lambda item: item[0])
        if start % self._size:
            # Cursors of an earlier snapshot may begin anywhere; only our own pages are worth keeping.
            return self._cut(start)
        if start not in self._pages:
            self._pages[start] = self._cut(start)
        return self._pages[start]

    def _cut(self, start: int) -> dict[str, Any]:
        end = start + self._size
        page = {self._key: [self._describe(value) for _, value in self._items[start:end]], **self._envelope}
        if end < len(self._items):
            page["nextCursor"] = _encode(self._list, self._items[end - 1][0])
        return page


def _encode(of: str, key: str) -> str:
    # A file's name may hold half of a character.
    raw = key.encode("utf-8", "surrogatepass")
    check = hashlib.sha256(of.encode("utf-8", "surrogatepass") + b"\0" + raw).digest()[:_CHECK_BYTES]
    return base64.urlsafe_b64encode(check + raw).decode("ascii")


def _decode(of: str, cursor: str) -> str:
    try:
        key = base64.urlsafe_b64decode(cursor)[_CHECK_BYTES:].decode("utf-8", "surrogatepass")
        is_ours = cursor == _encode(of, key)
    except ValueError:
        raise InvalidCursorError from None
    if not is_ours:
        raise InvalidCursorError
    return key
