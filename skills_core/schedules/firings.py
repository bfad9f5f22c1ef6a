"""The next firings of a schedule, and those that were missed."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import TYPE_CHECKING, assert_never

from skills_core.schedules.cron import cron_firings, earlier_wall_times
from skills_core.schedules.when import Cron, Every, Once
from skills_core.schedules.zones import first_instant, in_zone, to_utc, wall_time, zone_named

if TYPE_CHECKING:
    from collections.abc import Iterator
    from zoneinfo import ZoneInfo

    from skills_core.schedules.when import When

__all__ = ["Missed", "firings", "missed_firings", "next_firings"]


def firings(when: When, after: datetime) -> Iterator[datetime]:
    """Yield each firing after `after` in order: with the offset of its zone, for spans in UTC.

    Raises:
        InvalidTimeError: `after` has no offset from UTC.
    """
    start = to_utc(after)
    match when:
        case Once(at):
            return iter((at,) if at > start else ())
        case Every(span, anchor):
            return _spans(span, anchor, start)
        case Cron(expression, name):
            zone = zone_named(name)
            return (in_zone(instant, zone) for instant in cron_firings(expression, zone, start))
    assert_never(when)


def next_firings(when: When, after: datetime, count: int) -> tuple[datetime, ...]:
    """Return the first `count` firings after `after`; fewer if the schedule ends.

    Raises:
        InvalidTimeError: `after` has no offset from UTC.
    """
    return tuple(islice(firings(when, after), max(count, 0)))


def _spans(span: timedelta, anchor: datetime, after: datetime) -> Iterator[datetime]:
    number = max((after - anchor) // span, 0)
    try:
        while True:
            number += 1
            yield anchor + number * span
    except OverflowError:  # the calendar ends with the year 9999
        return


@dataclass(frozen=True, slots=True)
class Missed:
    """The latest missed firings, oldest first; `is_cut` if there were more than the limit."""

    times: tuple[datetime, ...] = ()
    is_cut: bool = False


def missed_firings(when: When, last: datetime, now: datetime, limit: int) -> Missed:
    """Return the latest `limit` firings after `last`, up to and including `now`.

    Raises:
        InvalidTimeError: a time has no offset from UTC.
    """
    start, end = to_utc(last), to_utc(now)
    most = max(limit, 0)
    first = tuple(islice(takewhile(lambda each: each <= end, firings(when, start)), most + 1))
    if len(first) <= most:
        return Missed(first)
    cut = (
        tuple(deque(takewhile(lambda each: each <= end, firings(when, begin)), maxlen=most + 1))
        for begin in _beginnings(when, start, end, most + 1)
    )
    latest = next(times for times in cut if len(times) > most)
    return Missed(latest[1:], is_cut=True)


def _beginnings(when: When, last: datetime, now: datetime, count: int) -> Iterator[datetime]:
    """Yield times from which about `count` firings remain until `now`, then earlier ones, at the end `last`.

    So a schedule that fires each second is not counted through a year. Clocks that skip an hour merge firings, which is
    why `count` of them may be fewer.
    """
    if isinstance(when, Every):
        number = (now - when.anchor) // when.span - count
        if number > 0:
            yield max(last, when.anchor + number * when.span)
    elif isinstance(when, Cron):
        zone = zone_named(when.zone)
        for wall in islice(earlier_wall_times(when.expression, wall_time(now, zone)), count, None, count):
            begin = _instant_before(wall, zone)
            if begin is None or begin <= last:
                break
            yield begin
    yield last


def _instant_before(wall: datetime, zone: ZoneInfo) -> datetime | None:
    try:
        return first_instant(wall, zone) - timedelta(seconds=1)
    except OverflowError:  # the calendar begins with the year 1
        return None
