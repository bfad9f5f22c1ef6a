from __future__ import annotations

import pytest

from skills_core.schedules.states import TRANSITIONS, ScheduleEvent, ScheduleState, end_of_run, next_state

S, E = ScheduleState, ScheduleEvent


def test_the_table_has_every_state() -> None:
    assert TRANSITIONS.keys() == set(ScheduleState)


def test_every_state_can_be_reached() -> None:
    reached, new = set[ScheduleState](), {S.ACTIVE}
    while new:
        reached |= new
        new = {after for state in new for after in TRANSITIONS[state].values()} - reached
    assert reached == set(ScheduleState)


def test_every_event_has_a_meaning_somewhere() -> None:
    assert {event for events in TRANSITIONS.values() for event in events} == set(ScheduleEvent)


@pytest.mark.parametrize("state", [state for state in ScheduleState if state is not S.REMOVED])
def test_a_schedule_can_be_removed_in_every_state_and_then_nothing_happens(state: ScheduleState) -> None:
    assert next_state(state, E.REMOVE) is S.REMOVED
    assert [next_state(S.REMOVED, event) for event in ScheduleEvent] == [None] * len(ScheduleEvent)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([E.START, E.SUCCEED], S.ACTIVE),
        ([E.START, E.FAIL], S.ACTIVE),
        ([E.START, E.SUCCEED_LAST], S.DONE),
        ([E.START, E.FAIL_LAST], S.FAILED),
        ([E.START, E.FAIL_LAST, E.START, E.SUCCEED_LAST], S.DONE),
        ([E.START, E.PAUSE, E.SUCCEED], S.PAUSED),
        ([E.START, E.PAUSE, E.RESUME, E.SUCCEED], S.ACTIVE),
        ([E.PAUSE, E.START, E.FAIL], S.PAUSED),
        ([E.PAUSE, E.REBIND], S.PAUSED),
        ([E.MISS_LAST], S.MISSED),
        ([E.MISS_LAST, E.REBIND], S.ACTIVE),
    ],
)
def test_a_way_through_the_states(events: list[ScheduleEvent], expected: ScheduleState) -> None:
    state: ScheduleState | None = S.ACTIVE
    for event in events:
        assert state is not None
        state = next_state(state, event)
    assert state is expected


def test_an_event_without_a_meaning_changes_nothing() -> None:
    assert next_state(S.PAUSED, E.PAUSE) is None
    assert next_state(S.ACTIVE, E.SUCCEED) is None


def test_the_end_of_a_run_says_whether_a_firing_is_left() -> None:
    ends = {end_of_run(succeeded=ok, is_last=last) for ok in (True, False) for last in (True, False)}
    assert ends == {E.SUCCEED, E.SUCCEED_LAST, E.FAIL, E.FAIL_LAST}
