"""When a schedule fires: once, in spans of elapsed time, or by a cron expression; which firings are due, and its state.

Times have an offset from UTC; functions raise `InvalidTimeError` for one without. Decisions are functions of recorded
times alone: any process may make them, and a second one that starts from the same times decides the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Final, assert_never

from skills_core.errors import InvalidTimeError
from skills_core.schedules.cron import (
    checked_expression,
    cron_firings,
    earlier_wall_times,
    expression_in_words,
    first_instant,
    in_zone,
    to_utc,
    wall_time,
    zone_named,
)

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo


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


def firings(when: When, after: datetime) -> Iterator[datetime]:
    """Yield each firing after `after` in order: with the offset of its zone, for spans in UTC."""
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
    """Return the first `count` firings after `after`, fewer if the schedule ends."""
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
    """Return the latest `limit` firings after `last`, up to and including `now`."""
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


_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_UNITS = (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))
_DESCRIBED = 3


def describe(when: When, now: datetime, zone: str = "UTC") -> str:
    """Return what `when` means, and its next three firings, each with weekday, date, time, offset and zone.

    Times of a cron expression are shown in its own zone, others in `zone`.

    Raises:
        InvalidTimeError: there is no such zone, or `now` has no offset from UTC.
    """
    zone = when.zone if isinstance(when, Cron) else zone
    coming = next_firings(when, now, _DESCRIBED)
    match when:
        case Once(at):
            head = f"Once at {full_time(at, zone)}" + ("." if coming else ", which is past.")
            if coming:
                return head
        case Every(span, _):
            head = f"Every {span_in_words(span)} of elapsed time, whatever clocks show."
        case Cron(expression, _):
            head = f"{expression_in_words(expression)}, by the clocks of {zone} (cron {expression})."
        case _:
            assert_never(when)
    if not coming:
        return f"{head}\nIt has no further firing."
    return "\n".join([head, "Next firings:", *(f"- {full_time(each, zone)}" for each in coming)])


def full_time(moment: datetime, zone: str) -> str:
    """Return a time as in `Thursday 2026-12-24 18:00:00 +01:00 (Europe/Berlin)`.

    Raises:
        InvalidTimeError: there is no such zone, or the time has no offset.
    """
    local = in_zone(to_utc(moment), zone_named(zone))
    shown = local.isoformat(" ", "seconds")
    return f"{_DAYS[local.weekday()]} {shown[:19]} {shown[19:]} ({zone})"


def span_in_words(span: timedelta) -> str:
    """Return a span as in `1 day 2 hours`."""
    left, parts = round(span.total_seconds()), []
    for name, size in _UNITS:
        number, left = divmod(left, size)
        if number:
            parts.append(f"{number} {name}" + "s" * (number != 1))
    return " ".join(parts) or "0 seconds"


class ScheduleState(StrEnum):
    """The state of a schedule. The values are part of the contract."""

    ACTIVE = "active"
    PAUSED = "paused"
    RUNNING = "running"
    PAUSING = "pausing"  # a run lasts, and the schedule pauses after it
    DONE = "done"  # no firing is left, and the last run succeeded
    FAILED = "failed"  # no firing is left, and the last run failed
    MISSED = "missed"  # no firing is left, and the last one was missed and skipped
    REMOVED = "removed"


class ScheduleEvent(StrEnum):
    """What happens to a schedule; after a run that was the last one, no firing is left."""

    START = "start"
    SUCCEED = "succeed"
    SUCCEED_LAST = "succeed_last"
    FAIL = "fail"
    FAIL_LAST = "fail_last"
    MISS_LAST = "miss_last"
    PAUSE = "pause"
    RESUME = "resume"
    REBIND = "rebind"
    REMOVE = "remove"


_S, _E = ScheduleState, ScheduleEvent

TRANSITIONS: Final = {
    _S.ACTIVE: {
        _E.START: _S.RUNNING,
        _E.MISS_LAST: _S.MISSED,
        _E.PAUSE: _S.PAUSED,
        _E.REBIND: _S.ACTIVE,
        _E.REMOVE: _S.REMOVED,
    },
    _S.PAUSED: {
        _E.START: _S.PAUSING,  # by hand
        _E.RESUME: _S.ACTIVE,
        _E.REBIND: _S.PAUSED,
        _E.REMOVE: _S.REMOVED,
    },
    _S.RUNNING: {
        _E.START: _S.RUNNING,  # a firing that waited
        _E.SUCCEED: _S.ACTIVE,
        _E.SUCCEED_LAST: _S.DONE,
        _E.FAIL: _S.ACTIVE,
        _E.FAIL_LAST: _S.FAILED,
        _E.PAUSE: _S.PAUSING,
        _E.REBIND: _S.RUNNING,
        _E.REMOVE: _S.REMOVED,
    },
    _S.PAUSING: {
        _E.START: _S.PAUSING,
        _E.SUCCEED: _S.PAUSED,
        _E.SUCCEED_LAST: _S.DONE,
        _E.FAIL: _S.PAUSED,
        _E.FAIL_LAST: _S.FAILED,
        _E.RESUME: _S.RUNNING,
        _E.REBIND: _S.PAUSING,
        _E.REMOVE: _S.REMOVED,
    },
    _S.DONE: {_E.START: _S.RUNNING, _E.REBIND: _S.ACTIVE, _E.REMOVE: _S.REMOVED},
    _S.FAILED: {_E.START: _S.RUNNING, _E.REBIND: _S.ACTIVE, _E.REMOVE: _S.REMOVED},
    _S.MISSED: {
        _E.START: _S.RUNNING,
        _E.RESUME: _S.ACTIVE,  # the clock was ahead: the firing is still to come
        _E.REBIND: _S.ACTIVE,
        _E.REMOVE: _S.REMOVED,
    },
    _S.REMOVED: {},
}
"""What each event makes of each state. An event that a state does not list has no meaning in it."""


def end_of_run(*, succeeded: bool, is_last: bool) -> ScheduleEvent:
    """Return the event of a run that ended; `is_last` if the schedule has no firing left."""
    if succeeded:
        return ScheduleEvent.SUCCEED_LAST if is_last else ScheduleEvent.SUCCEED
    return ScheduleEvent.FAIL_LAST if is_last else ScheduleEvent.FAIL


GRACE: Final = timedelta(minutes=1)
"""A firing that is found later than this was missed."""

AHEAD: Final = timedelta(minutes=5)
"""A recorded time that is later than now by more than this was written by a clock that was ahead, or the present one is
behind. Smaller differences are those of clocks that are set."""

MAX_CATCH_UP: Final = 100
"""Most missed firings that `all` runs; older ones are dropped."""

MAX_QUEUED: Final = 10
"""Most firings that wait for a run of the same schedule."""


class MissedPolicy(StrEnum):
    """What becomes of firings while no process kept time: none, one for all of them, or each is run."""

    SKIP = "skip"
    ONCE = "once"
    ALL = "all"


class OverlapPolicy(StrEnum):
    """What becomes of a firing while the schedule's previous run lasts: it is skipped, or it waits."""

    SKIP = "skip"
    QUEUE = "queue"


