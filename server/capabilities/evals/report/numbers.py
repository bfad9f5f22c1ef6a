"""Numbers as people read them; an em dash stands for what is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core.evals.statistics import Spread

__all__ = [
    "UNKNOWN",
    "amount",
    "difference",
    "interval_text",
    "money",
    "percent",
    "points",
    "points_interval",
    "size_text",
    "spread_text",
]

UNKNOWN: Final = "—"

_PRECISE_BELOW = 100
_KILO = 1024


def percent(value: float | None) -> str:
    """Return a rate, as in `83 %`."""
    return UNKNOWN if value is None else f"{value:.0%}".replace("%", "\u00a0%")


def points(value: float) -> str:
    """Return a difference of rates in percentage points, as in `+25 points`."""
    number = round(value * 100)
    return f"{_signed(number)}\u00a0{'point' if abs(number) == 1 else 'points'}"


def points_interval(interval: tuple[float, float] | None) -> str:
    """Return a 95 % interval of a difference of rates; empty if there is none."""
    if interval is None:
        return ""
    return f"(95\u00a0%: {_signed(round(interval[0] * 100))} to {_signed(round(interval[1] * 100))})"


def difference(value: float) -> str:
    """Return a difference of seconds or tokens."""
    shown = amount(value)
    return f"+{shown}" if value > 0 and shown != "0.0" else shown.replace("-0.0", "0.0")


def _signed(value: int) -> str:
    return f"{value:+d}" if value else "0"


def amount(value: float | None) -> str:
    """Return a number of seconds or tokens."""
    if value is None:
        return UNKNOWN
    return f"{value:,.1f}" if abs(value) < _PRECISE_BELOW and value != int(value) else f"{value:,.0f}"


def money(value: float | None) -> str:
    """Return US dollars."""
    return UNKNOWN if value is None else f"${value:,.4f}" if 0 < value < 1 else f"${value:,.2f}"


def spread_text(spread: Spread | None, shown: Callable[[float], str]) -> str:
    """Return a mean, with its standard deviation if the values differ."""
    if spread is None:
        return UNKNOWN
    return shown(spread.mean) + (f" ± {shown(spread.stddev)}" if spread.stddev else "")


def interval_text(interval: tuple[float, float] | None) -> str:
    """Return a 95 % interval of rates; empty if there is none."""
    return "" if interval is None else f"(95\u00a0%: {interval[0]:.2f} to {interval[1]:.2f})"


def size_text(size: int | None) -> str:
    """Return a size in bytes, KB or MB."""
    if size is None:
        return UNKNOWN
    if size < _KILO:
        return f"{size} bytes"
    return f"{size / _KILO:,.1f} KB" if size < _KILO * _KILO else f"{size / _KILO / _KILO:,.1f} MB"
