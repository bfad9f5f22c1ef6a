"""Time zones, and the moments at which their clocks change.

A wall time is a `datetime` without `tzinfo`; an instant is one in UTC. Times that leave this package carry the offset
of their zone, not the zone: comparisons of two times in one zone ignore the offset, and so err where clocks are set
back.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo, available_timezones

from skills_core.errors import InvalidTimeError, did_you_mean, similar_to

__all__ = [
    "first_instant",
    "in_zone",
    "instant_at",
    "is_place_of_zone",
    "offset_of",
    "to_utc",
    "transition",
    "wall_time",
    "zone_named",
]

_NAME = re.compile(r"[A-Z][A-Za-z0-9_+\-]*(?:/[A-Z][A-Za-z0-9_+\-]*){0,2}")
# Each part of a name begins with a capital. Some file systems would accept others, which fail on the next machine.
_MAX_NAME = 64
_NO_ZONES = ("right/", "posix/", "localtime", "posixrules", "Factory")
# Files of the system's database that are no zones: `right/` counts leap seconds, which no clock of a computer shows.


def zone_named(name: str) -> ZoneInfo:
    """Return the zone with this name of the IANA database.

    Raises:
        InvalidTimeError: there is no such zone.
    """
    if len(name) <= _MAX_NAME and _NAME.fullmatch(name) and not name.startswith(_NO_ZONES):
        try:
            return ZoneInfo(name)
        except (ValueError, KeyError, OSError):
            pass
    similar = similar_to(name, sorted(each for each in available_timezones() if not each.startswith(_NO_ZONES)))
    raise InvalidTimeError(
        name,
        f"there is no such time zone; give a name of the IANA database, as in Europe/Berlin.{did_you_mean(similar)}",
    )


def is_place_of_zone(place: str) -> bool:
    """Tell whether a zone is named after a place, as Asia/Tokyo is after `Tokyo`."""
    return place.replace(" ", "_") in {each.rpartition("/")[2] for each in available_timezones()}


def to_utc(moment: datetime) -> datetime:
    """Return the instant of a time that has an offset.

    Raises:
        InvalidTimeError: the time has no offset, or lies outside the years 1 to 9999 in UTC.
    """
    if moment.utcoffset() is None:
        raise InvalidTimeError(moment.isoformat(), "it has no offset from UTC; give one, as in +01:00 or Z")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise InvalidTimeError(moment.isoformat(), "it lies outside the years 1 to 9999 in UTC") from None


def in_zone(instant: datetime, zone: ZoneInfo) -> datetime:
    """Return an instant as the zone's clocks show it, with their offset."""
    return instant.astimezone(timezone(offset_of(instant, zone)))


def offset_of(instant: datetime, zone: ZoneInfo) -> timedelta:
    """Return the offset of a zone at an instant."""
    return instant.astimezone(zone).utcoffset() or timedelta()


def wall_time(instant: datetime, zone: ZoneInfo) -> datetime:
    """Return what the clocks of the zone show at an instant."""
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def instant_at(wall: datetime, offset: timedelta) -> datetime:
    """Return the instant at which clocks with this offset show a wall time."""
    return (wall - offset).replace(tzinfo=UTC)


def first_instant(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return the first instant at which the clocks of a zone show a wall time or, if they skip it, a later one."""
    first = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if wall_time(first, zone) == wall:
        return first
    # In a gap, `fold` 0 applies the offset before it, which gives an instant after it, and the other way round.
    return transition(wall.replace(tzinfo=zone, fold=1).astimezone(UTC), first, zone)


def transition(low: datetime, high: datetime, zone: ZoneInfo) -> datetime:
    """Return the first second after `low` at which the zone's offset differs, which it does at `high`."""
    before = offset_of(low, zone)
    left, right = 0, int((high - low).total_seconds()) + 1
    while right - left > 1:
        middle = (left + right) // 2
        if offset_of(low + timedelta(seconds=middle), zone) == before:
            left = middle
        else:
            right = middle
    return (low + timedelta(seconds=right)).replace(microsecond=0)
