from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core.schedules.when import (
    GRACE,
    MAX_CATCH_UP,
    MAX_QUEUED,
    TRANSITIONS,
    Admission,
    Cron,
    Every,
    MissedPolicy,
    Once,
    OverlapPolicy,
    ScheduleEvent,
    ScheduleState,
    admit,
    due,
    end_of_run,
    firings,
)
from tests.core.schedules.zone_changes import CHANGING, changes

if TYPE_CHECKING:
    from skills_core.schedules.when import When

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
    assert TRANSITIONS[state].get(E.REMOVE) is S.REMOVED
    assert [TRANSITIONS[S.REMOVED].get(event) for event in ScheduleEvent] == [None] * len(ScheduleEvent)


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
        state = TRANSITIONS[state].get(event)
    assert state is expected


def test_an_event_without_a_meaning_changes_nothing() -> None:
    assert TRANSITIONS[S.PAUSED].get(E.PAUSE) is None
    assert TRANSITIONS[S.ACTIVE].get(E.SUCCEED) is None


def test_the_end_of_a_run_says_whether_a_firing_is_left() -> None:
    ends = {end_of_run(succeeded=ok, is_last=last) for ok in (True, False) for last in (True, False)}
    assert ends == {E.SUCCEED, E.SUCCEED_LAST, E.FAIL, E.FAIL_LAST}


SKIP, ONCE, ALL = MissedPolicy
START = datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)
HOURLY = Cron("0 * * * *")


def hour(number: int) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=number)


def test_after_a_day_off_skip_waits_for_the_next_firing() -> None:
    decision = due(HOURLY, START, hour(24) + timedelta(minutes=30), SKIP)
    assert (decision.fire, decision.skipped, decision.next) == ((), 24, hour(25))
    assert decision.explanation() == "24 firings were due: 0 run now, the others were missed and are skipped."


def test_after_a_day_off_once_runs_the_latest() -> None:
    decision = due(HOURLY, START, hour(24) + timedelta(minutes=30), ONCE)
    assert (decision.fire, decision.skipped, decision.next) == ((hour(24),), 23, hour(25))
    assert decision.explanation() == "24 firings were due: 1 run now, the others were missed and are skipped."


def test_after_a_day_off_all_runs_each_and_says_nothing() -> None:
    decision = due(HOURLY, START, hour(24) + timedelta(minutes=30), ALL)
    assert (decision.fire, decision.skipped) == (tuple(map(hour, range(1, 25))), 0)
    assert decision.explanation() == ""


def test_all_is_bounded_and_says_so() -> None:
    decision = due(HOURLY, START, hour(24 * 365) + timedelta(minutes=30), ALL)
    assert len(decision.fire) == MAX_CATCH_UP
    assert decision.fire[-1] == hour(24 * 365)
    assert decision.skipped_more
    assert decision.explanation().startswith("More than 100 firings were due: 100 run now")


def test_a_firing_on_time_stands_for_those_missed_before() -> None:
    decision = due(HOURLY, START, hour(24), ONCE)
    assert (decision.fire, decision.skipped) == ((hour(24),), 23)


@pytest.mark.parametrize("policy", MissedPolicy)
def test_a_firing_within_the_grace_runs_under_each_policy(policy: MissedPolicy) -> None:
    assert due(HOURLY, START, hour(1) + GRACE - timedelta(seconds=1), policy).fire == (hour(1),)


@pytest.mark.parametrize(("policy", "fire"), [(SKIP, ()), (ONCE, (hour(3),)), (ALL, (hour(3),))])
def test_a_single_firing_that_was_missed(policy: MissedPolicy, fire: tuple[datetime, ...]) -> None:
    decision = due(Once(hour(3)), START, hour(48), policy)
    assert (decision.fire, decision.next) == (fire, None)


