"""Parse the times that users give by themselves: `--at`, `--every` and `--cron`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from skills_core.errors import InvalidTimeError
from skills_core.schedules.lexemes import fold_width
from skills_core.schedules.phrases import meaning, phrases, why_unclear
from skills_core.schedules.spans import CHINESE_NUMBER, CHINESE_UNIT, COMPACT, NUMBER, UNIT, compact_span, span_of
from skills_core.schedules.when import Cron, Once

if TYPE_CHECKING:
    from datetime import datetime, timedelta

__all__ = ["parse_at", "parse_cron", "parse_every"]

_MAX_LENGTH: Final = 300
_AT_FORMS: Final = (
    "expected a time such as +5m, 18:00, tomorrow 9:00, 2026-12-24 18:00, or ISO 8601 as in 2026-12-24T18:00:00+01:00"
)
_EVERY_FORMS: Final = "expected a span such as 4s, 10m, 1h30m, 2 hours or day"
_SPAN: Final = re.compile(
    rf"(?:every |each |每隔? ?)?(?:(?P<compact>{COMPACT})"
    rf"|(?:(?P<number>{NUMBER}) ?)?(?P<unit>{UNIT})"
    rf"|(?P<numberc>{CHINESE_NUMBER})? ?(?P<unitc>{CHINESE_UNIT}))",
    re.ASCII | re.IGNORECASE,
)


def parse_at(text: str, now: datetime, zone: str) -> Once:
    """Return the time that `text` gives, after `now`; without a zone of its own, by the clocks of `zone`.

    Raises:
        InvalidTimeError: it is no time, one of several, or past; or there is no such zone.
    """
    folded = _folded(text, _AT_FORMS)
    found = phrases(folded)
    if len(found) != 1 or found[0].text != folded:
        raise InvalidTimeError(text, _AT_FORMS)
    if found[0].form is None:
        raise InvalidTimeError(text, f"{why_unclear(found[0])}; {_AT_FORMS}")
    when = meaning(found[0], now, zone)
    if not isinstance(when, Once):
        raise InvalidTimeError(text, "it recurs; give it as a span or a cron expression (--every, --cron)")
    return when


def parse_every(text: str) -> timedelta:
    """Return the span that `text` gives.

    Raises:
        InvalidTimeError: it is no span between a second and 100 years.
    """
    folded = _folded(text, _EVERY_FORMS)
    match = _SPAN.fullmatch(" ".join(folded.split()))
    if match is None:
        raise InvalidTimeError(text, f"{_EVERY_FORMS}; months and weekdays need a cron expression")
    values = match.groupdict()
    if values["compact"]:
        return compact_span(values["compact"])
    unit = values["unit"] or values["unitc"]
    return span_of(values["number"] or values["numberc"] or "", unit, text=folded)


def parse_cron(text: str, zone: str) -> Cron:
    """Return the schedule of a cron expression by the clocks of `zone`.

    Raises:
        InvalidTimeError: it is no cron expression, it never fires, or there is no such zone.
    """
    return Cron(fold_width(text).strip(), zone)


def _folded(text: str, expected: str) -> str:
    if len(text) > _MAX_LENGTH:
        raise InvalidTimeError(text, f"it has {len(text)} characters; {expected}")
    return fold_width(text).strip()
