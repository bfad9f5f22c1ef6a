"""When a schedule fires: once, in spans of elapsed time, or by a cron expression."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Final, assert_never

from skills_core.errors import InvalidTimeError
from skills_core.schedules.cron import checked_expression
from skills_core.schedules.zones import to_utc, zone_named

__all__ = ["MAX_SPAN", "MIN_SPAN", "Cron", "Every", "Once", "When", "when_from_json", "when_to_json"]

MIN_SPAN: Final = timedelta(seconds=1)
MAX_SPAN: Final = timedelta(days=36_525)

_FIRST: Final = datetime(1, 1, 2, tzinfo=UTC)
_LAST: Final = datetime(9999, 12, 31, tzinfo=UTC) - timedelta(seconds=1)
# Between these, the clocks of each zone show a day of the calendar.


@dataclass(frozen=True, slots=True)
class Once:
    """One firing at `at`, which has an offset from UTC."""

    at: datetime

    def __post_init__(self) -> None:
        """Replace a zone by its offset: times of one zone compare without their offsets.

        Raises:
            InvalidTimeError: the time has no offset, or the clocks of some zone cannot show it.
        """
        if not _FIRST <= to_utc(self.at) <= _LAST:
            raise InvalidTimeError(self.at.isoformat(), f"schedules fire from {_FIRST.date()} to {_LAST.date()}")
        object.__setattr__(self, "at", self.at.astimezone(timezone(self.at.utcoffset() or timedelta())))


@dataclass(frozen=True, slots=True)
class Every:
    """A firing after each `span` of elapsed time, the first one span after `anchor`."""

    span: timedelta
    anchor: datetime

    def __post_init__(self) -> None:
        """Check the span, and store the anchor in UTC.

        Raises:
            InvalidTimeError: the span is shorter than a second or longer than 100 years.
        """
        if not MIN_SPAN <= self.span <= MAX_SPAN:
            raise InvalidTimeError(str(self.span), "a span lies between one second and 100 years")
        object.__setattr__(self, "anchor", to_utc(self.anchor))


@dataclass(frozen=True, slots=True)
class Cron:
    """The firings of a cron expression by the clocks of a zone; both are checked, the expression is normalized."""

    expression: str
    zone: str = "UTC"

    def __post_init__(self) -> None:
        """Check both.

        Raises:
            InvalidTimeError: the expression or the zone cannot be used.
        """
        object.__setattr__(self, "expression", checked_expression(self.expression))
        zone_named(self.zone)


When = Once | Every | Cron


def when_to_json(when: When) -> dict[str, str | float]:
    """Return `when` as a JSON object; times are in ISO 8601 with their offset."""
    match when:
        case Once(at):
            return {"kind": "once", "at": at.isoformat()}
        case Every(span, anchor):
            return {"kind": "every", "seconds": span.total_seconds(), "anchor": anchor.isoformat()}
        case Cron(expression, zone):
            return {"kind": "cron", "expression": expression, "zone": zone}
    assert_never(when)


def when_from_json(value: object) -> When:
    """Return what `when_to_json` wrote.

    Raises:
        InvalidTimeError: it is something else.
    """
    match value:
        case {"kind": "once", "at": str(at), **rest} if not rest:
            return Once(_moment(at))
        case {"kind": "every", "seconds": int() | float() as seconds, "anchor": str(anchor), **rest} if not rest:
            return Every(_span(seconds), _moment(anchor))
        case {"kind": "cron", "expression": str(expression), "zone": str(zone), **rest} if not rest:
            return Cron(expression, zone)
    raise InvalidTimeError(
        _shown(value),
        'expected {"kind": "once", "at"}, {"kind": "every", "seconds", "anchor"} or '
        '{"kind": "cron", "expression", "zone"}',
    )


def _shown(value: object) -> str:
    return str(sorted(map(str, value))) if isinstance(value, dict) else type(value).__name__


def _span(seconds: float) -> timedelta:
    try:
        return timedelta(seconds=seconds)
    except (OverflowError, ValueError):
        raise InvalidTimeError(str(seconds), "a span lies between one second and 100 years") from None


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidTimeError(text, "expected ISO 8601 with an offset, as in 2026-12-24T18:00:00+01:00") from None
