"""Cron expressions: check them, and list their firings in a time zone, across the changes of its clocks.

An expression that names hours of the day follows the wall clock: each time of the day fires once. A time that clocks
skip fires at the first moment after the gap; one that they show twice fires the first time. An expression for every
hour, as in `*/10 * * * *`, says how often: it goes on at its pace through both hours that clocks show twice.

A wall time is a `datetime` without `tzinfo`; an instant is one in UTC. Times that leave this package carry the offset
of their zone, not the zone: comparisons of two times in one zone ignore the offset, and so err where clocks are set
back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, available_timezones

from skills_core.errors import InvalidTimeError, did_you_mean, similar_to
from skills_core.installation import extra_advice

if TYPE_CHECKING:
    from cronsim import CronSim

_NAME = re.compile(r"[A-Z][A-Za-z0-9_+\-]*(?:/[A-Z][A-Za-z0-9_+\-]*){0,2}")
# Each part of a name begins with a capital. Some file systems would accept others, which fail on the next machine.
_MAX_NAME = 64
_NO_ZONES = ("right/", "posix/", "localtime", "posixrules", "Factory")
# Files of the system's database that are not zones: `right/` counts leap seconds, which computers do not show.


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


MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS = (
    ("second", "0-59"),
    ("minute", "0-59"),
    ("hour", "0-23"),
    ("day of the month", "1-31, L for the last, LW for the last weekday"),
    ("month", "1-12 or JAN-DEC"),
    ("day of the week", "0-7 or SUN-SAT, both 0 and 7 are Sunday; 5#2 is the second Friday, 5L the last"),
)
_TERM = re.compile(
    r"(?:\*|[0-9]{1,2}|[A-Z]{1,3})(?:-(?:[0-9]{1,2}|[A-Z]{3}))?(?:/[0-9]{1,4})?|[0-9A-Z]{1,3}#[1-5]|[0-7]L", re.ASCII
)
_MAX_LENGTH = 300
_ALL_HOURS = 24
_DAYS_OF_WEEK = 7
_SOME_DAY = datetime(2000, 1, 1)  # noqa: DTZ001 - a wall time
_BEGINNING = datetime(1, 1, 3, tzinfo=UTC)  # a day that all zones can show
_NEAR = timedelta(days=2)  # more than any two offsets differ


def checked_expression(text: str) -> str:
    """Return a cron expression in its normal form: five fields, or six with seconds first.

    Raises:
        InvalidTimeError: it is not a cron expression, or it never fires.
    """
    expression = " ".join(text[: _MAX_LENGTH + 1].split())
    if len(text) > _MAX_LENGTH:
        raise InvalidTimeError(text, f"a cron expression has at most {_MAX_LENGTH} characters")
    if expression.startswith("@"):
        return _macro(expression)
    expression = expression.upper() if expression.isascii() else expression
    fields = expression.split(" ")
    if len(fields) not in {5, 6}:
        raise InvalidTimeError(
            text,
            f"a cron expression has five fields (minute, hour, day of the month, month, day of the week), or six with "
            f"seconds first; this one has {len(fields) if expression else 0}",
        )
    for (name, allowed), field in zip(_FIELDS[-len(fields) :], fields, strict=True):
        _check_field(text, name, allowed, field)
    simulator = _simulator(expression, _SOME_DAY)
    if simulator is None or next(simulator, None) is None:
        raise InvalidTimeError(text, "it never fires: no year has a day that matches its day and month fields")
    return expression


def _macro(expression: str) -> str:
    known = MACROS.get(expression.lower())
    if known is None:
        raise InvalidTimeError(expression, f"it is none of {', '.join(MACROS)}; for a span, write it alone, as in 10m")
    return known


def _check_field(text: str, name: str, allowed: str, field: str) -> None:
    library = _cronsim(text)
    parser = library.Field([each for each, _ in _FIELDS].index(name))
    expected = f"expected {allowed}, with `*`, `,`, `-` and `/`"
    try:
        for term in field.split(","):
            if _TERM.fullmatch(term) is None:
                break
            parser.parse(term)
            values, _, step = term.partition("/")
            count = _values_of(library, parser, values) if step else 0
            if step and int(step) > count:
                expected = f"its step {step} is larger than the {count} values it counts, so it matches one alone"
                break
        else:
            return
    except (library.CronSimError, ValueError):
        pass
    raise InvalidTimeError(text, f"its field {name!r} is {field[:50]!r}; {expected}")


def _values_of(library: ModuleType, parser: Any, values: str) -> int:  # noqa: ANN401 - imported when it is used
    """Return how many values of its field a step counts, as in `*`, `5-20` or `5`, which is `5` to the last.

    Raises:
        ValueError: no step applies to it, as to `L`.
    """
    found = parser.parse(values)
    if not found <= {*library.RANGES[parser]}:
        raise ValueError(values)
    count = len(found) if values == "*" or "-" in values else max(library.RANGES[parser]) - min(found) + 1
    return min(count, _DAYS_OF_WEEK) if parser == library.Field.DOW else count  # 0 and 7 are one day


def _simulator(expression: str, wall: datetime, *, reverse: bool = False) -> CronSim | None:
    """Return the wall times of an expression after `wall`, or before it; None if there is none."""
    library = _cronsim(expression)
    try:
        simulator: CronSim = library.CronSim(expression, wall, reverse=reverse)
    except library.CronSimError:
        return None
    return simulator


def _cronsim(expression: str) -> ModuleType:
    """Import the library where it is used, so that commands start fast."""
    try:
        from cronsim import cronsim  # noqa: PLC0415
    except ImportError:
        why = f"cron expressions and times of every day need the extra `run`; {extra_advice('run')}"
        raise InvalidTimeError(expression, why) from None
    return cronsim


@lru_cache(maxsize=256)
def _names_hours(expression: str) -> bool:
    simulator = _simulator(expression, _SOME_DAY)
    return simulator is None or len(simulator.hours) < _ALL_HOURS


def cron_firings(expression: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """Yield each instant after `after` at which an expression fires, until the calendar ends."""
    follow = _wall_clock_firings if _names_hours(expression) else _frequency_firings
    try:
        yield from follow(expression, zone, max(after, _BEGINNING))
    except (OverflowError, ValueError):  # the calendar ends with the year 9999
        return


def _wall_clock_firings(expression: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    last = after
    for wall in _simulator(expression, wall_time(after, zone)) or ():
        instant = first_instant(wall, zone)
        if instant > last:
            yield instant
            last = instant


def _frequency_firings(expression: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """Yield the firings of one offset after the other; the next offset begins where its clocks begin."""
    start, wall = after, wall_time(after, zone)
    while True:
        offset = offset_of(start, zone)
        for each in _simulator(expression, wall) or ():
            instant = instant_at(each, offset)
            near = min(instant, start + _NEAR)
            if offset_of(near, zone) != offset:
                start = transition(start, near, zone)
                wall = wall_time(start, zone) - timedelta(seconds=1)
                break
            if near < instant:
                # Nothing matches in between, and clocks that are set back later repeat only what does not match.
                start = max(near, instant - _NEAR)
                wall = wall_time(start, zone)
                break
            yield instant
            start = instant
        else:
            return


def earlier_wall_times(expression: str, wall: datetime) -> Iterator[datetime]:
    """Yield the wall times of an expression up to `wall`, the latest first."""
    try:
        yield from _simulator(expression, wall.replace(microsecond=0) + timedelta(seconds=1), reverse=True) or ()
    except (OverflowError, ValueError):  # the calendar begins with the year 1
        return


def expression_in_words(expression: str) -> str:
    """Return an expression in English, as in `At 09:00 on Monday`."""
    simulator = _simulator(expression, _SOME_DAY)
    return simulator.explain() if simulator else expression
