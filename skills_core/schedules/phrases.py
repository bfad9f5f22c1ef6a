"""The grammar of times: which lexemes make a phrase, and what it means at a moment in a zone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from typing import TYPE_CHECKING, Final

from skills_core.errors import InvalidTimeError
from skills_core.schedules.clocks import (
    Clock,
    clock_of,
    day_part,
    days_ahead,
    next_weekday,
    offset_named,
    offset_of_zone,
    weekday_of,
    weekdays_of,
)
from skills_core.schedules.lexemes import lexemes
from skills_core.schedules.spans import compact_span, span_of
from skills_core.schedules.when import Cron, Every, Once
from skills_core.schedules.zones import first_instant, in_zone, to_utc, wall_time, zone_named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skills_core.schedules.lexemes import Lexeme
    from skills_core.schedules.when import When

__all__ = ["Form", "Phrase", "meaning", "phrases", "why_unclear"]

_CLOCK: Final = "(?:p?c*)?[CH]p?Z?"
_FORMS: Final = {
    "instant": "I",
    "cron": "kZ?",
    "relative": "[ON]",
    "span": "E",
    "dated": f"[Ddw]c*{_CLOCK}|{_CLOCK}c*[Ddw]p?",
    "daily": f"(?:[YV]c*|yc+){_CLOCK}|{_CLOCK}c*[YV]p?",
    "clock": _CLOCK,
}
"""What each form of a phrase consists of, by the kinds of `lexemes`."""

_FORM: Final = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _FORMS.items()))
_BETWEEN: Final = re.compile(r"[\s,;()]*")
_CLOSING: Final = re.compile(r"\s*\)")
_ONLY_NEARBY: Final = frozenset("crsz")
# Kinds that say nothing about the time of a schedule unless they stand next to a time.


class Form:
    """The names of the forms."""

    INSTANT, CRON, RELATIVE, SPAN, DATED, DAILY, CLOCK = _FORMS


@dataclass(frozen=True, slots=True)
class Phrase:
    """Adjacent lexemes at `start` to `end`; `form` is None if they make no time, or leave one open."""

    start: int
    end: int
    text: str
    form: str | None
    lexemes: tuple[Lexeme, ...]

    @property
    def kinds(self) -> str:
        """The kinds of the lexemes, in order."""
        return "".join(each.kind for each in self.lexemes)

    def first(self, kinds: str) -> Lexeme | None:
        """Return the first lexeme of one of these kinds."""
        return next((each for each in self.lexemes if each.kind in kinds), None)


_WHY_NOT: Final = (
    ("z", "it names a time zone that is not one of the IANA database, as Europe/Berlin is"),
    ("v", "it can be read in several ways; write a date as 2026-12-24, and what recurs as a cron expression"),
    ("gsr", "it is not exact"),
)


def why_unclear(phrase: Phrase) -> str:
    """Return why a phrase without a form gives no time."""
    kinds = set(phrase.kinds)
    for reasons, why in _WHY_NOT:
        if kinds & set(reasons):
            return why
    times = sum(kind in "CHIkONE" for kind in phrase.kinds)
    if times == 0:
        return "it has no time of the day; add HH:MM"
    return "it gives more than one time" if times > 1 else "its parts do not go together"


def phrases(text: str) -> tuple[Phrase, ...]:
    """Return the phrases of a text of folded width that concern time, in order."""
    found = []
    for group in _adjacent(text):
        kinds = "".join(each.kind for each in group)
        if not kinds.strip("c"):
            continue
        core = group[: len(kinds.rstrip("c"))]
        inner = core[len(kinds) - len(kinds.lstrip("c")) :]
        match = _FORM.fullmatch("".join(each.kind for each in inner))
        form = match.lastgroup if match else None
        if form is None and not set(kinds) - _ONLY_NEARBY and "s" not in kinds:
            continue
        start, end = core[0].start, core[-1].end
        if "(" in text[start:end] and (closing := _CLOSING.match(text, end)):
            end = closing.end()
        found.append(Phrase(start, end, text[start:end].strip(), form, core))
    return tuple(found)


def _adjacent(text: str) -> Iterator[tuple[Lexeme, ...]]:
    group: list[Lexeme] = []
    for each in lexemes(text):
        if group and not _BETWEEN.fullmatch(text, group[-1].end, each.start):
            yield tuple(group)
            group = []
        group.append(each)
    if group:
        yield tuple(group)


def meaning(phrase: Phrase, now: datetime, zone: str) -> When:
    """Return what a phrase with a form means at `now`, by the clocks of `zone` unless it names another one.

    Raises:
        InvalidTimeError: it means no time, one that is past, or one of two.
    """
    try:
        return _meaning(phrase, now, zone)
    except OverflowError:
        raise InvalidTimeError(phrase.text, "it lies after the year 9999") from None


def _meaning(phrase: Phrase, now: datetime, zone: str) -> When:
    instant = to_utc(now)
    match phrase.form:
        case Form.INSTANT:
            return _once(phrase, _instant(phrase.lexemes[-1], zone), instant)
        case Form.CRON:
            return Cron(_expression(phrase), _zone_named_by(phrase) or zone)
        case Form.RELATIVE:
            return Once(in_zone(_whole_second(instant) + _span(phrase), zone_named(zone)))
        case Form.SPAN:
            return Every(_span(phrase), _whole_second(instant))
        case Form.DAILY:
            return _daily(phrase, zone)
        case _:
            return _at_clock(phrase, instant, zone)


def _whole_second(instant: datetime) -> datetime:
    return instant if not instant.microsecond else instant.replace(microsecond=0) + timedelta(seconds=1)


def _once(phrase: Phrase, at: datetime, now: datetime) -> Once:
    if at <= now:
        present = now.astimezone(at.tzinfo).replace(microsecond=0)
        raise InvalidTimeError(phrase.text, f"it means {at.isoformat()}, which is past; it is {present.isoformat()}")
    return Once(at)


def _instant(lexeme: Lexeme, zone: str) -> datetime:
    try:
        wall = datetime.fromisoformat(lexeme.values["iso"])
    except ValueError:
        raise InvalidTimeError(lexeme.text, "the calendar has no such day, or clocks show no such time") from None
    if "zone" in lexeme.values:
        return _in(offset_named(lexeme.values["zone"]), wall)
    return _in(zone, wall)


def _in(zone: timezone | str, wall: datetime) -> datetime:
    """Return the time at which the clocks of a zone show a wall time, with its offset."""
    if isinstance(zone, timezone):
        return wall.replace(tzinfo=zone)
    place = zone_named(zone)
    return in_zone(first_instant(wall, place), place)


def _span(phrase: Phrase) -> timedelta:
    lexeme = phrase.lexemes[-1]
    values = lexeme.values
    for name in ("offset", "compact", "incompact"):
        if name in values:
            return compact_span(values[name])
    if "alone" in values:
        return span_of("half" if "half" in lexeme.text.lower() else "", values["alone"], text=lexeme.text)
    for number, unit in (
        ("number", "unit"),
        ("inn", "inu"),
        ("fromn", "fromu"),
        ("numberc", "unitc"),
        ("laten", "lateu"),
    ):
        if unit in values:
            return span_of(values.get(number, ""), values[unit], text=lexeme.text)
    raise InvalidTimeError(lexeme.text, "it is no span")


def _parts(phrase: Phrase) -> tuple[Clock, timezone | str | None]:
    named = [part for each in phrase.lexemes if (part := day_part(each))]
    if len(set(named)) > 1:
        raise InvalidTimeError(phrase.text, "it names two parts of the day")
    clock, zone = phrase.first("CH"), phrase.first("Z")
    if clock is None:
        raise InvalidTimeError(phrase.text, "it has no time of the day; write HH:MM")
    return clock_of(clock, named[0] if named else None), offset_of_zone(zone) if zone else None


def _daily(phrase: Phrase, zone: str) -> Cron:
    clock, _ = _parts(phrase)
    days = phrase.first("V")
    fields = f"{clock.minute} {clock.hour} * * {weekdays_of(days) if days else '*'}"
    return Cron(f"{clock.second} {fields}" if clock.second else fields, _zone_named_by(phrase) or zone)


def _expression(phrase: Phrase) -> str:
    values = next(each.values for each in phrase.lexemes if each.kind == "k")
    return values.get("cron") or values["macro"]


def _zone_named_by(phrase: Phrase) -> str | None:
    """Return the name of the zone in a phrase that recurs.

    Raises:
        InvalidTimeError: it has an offset, which clocks change.
    """
    lexeme = phrase.first("Z")
    zone = offset_of_zone(lexeme) if lexeme else None
    if isinstance(zone, timezone):
        raise InvalidTimeError(phrase.text, "a time that recurs needs a zone by name, as in Europe/Berlin")
    return zone


def _at_clock(phrase: Phrase, now: datetime, zone: str) -> Once:
    clock, other = _parts(phrase)
    place = other or zone
    today = (now.astimezone(place) if isinstance(place, timezone) else wall_time(now, zone_named(place))).date()
    time_of_day = time(clock.hour, clock.minute, clock.second)
    date_word, day_word, weekday = phrase.first("D"), phrase.first("d"), phrase.first("w")
    if date_word or day_word:
        day = _date(date_word) if date_word else today + timedelta(days=days_ahead(day_word)) if day_word else today
        return _once(phrase, _in(place, datetime.combine(day, time_of_day)), now)
    step = 7 if weekday else 1
    first = next_weekday(today, weekday_of(weekday)) if weekday else today
    for days in range(0, 3 * step, step):
        at = _in(place, datetime.combine(first + timedelta(days=days), time_of_day))
        if at > now:
            return Once(at)
    raise InvalidTimeError(phrase.text, "it does not occur")  # pragma: no cover - tomorrow's is after now


def _date(lexeme: Lexeme) -> date:
    try:
        return date.fromisoformat(lexeme.values["date"])
    except ValueError:
        raise InvalidTimeError(lexeme.text, "the calendar has no such day") from None
