"""Decide which firings are due, what becomes of those that were missed or overlap a run, and the next state.

Both decisions are functions of recorded times alone: any process may make them, and a second one that starts from the
same times decides the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from skills_core.schedules.cron import to_utc
from skills_core.schedules.when import Missed, missed_firings, next_firings

if TYPE_CHECKING:
    from skills_core.schedules.when import When


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


def next_state(state: ScheduleState, event: ScheduleEvent) -> ScheduleState | None:
    """Return the state after an event, None if the event has no meaning in `state`."""
    return TRANSITIONS[state].get(event)


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

    Raises:
        InvalidTimeError: a time has no offset from UTC.
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
    """Decide on one firing of a schedule of which a run lasts, or `queued` firings wait."""
    if not is_running and not queued:
        return Admission.START
    if policy is OverlapPolicy.QUEUE and queued < limit:
        return Admission.QUEUE
    return Admission.SKIP
