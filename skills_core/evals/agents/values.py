"""Take typed values out of events, whatever their shape is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["amount_of", "count_of", "mapping_of", "mappings_of", "text_of", "text_of_content"]


_MAX_AMOUNT = 1e9
# More is no price, and infinity is no JSON.


def mapping_of(value: object) -> Mapping[str, Any]:
    """Return an object, empty if the value is none."""
    return value if isinstance(value, dict) else {}


def mappings_of(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list."""
    yield from (each for each in value if isinstance(each, dict)) if isinstance(value, list) else ()


def text_of(value: object) -> str:
    """Return a text, empty if the value is none."""
    return value if isinstance(value, str) else ""


def count_of(value: object) -> int:
    """Return a number of things, 0 if the value is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def amount_of(value: object) -> float:
    """Return an amount of money, 0 if the value is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 < value < _MAX_AMOUNT else 0.0


def text_of_content(value: object) -> str:
    """Return the text of a result: a text, or blocks of content."""
    return value if isinstance(value, str) else "\n".join(text_of(block.get("text")) for block in mappings_of(value))
