"""The states of a schedule, as a table."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

__all__ = ["TRANSITIONS", "ScheduleEvent", "ScheduleState", "end_of_run", "next_state"]


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
