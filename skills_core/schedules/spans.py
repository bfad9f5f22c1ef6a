"""Spans of elapsed time as users write them, in English and Chinese."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from skills_core.errors import InvalidTimeError
from skills_core.schedules.when import MAX_SPAN, MIN_SPAN

__all__ = [
    "CHINESE_NUMBER",
    "CHINESE_SHORT_UNIT",
    "CHINESE_UNIT",
    "COMPACT",
    "NUMBER",
    "SHORT_UNIT",
    "UNIT",
    "compact_span",
    "number_of",
    "span_of",
]

NUMBER: Final = (
    r"(?:[0-9]{1,9}|half an|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty)"
)
SHORT_UNIT: Final = r"(?:seconds?|secs?|minutes?|mins?|hours?|hrs?|[smh])"
UNIT: Final = r"(?:seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|[smhdw])"
CHINESE_NUMBER: Final = r"(?:[0-9]{1,9}|半|[零〇一二兩两三四五六七八九十]{1,3})"
CHINESE_UNIT: Final = (
    r"(?:秒[鐘钟]?|分[鐘钟]?|[個个]?(?:半小[時时]|小[時时]|[鐘钟][頭头])|天|日|[個个]?(?:星期|[週周]|[禮礼]拜))"
)
CHINESE_SHORT_UNIT: Final = r"(?:秒[鐘钟]?|分[鐘钟]?|[個个]?(?:半小[時时]|小[時时]|[鐘钟][頭头]))"
COMPACT: Final = r"(?:[0-9]{1,9}[smhdw]){1,5}"

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_CHINESE_SECONDS: Final = {"秒": 1, "分": 60, "時": 3600, "时": 3600, "鐘": 3600, "钟": 3600, "頭": 3600, "头": 3600}
_CHINESE_LONG: Final = {"天": 86_400, "日": 86_400}
_WORDS: Final = {
    "a": 1,
    "an": 1,
    "half an": 0.5,
    "half": 0.5,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "eleven": 11,
    "twelve": 12,
    "fifteen": 15,
    "twenty": 20,
    "thirty": 30,
}
_DIGITS: Final = {character: value for value, each in enumerate("零一二三四五六七八九") for character in each} | {
    "\u3007": 0,
    "兩": 2,
    "两": 2,
}
_PARTS: Final = re.compile(r"([0-9]{1,9})([smhdw])", re.ASCII | re.IGNORECASE)


def number_of(text: str) -> float | None:
    """Return the number that `text` writes in digits, English or Chinese; None if it writes none."""
    text = " ".join(text.lower().split())
    if text.isascii():
        return int(text) if text.isdigit() else _WORDS.get(text)
    if text == "半":
        return 0.5
    if len(text) == 1 and text in _DIGITS:
        return _DIGITS[text]
    tens, ten, ones = text.partition("十")
    if ten and tens in {"", *_DIGITS} and ones in {"", *_DIGITS}:
        return 10 * (_DIGITS[tens] if tens else 1) + (_DIGITS[ones] if ones else 0)
    return None


def span_of(number: str, unit: str, *, text: str) -> timedelta:
    """Return the span of a number and a unit; an empty number means one.

    Raises:
        InvalidTimeError: the number is none, or the span is out of bounds; the message quotes `text`.
    """
    amount = number_of(number) if number.strip() else 1
    if amount is None:
        raise InvalidTimeError(text, f"{number!r} is no number")
    return _bounded(amount * _unit_seconds(unit), text)


def compact_span(text: str) -> timedelta:
    """Return a span as in `1h30m`.

    Raises:
        InvalidTimeError: it has a unit twice, or is out of bounds.
    """
    parts = _PARTS.findall(text.lower())
    units = [unit for _, unit in parts]
    if units != sorted(set(units), key="wdhms".index):
        raise InvalidTimeError(text, "write each unit once, the largest first, as in 1h30m")
    return _bounded(sum(int(number) * _SECONDS[unit] for number, unit in parts), text)


def _unit_seconds(unit: str) -> float:
    if unit.isascii():
        return _SECONDS[unit[0].lower()]
    if "半" in unit:
        return 1800
    if unit[-1] in _CHINESE_LONG:
        return _CHINESE_LONG[unit[-1]]
    known = [_CHINESE_SECONDS[each] for each in unit if each in _CHINESE_SECONDS]
    return known[0] if known else _SECONDS["w"]


def _bounded(seconds: float, text: str) -> timedelta:
    if not MIN_SPAN.total_seconds() <= seconds <= MAX_SPAN.total_seconds():
        raise InvalidTimeError(text, "a span lies between one second and 100 years")
    return timedelta(seconds=seconds)
