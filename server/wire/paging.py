"""Pages of a list, each built when it is asked for and found by a cursor that outlives the snapshot.

A cursor names the last entry of the page before it, so that entries are neither repeated nor skipped when the list
changes between two pages. It begins with a checksum over the list and that entry, so that foreign cursors and those of
other lists are refused and not taken for the end of the list. The checksum has no key, so every replica accepts the
cursors of the others, also after a restart.
"""

from __future__ import annotations

import base64
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Generic, TypeVar

from server.wire.kept_result import KeptResult
from skills_core.errors import SkillsError

ItemT = TypeVar("ItemT")

_CHECK_BYTES = 9
# A multiple of three, so that the checksum has no padding, and long enough that a random text never matches.

_MAX_PAGES = 16
# Most pages of a list that are kept, those asked for last: to build one takes a millisecond or two.


class InvalidCursorError(SkillsError):
    """The text is not one of our cursors for this list."""

    def __init__(self) -> None:
        super().__init__(
            "invalid cursor: expected the unchanged nextCursor of a page of this list; start again without a cursor"
        )


class Pager(Generic[ItemT]):
    """Pages over items: pairs of a sort key and a value, in the order of the keys. A page costs what its items cost."""

    def __init__(
        self,
        items_after: Callable[[str | None], Iterable[tuple[str, ItemT]]],
        size: int,
        key: str,
        describe: Callable[[ItemT], Any],
        envelope: Mapping[str, Any],
        *,
        of: str = "",
    ) -> None:
        """Make pages that hold `describe` of at most `size` values under `key`, with the fields of `envelope`.

        `items_after` yields the items after a key, or all for None; no more of them are taken than a page needs.
        `of` distinguishes lists with the same key, whose cursors are not interchangeable.
        """
        self._items_after = items_after
        self._size = size
        self._key = key
        self._list = f"{key}\0{of}"
        self._describe = describe
        self._envelope = envelope
        self._pages: OrderedDict[str | None, KeptResult] = OrderedDict()

    def page(self, cursor: str | None) -> dict[str, Any]:
        """Return the result for a cursor, None for the first page.

        Raises:
            InvalidCursorError: the text is not one of our cursors for this list.
        """
        if (found := self._pages.get(cursor)) is not None:
            self._pages.move_to_end(cursor)
            return found
        page = self._pages[cursor] = self._build(None if cursor is None else _decode(self._list, cursor))
        if len(self._pages) > _MAX_PAGES:
            self._pages.popitem(last=False)
        return page

    def _build(self, last: str | None) -> KeptResult:
        # One more tells whether another page follows.
        items = [*islice(self._items_after(last), self._size + 1)]
        shown = items[: self._size]
        page = KeptResult({self._key: [self._describe(value) for _, value in shown], **self._envelope})
        if len(items) > len(shown):
            page["nextCursor"] = _encode(self._list, shown[-1][0])
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
