"""Times of the day and days as lexemes give them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta, timezone
from typing import TYPE_CHECKING, Final

from skills_core.errors import InvalidTimeError
from skills_core.schedules.spans import number_of

if TYPE_CHECKING:
    from skills_core.schedules.lexemes import Lexeme

__all__ = [
    "Clock",
    "clock_of",
    "day_part",
    "days_ahead",
    "next_weekday",
    "offset_named",
    "offset_of_zone",
    "weekday_of",
    "weekdays_of",
]

_WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CHINESE_WEEKDAYS: Final = "一二三四五六日"
_HALF_DAY: Final = 12
_EARLY: Final = 6  # X 點 is read by the clock of 24 hours, but before six more often means the afternoon

_PARTS: Final = {
    # the hours of the day that each part has, as the clock of 24 hours writes them
    "morning": range(4, 12),
    "noon": range(11, 15),
    "afternoon": range(12, 19),
    "evening": range(17, 24),
    "night": range(5),
    "am": range(12),
}
_CHINESE_PARTS: Final = {
    "凌晨": "night",
    "清晨": "morning",
    "早晨": "morning",
    "早上": "morning",
    "早": "morning",
    "上午": "am",
    "中午": "noon",
    "下午": "afternoon",
    "傍晚": "evening",
    "晚": "evening",
    "夜": "evening",
}
_DAYS: Final = {"today": 0, "tonight": 0, "tomorrow": 1, "今": 0, "明": 1, "後": 2, "后": 2, "大": 3}


@dataclass(frozen=True, slots=True)
class Clock:
    """A time of the day."""

    hour: int
    minute: int = 0
    second: int = 0


def clock_of(lexeme: Lexeme, part: str | None) -> Clock:
    """Return the time of a clock lexeme; `part` is the part of the day that stands with it.

    Raises:
        InvalidTimeError: there is no such time, or it may be one of two.
    """
    values, text = lexeme.values, lexeme.text
    if "noon" in values:
        return Clock(12)
    half = values.get("half") or values.get("half12")
    hour = _number(values.get("hour") or values.get("hour12") or values.get("hourc") or values["bare"], text)
    minute, second = _number(values.get("minute", "0"), text), _number(values.get("second", "0"), text)
    if "halfc" in values:
        minute = 30
    elif "quarter" in values:
        minute = 15 if values["quarter"][0] == "一" else 45
    elif "minutec" in values:
        minute = _number(values["minutec"], text)
    if minute > 59 or second > 59 or hour > 23:  # noqa: PLR2004 - a clock's own limits
        raise InvalidTimeError(text, "clocks show hours from 0 to 23, minutes and seconds from 0 to 59")
    if half:
        hour = _of_half(hour, half.lower(), text)
    if part:
        hour = _in_part(hour, part, text)
    elif "bare" in values:
        raise InvalidTimeError(text, f"it may mean morning or evening; write {hour}:00, {hour}am or {hour}pm")
    elif "hourc" in values and 0 < hour < _EARLY:
        raise InvalidTimeError(
            text, f"it may mean night or afternoon; write 凌晨 {hour} 點, 下午 {hour} 點 or {hour}:00"
        )
    return Clock(hour, minute, second)


def _number(text: str, whole: str) -> int:
    number = number_of(text)
    if number is None or number != int(number):
        raise InvalidTimeError(whole, f"{text!r} is no number")
    return int(number)


def _of_half(hour: int, half: str, text: str) -> int:
    if not 1 <= hour <= _HALF_DAY:
        raise InvalidTimeError(text, "with am or pm, hours go from 1 to 12")
    return hour % _HALF_DAY + (_HALF_DAY if half == "p" else 0)


def _in_part(hour: int, part: str, text: str) -> int:
    """Return the one hour of the part of the day that a clock of 12 or 24 hours shows as `hour`."""
    if hour in _PARTS[part]:
        return hour
    if 1 <= hour < _HALF_DAY and hour + _HALF_DAY in _PARTS[part]:
        return hour + _HALF_DAY
    raise InvalidTimeError(text, "the hour and the part of the day do not agree; write the time as HH:MM of 24 hours")


def day_part(lexeme: Lexeme) -> str | None:
    """Return the part of the day that a lexeme names: a key of the table above."""
    if "part" in lexeme.values:
        return lexeme.values["part"].lower()
    if "partc" in lexeme.values:
        text = lexeme.values["partc"]
        return _CHINESE_PARTS.get(text) or _CHINESE_PARTS[text[0]]
    if "dayc" in lexeme.values:
        return _CHINESE_PARTS.get(lexeme.values["dayc"][-1])
    return "evening" if lexeme.values.get("day", "").lower() == "tonight" else None


def days_ahead(lexeme: Lexeme) -> int:
    """Return how many days after today a day lexeme names."""
    if "dayc" in lexeme.values:
        return _DAYS[lexeme.values["dayc"][0]]
    return _DAYS.get(lexeme.values["day"].lower(), 2)


def weekday_of(lexeme: Lexeme) -> int:
    """Return the weekday that a lexeme names; Monday is 0."""
    return _weekday(lexeme.values.get("weekday") or lexeme.values["weekdayc"])


def weekdays_of(lexeme: Lexeme) -> str:
    """Return the field of a cron expression for the days that `every …` names."""
    name = lexeme.values.get("weekdays") or lexeme.values.get("plural") or lexeme.values["weekdaysc"]
    if name.lower().replace("-", "").startswith("weekday") or name[0] in "工平":
        return "1-5"
    return str((_weekday(name) + 1) % 7)


def _weekday(name: str) -> int:
    if name.isascii():
        return _WEEKDAYS.index(name[:3].lower())
    return _CHINESE_WEEKDAYS.index(name[-1].replace("天", "日"))


def offset_of_zone(lexeme: Lexeme) -> timezone | str:
    """Return the offset or the name of the zone that a zone lexeme gives.

    Raises:
        InvalidTimeError: no zone has this offset.
    """
    if "iana" in lexeme.values:
        return lexeme.values["iana"]
    return offset_named(lexeme.values.get("shift") or lexeme.values.get("direct") or "")


def offset_named(text: str) -> timezone | str:
    """Return the offset that text like `+01:00`, `+8` or `Z` gives.

    Raises:
        InvalidTimeError: no zone has this offset.
    """
    digits = text.strip().upper().removeprefix("Z").replace(":", "")
    if not digits:
        return "UTC"
    hours, minutes = int(digits[1:3]), int(digits[3:] or "0")
    if hours > 14 or minutes > 59:  # noqa: PLR2004 - the largest offset of a zone is 14 hours
        raise InvalidTimeError(text.strip(), "offsets lie between -14:00 and +14:00")
    shift = timedelta(hours=hours, minutes=minutes)
    return timezone(-shift if digits[0] == "-" else shift)


def next_weekday(today: date, weekday: int) -> date:
    """Return the first such weekday that is not before today."""
    return today + timedelta(days=(weekday - today.weekday()) % 7)