class Admission(StrEnum):
    """What becomes of one firing."""

    START = "start"
    QUEUE = "queue"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Due:
    """The decision about all firings up to a time.

    Run `fire`, oldest first; each time identifies its run. `skipped` firings are not run; `skipped_more` if there were
    more than were counted. Record `settled` as the next call's `last`. `next` is the next firing, if there is one.
    """

    fire: tuple[datetime, ...]
    skipped: int
    skipped_more: bool
    settled: datetime
    next: datetime | None

    def explanation(self) -> str:
        """Return one sentence on firings that are not run, empty if all are."""
        if not (self.skipped or self.skipped_more):
            return ""
        number = len(self.fire) + self.skipped
        due_now = f"More than {number} firings were due" if self.skipped_more else f"{number} firings were due"
        return f"{due_now}: {len(self.fire)} run now, the others were missed and are skipped."


def due(
    when: When,
    last: datetime,
    now: datetime,
    missed: MissedPolicy = MissedPolicy.ONCE,
    *,
    grace: timedelta = GRACE,
    limit: int = MAX_CATCH_UP,
) -> Due:
    """Decide on the firings after `last`, up to `now`; `last` is `settled` of the decision before, or the creation.

    A firing at most `grace` ago runs under each policy. Older ones were missed: `skip` runs none; `once` runs the
    latest, unless one at most `grace` ago stands for it; `all` runs the latest `limit`. If the machine's clock was set
    back, nothing is due until it reaches `last` again; see `is_ahead` for a `last` that is too late to be true.
    """
    start, end = to_utc(last), to_utc(now)
    if end <= start:
        return Due((), 0, skipped_more=False, settled=start, next=_first(when, start))
    late = max(start, _earlier(end, grace))
    old = missed_firings(when, start, late, limit)
    recent = missed_firings(when, late, end, limit)
    run = _made_up(missed, old, recent)
    skipped = len(old.times) - len(run)
    is_more = old.is_cut or recent.is_cut
    return Due((*run, *recent.times), skipped, skipped_more=is_more, settled=end, next=_first(when, end))


def is_ahead(recorded: datetime, now: datetime) -> bool:
    """Tell whether a time that was recorded as past is so far ahead of now that a clock must have been wrong."""
    return recorded - now > AHEAD


def _made_up(policy: MissedPolicy, old: Missed, recent: Missed) -> tuple[datetime, ...]:
    match policy:
        case MissedPolicy.SKIP:
            return ()
        case MissedPolicy.ONCE:
            return () if recent.times else old.times[-1:]
        case MissedPolicy.ALL:
            return old.times


def _earlier(moment: datetime, span: timedelta) -> datetime:
    try:
        return moment - span
    except OverflowError:
        return moment.min.replace(tzinfo=moment.tzinfo)


def _first(when: When, after: datetime) -> datetime | None:
    return next(iter(next_firings(when, after, 1)), None)


def admit(policy: OverlapPolicy, *, is_running: bool, queued: int, limit: int = MAX_QUEUED) -> Admission:
    """Decide on one firing of a schedule that is running, or for which `queued` firings wait."""
    if not is_running and not queued:
        return Admission.START
    if policy is OverlapPolicy.QUEUE and queued < limit:
        return Admission.QUEUE
    return Admission.SKIP
