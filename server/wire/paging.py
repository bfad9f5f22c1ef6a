"""Pages of a list: built once per snapshot, found by a cursor that outlives the snapshot.

A cursor names the last entry of the page before it, so that entries are neither repeated nor skipped when the list
changes between two pages. It begins with a checksum over the list and that entry, so that foreign cursors and those of
other lists are refused and not taken for the end of the list. The checksum has no key, so every replica accepts the
cursors of the others, also after a restart.
"""

from __future__ import annotations

import base64
import hashlib
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from server.wire.kept_result import KeptResult
from skills_core.errors import SkillsError

ItemT = TypeVar("ItemT")

_CHECK_BYTES = 9
# A multiple of three, so that the checksum has no padding, and long enough that a random text never matches.

_MAX_PAGES = 50
# Most pages of a list that are kept; clients ask for the first ones, if not for all.


class InvalidCursorError(SkillsError):
    """The text is not one of our cursors for this list."""

    def __init__(self) -> None:
        super().__init__(
            "invalid cursor: expected the unchanged nextCursor of a page of this list; start again without a cursor"
        )


class Pager(Generic[ItemT]):
    """Pages over `items`, pairs of a sort key and a value, in the order of the keys."""

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
        """Make pages that hold `describe` of at most `size` values under `key`, with the fields of `envelope`.

        `of` distinguishes lists with the same key, whose cursors are not interchangeable.
        """
        self._items = items
        self._size = size
        self._key = key
        self._list = f"{key}\0{of}"
        self._describe = describe
        self._envelope = envelope
        self._pages: dict[int, KeptResult] = {}

    def page(self, cursor: str | None) -> dict[str, Any]:
        """Return the result for a cursor, None for the first page.

        Raises:
            InvalidCursorError: the text is not one of our cursors for this list.
        """
        last = None if cursor is None else _decode(self._list, cursor)
        start = 0 if last is None else bisect_right(self._items, last, key=lambda item: item[0])
        if start % self._size:
            # Cursors of an earlier snapshot may start anywhere; only pages on our own boundaries are kept.
            return self._build(start)
        if start not in self._pages:
            if len(self._pages) >= _MAX_PAGES:
                self._pages.clear()
            self._pages[start] = self._build(start)
        return self._pages[start]

    def _build(self, start: int) -> KeptResult:
        end = start + self._size
        page = KeptResult({self._key: [self._describe(value) for _, value in self._items[start:end]], **self._envelope})
        if end < len(self._items):
            page["nextCursor"] = _encode(self._list, self._items[end - 1][0])
        return page


def _encode(of: str, key: str) -> str:
    # A file name may contain a lone surrogate.
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
