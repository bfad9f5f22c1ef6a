"""The forms in which users write times, as one table. A text that no form matches as a whole is not a time.

A form is a pattern and what its named parts mean at a moment in a zone. `read_time` reads a text that is a time and
nothing else; `free_text` finds a form in a sentence.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import TYPE_CHECKING, Final

from skills_core.errors import InvalidTimeError
from skills_core.schedules.cron import first_instant, in_zone, to_utc, wall_time, zone_named
from skills_core.schedules.when import MAX_SPAN, MIN_SPAN, Cron, Every, Once

if TYPE_CHECKING:
    from skills_core.schedules.when import When


ACCEPTED: Final = (
    "`+5m`, `in 2 hours`, `18:00`, `9am`, `tomorrow 9:00`, `friday 9:00`, `2026-12-24 18:00 UTC`, `every 10 minutes`, "
    "`every day at 9:00`, `every monday at 9:00`, a cron expression such as `0 9 * * 1-5`, `每 5 分` or `明天 9 點`"
)
"""Examples of the forms, for messages."""

_MAX_LENGTH: Final = 300
_ANY_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)
_SPAN_FORMS: Final = (
    "expected a span such as 4s, 10m, 1h30m, 2 hours or day; months and weekdays need a cron expression"
)
_WIDTHS: Final = {0xFF01 + number: 0x21 + number for number in range(0x5E)} | {
    0x3000: 0x20,  # the ideographic space, and two that do not break lines
    0xA0: 0x20,
    0x202F: 0x20,
    0x3001: 0x2C,  # the ideographic comma
}

# --- The parts of the forms ---

COMPACT: Final = "(?:[0-9]{1,9}[smhdw]){1,5}"
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_CHINESE_UNITS: Final = {
    "秒": "s",
    "分": "m",
    "小": "h",
    "鐘": "h",
    "钟": "h",
    "天": "d",
    "日": "d",
}  # others are weeks
_WORDS: Final = {
    each: value
    for value, each in enumerate(
        ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"), 1
    )
} | {"fifteen": 15, "twenty": 20, "thirty": 30}
_DIGITS: Final = {each: value for value, each in enumerate("一二三四五六七八九", 1)} | {"兩": 2, "两": 2}
_NUMBER: Final = f"[0-9]{{1,9}}|{'|'.join(_WORDS)}"
_CHINESE_NUMBER: Final = "[0-9]{1,9}|[二兩两三四五六七八九]?十[一二三四五六七八九]?|[一二兩两三四五六七八九]"
_CHINESE_UNIT: Final = "秒[鐘钟]?|分[鐘钟]?|[個个]?(?:小[時时]|[鐘钟][頭头])"
_SPAN: Final = (
    rf"(?:(?P<compact>{COMPACT})(?!\w)|(?P<half_hour>half an hour|half hour|半[個个]?小[時时])"
    r"|(?:an?|one|1) ?(?P<unit>second|sec|minute|min|hour|hr|[smh])(?!\w)"
    rf"|(?P<number>{_NUMBER}) ?(?P<units>seconds|secs?|minutes|mins?|hours|hrs?|[smh])(?!\w)"
    rf"|(?P<numberc>{_CHINESE_NUMBER}) ?(?P<unitc>{_CHINESE_UNIT}))"
)
_LONG_SPAN: Final = (
    rf"(?:(?P<number>{_NUMBER}|an?) ?)?(?P<units>seconds?|minutes?|hours?|days?|weeks?)"
    rf"|(?P<numberc>{_CHINESE_NUMBER})? ?(?P<unitc>{_CHINESE_UNIT}|[天日]|[個个]?(?:星期|[週周]|[禮礼]拜))"
)
_ALONE: Final = "hour|minute|second"
_CHINESE_ALONE: Final = "[個个]?(?:小[時时]|[鐘钟][頭头])|分[鐘钟]|秒[鐘钟]?"

_PARTS: Final = {
    # the hours that each part of the day has, as the clock of 24 hours writes them
    **dict.fromkeys(("凌晨",), range(5)),
    **dict.fromkeys(("morning", "清晨", "早晨", "早上", "早"), range(4, 12)),
    **dict.fromkeys(("上午",), range(12)),
    **dict.fromkeys(("中午",), range(11, 15)),
    **dict.fromkeys(("afternoon", "下午"), range(12, 19)),
    **dict.fromkeys(("evening", "tonight", "傍晚", "晚上", "晚"), range(17, 24)),
}
_DAYS: Final = {
    **dict.fromkeys(("today", "tonight", "今天", "今日", "今早", "今晚"), 0),
    **dict.fromkeys(("tomorrow", "明天", "明日", "明早", "明晚"), 1),
    **dict.fromkeys(("the day after tomorrow", "day after tomorrow", "後天", "后天"), 2),
    **dict.fromkeys(("大後天", "大后天"), 3),
}
_WEEKDAYS: Final = {
    **dict.fromkeys(("monday", "一"), 0),
    **dict.fromkeys(("tuesday", "二"), 1),
    **dict.fromkeys(("wednesday", "三"), 2),
    **dict.fromkeys(("thursday", "四"), 3),
    **dict.fromkeys(("friday", "五"), 4),
    **dict.fromkeys(("saturday", "六"), 5),
    **dict.fromkeys(("sunday", "日", "天"), 6),
}
_WEEKDAY: Final = f"(?:{'|'.join(each for each in _WEEKDAYS if len(each) > 1)})"
_CHINESE_WEEKDAY: Final = "(?:[週周]|星期|[禮礼]拜)"  # before the character of the day
_EVERY: Final = "(?:every|each)"
_EARLY: Final = 6  # `X 點` is read by the clock of 24 hours, but before six it more often means the afternoon
_HALF_DAY: Final = 12

_CLOCK: Final = (
    r"(?:(?P<partc>凌晨|清晨|早晨|早上|上午|中午|下午|傍晚|晚上) ?)?(?:"
    r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,6}))?)?"
    r"(?: ?(?P<half>[ap])\.?m\b\.?)?"
    r"|(?P<hour12>[0-9]{1,2}) ?(?P<half12>[ap])\.?m\b\.?"
    rf"|(?P<hourc>{_CHINESE_NUMBER}) ?[點点時时]"
    # 十分 is also "very", and 整 begins other words
    rf"(?:(?P<halfc>半)|(?P<quarter>[一三])刻| ?(?!十分[^\s,.;:!?。鐘钟])(?P<minutec>{_CHINESE_NUMBER}) ?分)?"
    r"(?:[鐘钟]|整(?![理個个合體体數数頓顿治修形天年夜日晚]))?"
    r"|(?P<noon>noon))"
)
_AREAS: Final = "Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Europe|Indian|Pacific|Etc"
_ZONE: Final = (
    r"(?: ?(?P<open>\()?(?P<zone>(?:UTC|GMT)(?:[+-][0-9]{1,2}(?::?[0-9]{2})?)?|Z|[+-][0-9]{2}:?[0-9]{2}"
    rf"|(?:{_AREAS})/[a-z_+\-]{{1,30}}(?:/[a-z_+\-]{{1,30}})?)(?![\w+:/-])(?(open)\)))?"
)
_DAY: Final = (
    rf"(?:(?P<date>[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})|(?P<day>{'|'.join(sorted(_DAYS, key=len, reverse=True))})"
    rf"(?: (?P<part>morning|afternoon|evening))?|(?P<weekday>{_WEEKDAY})"
    rf"|{_CHINESE_WEEKDAY}(?P<weekdayc>[一二三四五六日天]))"
)
_EACH_DAY: Final = (
    rf"(?:{_EVERY} (?P<every>day|weekday|{_WEEKDAY}|morning|afternoon|evening)"
    rf"|(?:on )?(?P<plural>weekday|{_WEEKDAY})s"
    rf"|每[個个]?(?:(?P<workday>工作[天日])|{_CHINESE_WEEKDAY}(?P<everyc>[一二三四五六日天]))"
    r"|每(?P<partr>[早晚])|每一?[天日]|天天)"
)
_CRON_VALUE: Final = (
    r"(?:\*|[0-9]{1,4}|LW?(?![a-z])"
    "|(?:mon|tue|wed|thu|fri|sat|sun|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)(?![a-z]))"
)
_CRON_FIELD: Final = rf"{_CRON_VALUE}(?:[,/#-]{_CRON_VALUE}|L){{0,30}}"
_FIVE_FIELDS: Final = rf"(?=[^\n]{{0,250}}\*){_CRON_FIELD}(?:[ \t]{{1,5}}{_CRON_FIELD}){{4}}"
_MACROS: Final = "@(?:yearly|annually|monthly|weekly|daily|midnight|hourly|reboot)"
_AT: Final = r"(?P<at>at |@ ?|[在於于] ?)"
_ON: Final = r"(?:on |[在於于] ?)?"


# --- What the parts mean ---


@dataclass(frozen=True, slots=True)
class _Words:
    """The named parts of a form in `text`, at a moment in a zone."""

    text: str
    given: Mapping[str, str]
    now: datetime
    zone: str

    def get(self, *names: str) -> str:
        """Return the part that one of the names has, in lower case; empty if the text has none of them."""
        return next((self.given[name].lower() for name in names if name in self.given), "")


def _after(words: _Words) -> Once:
    return Once(in_zone(_whole_second(words.now) + _span(words), zone_named(words.zone)))


def _recurring(words: _Words) -> Every:
    return Every(_span(words), _whole_second(words.now))


def _whole_second(instant: datetime) -> datetime:
    return instant if not instant.microsecond else instant.replace(microsecond=0) + timedelta(seconds=1)


def _span(words: _Words) -> timedelta:
    if compact := words.get("compact"):
        return compact_span(compact)
    if "half_hour" in words.given:
        return timedelta(minutes=30)
    number, unit = words.get("number", "numberc"), words.get("unit", "units", "unitc", "alone")
    first = unit.lstrip("個个")[:1]
    name = first if unit.isascii() else _CHINESE_UNITS.get(first, "w")
    return _bounded((_number(number) if number else 1) * _SECONDS[name], words.text)


def compact_span(text: str) -> timedelta:
    """Return a span as in `1h30m`.

    Raises:
        InvalidTimeError: it has a unit twice, or is out of bounds.
    """
    parts = re.findall("([0-9]{1,9})([smhdw])", text.lower())
    units = [unit for _, unit in parts]
    if units != sorted(set(units), key="wdhms".index):
        raise InvalidTimeError(text, "write each unit once, the largest first, as in 1h30m")
    return _bounded(sum(int(number) * _SECONDS[unit] for number, unit in parts), text)


def _bounded(seconds: float, text: str) -> timedelta:
    if not MIN_SPAN.total_seconds() <= seconds <= MAX_SPAN.total_seconds():
        raise InvalidTimeError(text, "a span lies between one second and 100 years")
    return timedelta(seconds=seconds)


def _number(text: str) -> int:
    """Return the number that one of the patterns of numbers matched."""
    if text.isascii():
        return int(text) if text.isdigit() else _WORDS.get(text, 1)
    tens, ten, ones = text.partition("十")
    return 10 * _DIGITS.get(tens, 1) + _DIGITS.get(ones, 0) if ten else _DIGITS[text]


def _clock(words: _Words) -> time:
    """Return the time of the day.

    Raises:
        InvalidTimeError: there is no such time, or it may be one of two.
    """
    if "noon" in words.given:
        return time(12)
    hour = _number(words.get("hour", "hour12", "hourc"))
    minute = {"一": 15, "三": 45}.get(words.get("quarter")) or _number(words.get("minute", "minutec") or "0")
    minute, second = (30 if "halfc" in words.given else minute), int(words.get("second") or 0)
    if minute > 59 or second > 59 or hour > 23:  # noqa: PLR2004 - a clock's own limits
        raise InvalidTimeError(words.text, "clocks show hours from 0 to 23, minutes and seconds from 0 to 59")
    if half := words.get("half", "half12"):
        if not 1 <= hour <= _HALF_DAY:
            raise InvalidTimeError(words.text, "with am or pm, hours go from 1 to 12")
        hour = hour % _HALF_DAY + (_HALF_DAY if half == "p" else 0)
    if parts := _parts_of_day(words):
        hour = _in_parts(hour, parts, words.text)
    elif "hourc" in words.given and 0 < hour < _EARLY:
        why = f"it may mean night or afternoon; write 凌晨 {hour} 點, 下午 {hour} 點 or {hour}:00"
        raise InvalidTimeError(words.text, why)
    return time(hour, minute, second, int((words.get("fraction") or "0").ljust(6, "0")))


def _parts_of_day(words: _Words) -> list[range]:
    day = words.get("day")
    named = (words.get("partc"), words.get("part"), words.get("partr"), words.get("every"), day, day[-1:])
    return [_PARTS[each] for each in named if each in _PARTS]


def _in_parts(hour: int, parts: list[range], text: str) -> int:
    """Return the one hour of all these parts of the day that a clock of 12 or 24 hours shows as `hour`."""
    for each in (hour, hour + _HALF_DAY if 1 <= hour < _HALF_DAY else hour):
        if all(each in part for part in parts):
            return each
    raise InvalidTimeError(text, "the hour and the part of the day do not agree; write the time as HH:MM of 24 hours")


def _once(words: _Words) -> Once:
    """Return a time of the day on the day that is named, or its next occurrence.

    Raises:
        InvalidTimeError: there is none, or it is past.
    """
    clock, place, now = _clock(words), _zone(words) or words.zone, words.now
    zone = words.get("zone")
    if zone.startswith("-") and ":" in zone and not ("date" in words.given and "T" in words.text.upper()):
        raise InvalidTimeError(words.text, f"{zone} may be an offset or the end of a range; write UTC{zone}")
    today = (now.astimezone(place) if isinstance(place, timezone) else wall_time(now, zone_named(place))).date()
    if "date" in words.given or "day" in words.given:
        at = _in(place, datetime.combine(_named_day(words, today), clock))
        if at <= now:
            present = now.astimezone(at.tzinfo).replace(microsecond=0)
            why = f"it means {at.isoformat()}, which is past; it is {present.isoformat()}"
            raise InvalidTimeError(words.text, why)
        return Once(at)
    weekday = _WEEKDAYS.get(words.get("weekday", "weekdayc"))
    step = 1 if weekday is None else 7
    first = today if weekday is None else today + timedelta(days=(weekday - today.weekday()) % 7)
    for days in range(0, 3 * step, step):
        at = _in(place, datetime.combine(first + timedelta(days=days), clock))
        if at > now:
            return Once(at)
    raise InvalidTimeError(words.text, "it does not occur")  # pragma: no cover - tomorrow's is after now


def _named_day(words: _Words, today: date) -> date:
    if "day" in words.given:
        return today + timedelta(days=_DAYS[words.get("day")])
    try:
        return date.fromisoformat(words.get("date"))
    except ValueError:
        raise InvalidTimeError(words.text, "the calendar has no such day") from None


def _zone(words: _Words) -> timezone | str | None:
    """Return the offset or the name of the zone in a text.

    Raises:
        InvalidTimeError: no zone has this offset.
    """
    given = words.given.get("zone", "")
    if "/" in given or not given:
        return given or None
    digits = given.upper().removeprefix("UTC").removeprefix("GMT").removeprefix("Z").replace(":", "")
    hours, minutes = int(digits[1:3] or "0"), int(digits[3:] or "0")
    if hours > 14 or minutes > 59:  # noqa: PLR2004 - the largest offset of a zone is 14 hours
        raise InvalidTimeError(given, "offsets lie between -14:00 and +14:00")
    shift = timedelta(hours=hours, minutes=minutes)
    return timezone(-shift if digits[0] == "-" else shift) if digits else "UTC"


def _in(zone: timezone | str, wall: datetime) -> datetime:
    """Return the time at which the clocks of a zone show a wall time, with its offset."""
    if isinstance(zone, timezone):
        return wall.replace(tzinfo=zone)
    place = zone_named(zone)
    return in_zone(first_instant(wall, place), place)


def _by_cron(words: _Words) -> Cron:
    return Cron(words.get("cron", "macro"), _zone_by_name(words))


def _each_day(words: _Words) -> Cron:
    clock = _clock(words)
    if clock.microsecond:
        raise InvalidTimeError(words.text, "what recurs at a time of the day has whole seconds")
    is_workday = "workday" in words.given or words.get("every", "plural") == "weekday"
    days = "1-5" if is_workday else "*"
    if (weekday := _WEEKDAYS.get(words.get("every", "plural", "everyc"))) is not None:
        days = str((weekday + 1) % 7)
    fields = f"{clock.minute} {clock.hour} * * {days}"
    return Cron(f"{clock.second} {fields}" if clock.second else fields, _zone_by_name(words))


def _zone_by_name(words: _Words) -> str:
    zone = _zone(words)
    if isinstance(zone, timezone):
        raise InvalidTimeError(words.text, "a time that recurs needs a zone by name, as in Europe/Berlin")
    return zone or words.zone


# --- The forms ---


@dataclass(frozen=True, slots=True)
class Form:
    """A form of times. A `weak` one at the end of a sentence may belong to the task, as in `read it in 5 minutes`."""

    pattern: str
    means: Callable[[_Words], When]
    weak: bool = False


_FORMS: Final = (
    Form(rf"(?:cron(?: expression)?:? ?)?(?P<cron>{_FIVE_FIELDS})(?![ \t]+[0-9*]){_ZONE}", _by_cron),
    Form(
        r"(?:cron(?: expression)?:? ?)?(?P<quote>[`'\"])"
        rf"(?P<cron>{_FIVE_FIELDS}(?:[ \t]{{1,5}}{_CRON_FIELD})?)(?P=quote){_ZONE}",
        _by_cron,
    ),
    Form(rf"(?P<macro>{_MACROS}){_ZONE}", _by_cron),
    Form(rf"\+{_SPAN}", _after),
    Form(rf"in {_SPAN}", _after, weak=True),
    Form(rf"{_SPAN} from now", _after),
    Form(rf"{_SPAN}(?:之|以)?[後后]", _after),
    Form(rf"{_EVERY} (?:{_SPAN}|(?P<alone>{_ALONE}))", _recurring),
    Form(rf"每隔? ?(?:{_SPAN}|(?P<alone>{_CHINESE_ALONE}))", _recurring),
    Form(rf"(?:{_EACH_DAY}|daily)(?:,? at |,? ?){_CLOCK}{_ZONE}", _each_day),
    Form(rf"{_AT}?{_CLOCK}{_ZONE} {_EACH_DAY}", _each_day),
    Form(rf"{_AT}?{_ON}{_DAY}(?:,? at |T|,? ?){_CLOCK}{_ZONE}", _once),
    Form(rf"{_AT}?{_CLOCK}{_ZONE} (?:on |(?=to|[今明後后])){_DAY}", _once),
    Form(rf"{_AT}?{_CLOCK}{_ZONE}", _once, weak=True),
)
"""All forms. A time word of another language is a row here, or a value of a part above."""

_START: Final = r"(?<![\w.:/+*~≈<>=$€£#%&@\\-])(?<![0-9],)"
_END: Final = (
    r"(?![\w/\\*+~≈%°$€£@#=<>\-]|['\u2019]\w|[:.,][0-9]|\s*(?:的|之|以|前|後|后|多|許|许|餘|余|過|过|至|到|起))"
)
# What may continue a number, a unit or a clock, before and after a form.


def forms() -> Iterator[tuple[Form, re.Pattern[str]]]:
    """Yield the forms with their patterns, each compiled when it is first used: that takes longer than imports do."""
    for each in _FORMS:
        yield each, _compiled(each.pattern)


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    # A form matches as much as it can, or not at all: it is not cut back until what follows fits.
    return re.compile(f"{_START}(?>{pattern}){_END}", re.ASCII | re.IGNORECASE)


def meaning(form: Form, match: re.Match[str], now: datetime, zone: str) -> When:
    """Return what the match of a form means at `now`, by the clocks of `zone` unless it names another one.

    Raises:
        InvalidTimeError: it means no time, one that is past, or one of two.
    """
    given = {name: value for name, value in match.groupdict().items() if value is not None}
    try:
        return form.means(_Words(match.group(), given, to_utc(now), zone))
    except OverflowError:
        raise InvalidTimeError(match.group(), "it lies after the year 9999") from None


def fold_width(text: str) -> str:
    """Return `text` with fullwidth characters as ordinary ones; positions stay the same."""
    return text.translate(_WIDTHS)


# --- Texts that are a time and nothing else ---


def read_time(text: str, now: datetime, zone: str) -> When:
    """Return the time that `text` is, quoted or not; without a zone of its own, by the clocks of `zone`.

    Raises:
        InvalidTimeError: it is not a time, is one of several, or is past; or there is no such zone.
    """
    folded = _folded(text, f"expected one of the forms {ACCEPTED}").strip("`'\"")
    for form, pattern in forms():
        for written in (folded, f"`{folded}`"):
            if match := pattern.fullmatch(written):
                return meaning(form, match, now, zone)
    raise InvalidTimeError(text, f"expected one of the forms {ACCEPTED}")


def parse_at(text: str, now: datetime, zone: str) -> Once:
    """Return the time that `text` gives, after `now`; without a zone of its own, by the clocks of `zone`.

    Raises:
        InvalidTimeError: it is not a time, is one of several, or is past; or there is no such zone.
    """
    when = read_time(text, now, zone)
    if not isinstance(when, Once):
        raise InvalidTimeError(text, "it recurs; give it as a span or a cron expression (--every, --cron)")
    return when


def parse_every(text: str) -> timedelta:
    """Return the span that `text` gives.

    Raises:
        InvalidTimeError: it is not a span between a second and 100 years.
    """
    folded = re.sub(f"^(?:{_EVERY} |每隔? ?)", "", _folded(text, _SPAN_FORMS), flags=re.IGNORECASE)
    for pattern in (_SPAN, _LONG_SPAN):
        if match := re.fullmatch(pattern, folded, re.ASCII | re.IGNORECASE):
            given = {name: value for name, value in match.groupdict().items() if value is not None}
            return _span(_Words(text, given, _ANY_TIME, "UTC"))
    raise InvalidTimeError(text, _SPAN_FORMS)


def parse_cron(text: str, zone: str) -> Cron:
    """Return the schedule of a cron expression by the clocks of `zone`.

    Raises:
        InvalidTimeError: it is not a cron expression, it never fires, or there is no such zone.
    """
    return Cron(fold_width(text).strip(), zone)


def _folded(text: str, expected: str) -> str:
    if len(text) > _MAX_LENGTH:
        raise InvalidTimeError(text, f"it has {len(text)} characters; {expected}")
    return " ".join(fold_width(text).split())