@pytest.mark.parametrize("policy", MissedPolicy)
def test_nothing_is_due_twice_when_the_machine_s_clock_is_set_back(policy: MissedPolicy) -> None:
    first = due(HOURLY, START, hour(1), policy)
    again = due(HOURLY, first.settled, hour(1) - timedelta(minutes=30), policy)
    assert (again.fire, again.settled) == ((), first.settled)
    assert due(HOURLY, again.settled, hour(1), policy).fire == ()


def test_a_process_that_repeats_a_decision_decides_the_same() -> None:
    assert due(HOURLY, START, hour(5), ALL) == due(HOURLY, START, hour(5), ALL)


polls = st.lists(st.integers(1, 6 * 3600), min_size=1, max_size=25)


@st.composite
def schedules(draw: st.DrawFn) -> tuple[When, datetime]:
    zone = draw(st.sampled_from(CHANGING))
    day = draw(st.sampled_from(changes(zone, 2026) or (hour(0),)))
    start = day - timedelta(seconds=draw(st.integers(0, 86_400)))
    expression = draw(st.sampled_from(["*/15 * * * *", "30 2 * * *", "0 0-5 * * *", "17 */3 * * *"]))
    span = timedelta(seconds=draw(st.integers(300, 9000)))
    choices: list[When] = [Cron(expression, zone), Every(span, start), Once(start + 10 * span)]
    return draw(st.sampled_from(choices)), start


def polled(when: When, start: datetime, gaps: list[int], policy: MissedPolicy) -> tuple[list[datetime], int, datetime]:
    fired, skipped, last, now = list[datetime](), 0, start, start
    for gap in gaps:
        now += timedelta(seconds=gap)
        decision = due(when, last, now, policy, limit=10_000)
        fired += decision.fire
        skipped += decision.skipped
        last = decision.settled
    return fired, skipped, now


@given(schedules(), polls)
def test_no_firing_is_lost_or_doubled_whenever_it_is_polled(schedule: tuple[When, datetime], gaps: list[int]) -> None:
    when, start = schedule
    fired, skipped, end = polled(when, start, gaps, ALL)
    assert fired == list(takewhile(lambda each: each <= end, firings(when, start)))
    assert skipped == 0


@pytest.mark.parametrize("policy", MissedPolicy)
@given(schedule=schedules(), gaps=polls)
def test_each_firing_runs_once_or_is_counted_as_skipped(
    policy: MissedPolicy, schedule: tuple[When, datetime], gaps: list[int]
) -> None:
    when, start = schedule
    fired, skipped, end = polled(when, start, gaps, policy)
    assert len(set(fired)) == len(fired)
    assert len(fired) + skipped == sum(1 for _ in takewhile(lambda each: each <= end, firings(when, start)))


@given(schedules(), st.lists(st.integers(1, 59), min_size=1, max_size=300))
def test_whoever_polls_each_minute_misses_nothing(schedule: tuple[When, datetime], gaps: list[int]) -> None:
    when, start = schedule
    fired, skipped, end = polled(when, start, gaps, SKIP)
    assert fired == list(takewhile(lambda each: each <= end, firings(when, start)))
    assert skipped == 0


def test_a_firing_starts_if_no_run_lasts() -> None:
    assert {admit(policy, is_running=False, queued=0) for policy in OverlapPolicy} == {Admission.START}


def test_a_firing_during_a_run_is_skipped_or_waits() -> None:
    assert admit(OverlapPolicy.SKIP, is_running=True, queued=0) is Admission.SKIP
    assert admit(OverlapPolicy.QUEUE, is_running=True, queued=0) is Admission.QUEUE


def test_a_firing_waits_behind_others() -> None:
    assert admit(OverlapPolicy.QUEUE, is_running=False, queued=1) is Admission.QUEUE


def test_the_queue_has_a_bound() -> None:
    assert admit(OverlapPolicy.QUEUE, is_running=True, queued=MAX_QUEUED - 1) is Admission.QUEUE
    assert admit(OverlapPolicy.QUEUE, is_running=True, queued=MAX_QUEUED) is Admission.SKIP
