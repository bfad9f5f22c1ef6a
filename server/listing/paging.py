"""Pages of a list: cut once a snapshot, found by a cursor that outlives the snapshot.

A cursor names the last entry of the page before it, so that a list that changed between two pages neither
repeats nor skips what stayed.
"""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["InvalidCursorError", "Pager"]

ItemT = TypeVar("ItemT")


class InvalidCursorError(SkillsError):
    """The text is no cursor of ours."""


class Pager(Generic[ItemT]):
    """Pages over `items`, which are pairs of a sort key and a value, in the order of the keys."""

    def __init__(
        self,
        items: Sequence[tuple[str, ItemT]],
        size: int,
        key: str,
        describe: Callable[[ItemT], Any],
        envelope: Mapping[str, Any],
    ) -> None:
        """A page holds what `describe` says of at most `size` values under `key`, in the given envelope."""
        self._items = items
        self._size = size
        self._key = key
        self._describe = describe
        self._envelope = envelope
        self._pages: dict[int, dict[str, Any]] = {}

    def page(self, cursor: str | None) -> dict[str, Any]:
        """Return the result for a cursor, None for the first page.

        Raises:
            InvalidCursorError: the text is no cursor of ours.
        """
        start = 0 if cursor is None else bisect_right(self._items, _decode(cursor), key=lambda item: item[0])
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
            page["nextCursor"] = _encode(self._items[end - 1][0])
        return page


def _encode(key: str) -> str:
    return base64.urlsafe_b64encode(key.encode("utf-8", "surrogateescape")).decode("ascii")


def _decode(cursor: str) -> str:
    try:
        return base64.b64decode(cursor, altchars=b"-_", validate=True).decode("utf-8", "surrogateescape")
    except (binascii.Error, ValueError):
        raise InvalidCursorError("invalid cursor; begin again without one") from None
