"""A long list, a page at a time: the number of the page is a parameter of the address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from urllib.parse import urlencode

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Paged(Generic[_Item]):
    """The entries on one page of a list, the number of all entries and of pages, and where the other pages are."""

    entries: Sequence[_Item]
    total: int
    page: int
    pages: int
    path: str
    query: Mapping[str, str] = field(default_factory=dict)

    def address(self, page: int) -> str:
        """Return the address of another page of the list."""
        text = urlencode({**self.query, **({} if page == 1 else {"page": str(page)})})
        return f"{self.path}?{text}" if text else self.path


def page_number(query: Mapping[str, str]) -> int:
    """Return the number of the page that the parameters of an address name, 1 if they name none."""
    page = query.get("page", "")
    return max(1, int(page)) if page.isdecimal() and page.isascii() and len(page) < len("1000000") else 1


def paged(
    entries: Sequence[_Item], size: int, number: int, path: str, query: Mapping[str, str] | None = None
) -> Paged[_Item]:
    """Return the page of `size` entries with this number, or the last one; links to others keep `query`."""
    pages = max(1, -(-len(entries) // size))
    page = min(number, pages)
    return Paged(entries[(page - 1) * size : page * size], len(entries), page, pages, path, query or {})
