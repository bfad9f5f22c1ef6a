"""Describe a schedule in full, so that its user sees what was understood."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from skills_core.schedules.cron import expression_in_words
from skills_core.schedules.firings import next_firings
from skills_core.schedules.when import Cron, Every, Once
from skills_core.schedules.zones import in_zone, to_utc, zone_named

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from skills_core.schedules.when import When

__all__ = ["describe", "full_time", "span_in_words"]

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_UNITS = (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))
_SHOWN = 3


def describe(when: When, now: datetime, zone: str = "UTC") -> str:
    """Return what `when` means, and its next three firings, each with weekday, date, time, offset and zone.

    Times of a cron expression are shown in its own zone, others in `zone`.

    Raises:
        InvalidTimeError: there is no such zone, or `now` has no offset from UTC.
    """
    zone = when.zone if isinstance(when, Cron) else zone
    coming = next_firings(when, now, _SHOWN)
    match when:
        case Once(at):
            head = f"Once at {full_time(at, zone)}" + ("." if coming else ", which is past.")
            if coming:
                return head
        case Every(span, _):
            head = f"Every {span_in_words(span)} of elapsed time, whatever clocks show."
        case Cron(expression, _):
            head = f"{expression_in_words(expression)}, by the clocks of {zone} (cron {expression})."
        case _:
            assert_never(when)
    if not coming:
        return f"{head}\nIt has no further firing."
    return "\n".join([head, "Next firings:", *(f"- {full_time(each, zone)}" for each in coming)])


def full_time(moment: datetime, zone: str) -> str:
    """Return a time as in `Thursday 2026-12-24 18:00:00 +01:00 (Europe/Berlin)`.

    Raises:
        InvalidTimeError: there is no such zone, or the time has no offset.
    """
    local = in_zone(to_utc(moment), zone_named(zone))
    shown = local.isoformat(" ", "seconds")
    return f"{_DAYS[local.weekday()]} {shown[:19]} {shown[19:]} ({zone})"


def span_in_words(span: timedelta) -> str:
    """Return a span as in `1 day 2 hours`."""
    left, parts = round(span.total_seconds()), []
    for name, size in _UNITS:
        number, left = divmod(left, size)
        if number:
            parts.append(f"{number} {name}" + "s" * (number != 1))
    return " ".join(parts) or "0 seconds"
