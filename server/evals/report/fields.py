"""Read fields of JSON that others wrote: a value of the wrong type counts as missing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from skills_core.diagnostics import without_lone_surrogates

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["count", "first", "number", "record", "records", "text", "texts", "truth"]

_LONGEST = 100_000
# Characters of one text that a report keeps.


def record(value: Any) -> Mapping[str, Any]:  # noqa: ANN401 - JSON
    """Return a JSON object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def records(value: Any) -> list[Mapping[str, Any]]:  # noqa: ANN401 - JSON
    """Return the objects of a JSON array."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def first(values: Mapping[str, Any], *names: str) -> Any:  # noqa: ANN401 - JSON
    """Return the first of these fields that is there and not null."""
    return next((values[name] for name in names if values.get(name) is not None), None)


def text(value: Any) -> str:  # noqa: ANN401 - JSON
    """Return a text, or a number as text; empty for anything else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        # A whole number of thousands of digits cannot be converted.
        return str(value) if isinstance(value, float) or abs(value) < 10**30 else ""
    if not isinstance(value, str):
        return ""
    cut = value if len(value) <= _LONGEST else f"{value[:_LONGEST]}… ({len(value) - _LONGEST:,} more characters)"
    return without_lone_surrogates(cut)


def texts(value: Any) -> tuple[str, ...]:  # noqa: ANN401 - JSON
    """Return the texts of a JSON array, or a single text."""
    values = value if isinstance(value, list) else [value]
    return tuple(filter(None, map(text, values)))


def number(value: Any) -> float | None:  # noqa: ANN401 - JSON
    """Return a finite number; the delta of skill-creator is a text such as "+0.50"."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except (OverflowError, ValueError):
        return None
    return found if math.isfinite(found) else None


def count(value: Any) -> int | None:  # noqa: ANN401 - JSON
    """Return a whole number of at least 0."""
    found = number(value)
    return int(found) if found is not None and 0 <= found < 10**12 else None


def truth(value: Any) -> bool | None:  # noqa: ANN401 - JSON
    """Return a boolean, None for anything else."""
    return value if isinstance(value, bool) else None
