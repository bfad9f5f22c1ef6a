"""Zones whose clocks change, and an oracle that reads the clock at each minute."""

from __future__ import annotations

import functools
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from collections.abc import Callable

MINUTE = timedelta(minutes=1)

CHANGING = (
    "Europe/Berlin",
    "America/New_York",
    "America/Santiago",  # at midnight
    "Africa/Casablanca",  # four times in most years
    "Africa/Cairo",  # at midnight, on a Friday
    "Australia/Lord_Howe",  # by half an hour
    "Antarctica/Troll",  # by two hours
    "Asia/Kathmandu",
    "Pacific/Chatham",
    "UTC",
)


@functools.cache
def changes(name: str, year: int) -> tuple[datetime, ...]:
    """Return the days of a year on which a zone's offset changes, at 00:00 UTC."""
    days = [datetime(year, 1, 1, tzinfo=UTC) + timedelta(days=number) for number in range(366)]
    zone = ZoneInfo(name)
    offsets = [day.astimezone(zone).utcoffset() for day in days]
    return tuple(day for day, one, two in zip(days, offsets, offsets[1:], strict=False) if one != two)


def clock(instant: datetime, zone: ZoneInfo) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def once_for_each_time(
    matches: Callable[[datetime], bool], zone: ZoneInfo, start: datetime, end: datetime
) -> list[datetime]:
    """Return the first minute at which clocks have reached each time that matches, also if they skip it."""
    found: set[datetime] = set()
    before = start - timedelta(hours=4)  # at `start`, clocks may have been set back already
    reached = clock(before, zone)
    minute = before + MINUTE
    while minute <= end:
        while reached < clock(minute, zone):
            reached += MINUTE
            if matches(reached):
                found.add(minute)
        minute += MINUTE
    return sorted(each for each in found if each > start)


def whenever_it_shows(
    matches: Callable[[datetime], bool], zone: ZoneInfo, start: datetime, end: datetime
) -> list[datetime]:
    """Return all minutes at which clocks show a time that matches."""
    minutes = int((end - start) / MINUTE)
    instants = [start + number * MINUTE for number in range(1, minutes + 1)]
    return [instant for instant in instants if matches(clock(instant, zone))]
