"""Numbers, sizes and times in words, as pages show them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

UNKNOWN: Final = "—"
"""Stands for a number that is not known."""

_PRECISE_BELOW: Final = 100
_KILO: Final = 1024
_MINUTE: Final = 60.0
_HOUR: Final = 3600.0


def percent(value: float | None) -> str:
    """Return a rate, as in `83 %`."""
    return UNKNOWN if value is None else f"{value:.0%}".replace("%", "\u00a0%")


def size_text(size: int | None) -> str:
    """Return a size in bytes, KB or MB."""
    if size is None:
        return UNKNOWN
    if size < _KILO:
        return f"{size} bytes"
    return f"{size / _KILO:,.1f} KB" if size < _KILO * _KILO else f"{size / _KILO / _KILO:,.1f} MB"


def amount(value: float | None) -> str:
    """Return a number of seconds or tokens."""
    if value is None:
        return UNKNOWN
    return f"{value:,.1f}" if abs(value) < _PRECISE_BELOW and value != int(value) else f"{value:,.0f}"


def date_text(moment: datetime | float | None) -> str:
    """Return a moment to the second in UTC; a number is in seconds since 1970."""
    if moment is None:
        return UNKNOWN
    when = moment if isinstance(moment, datetime) else datetime.fromtimestamp(moment, UTC)
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def duration_text(seconds: float | None) -> str:
    """Return a time span, such as `380 ms`, `4.2 s`, `3 min 5 s` or `2 h 10 min`."""
    if seconds is None:
        return UNKNOWN
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE:.0f} min {seconds % _MINUTE:.0f} s"
    return f"{seconds // _HOUR:,.0f} h {seconds % _HOUR / _MINUTE:.0f} min"


def moment_text(moment: object) -> str:
    """Return a moment in ISO 8601 as `date_text` does; without a zone it is in UTC. Another text stays as it is."""
    if not moment:
        return UNKNOWN
    try:
        when = datetime.fromisoformat(str(moment))
        return date_text(when if when.tzinfo else when.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return str(moment)


def dollars(value: float | None) -> str:
    """Return a price in US dollars, to a hundredth of a cent if it is small."""
    if value is None:
        return UNKNOWN
    return f"${value:,.2f}" if value == 0 or value >= 1 else f"${value:.4f}"
