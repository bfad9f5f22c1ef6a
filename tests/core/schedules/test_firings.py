from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise, takewhile
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from skills_core.errors import InvalidTimeError
from skills_core.schedules.firings import Missed, firings, missed_firings, next_firings
from skills_core.schedules.when import MAX_SPAN, Cron, Every, Once, When
from tests.core.schedules.zone_changes import CHANGING, changes, once_for_each_time, whenever_it_shows
from tests.thoroughness import examples

BERLIN = "Europe/Berlin"
SECOND = timedelta(seconds=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def shown(when: When, after: str, count: int) -> list[str]:
    return [each.isoformat(" ", "minutes")[5:] for each in next_firings(when, at(after), count)]


EXPRESSIONS = (
    "* * * * *",
    "*/7 * * * *",
    "30 * * * *",
    "30 2 * * *",
    "0,30 1-3 * * *",
    "*/20 2 * * *",
    "0 */2 * * *",
    "15 0 * * *",
    "0 0 29 2 *",
    "0 12 L * *",
    "0 9 * * MON-FRI",
    "0 9 13 * 5",
    "*/30 * 1 1 *",
    "*/10 * * * * *",
    "30 30 2 * * SUN",
)
moments = st.integers(630_000_000, 2_900_000_000).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
schedules: st.SearchStrategy[When] = st.one_of(
    st.builds(Once, moments),
    st.builds(Every, st.timedeltas(SECOND, MAX_SPAN), moments),
    st.builds(Cron, st.sampled_from(EXPRESSIONS), st.sampled_from(CHANGING)),
)


@st.composite
def near_changes(draw: st.DrawFn) -> tuple[str, datetime]:
    """Return a zone and a moment within a day and a half of a change of its clocks."""
    zone = draw(st.sampled_from(CHANGING))
    days = changes(zone, draw(st.integers(2020, 2030))) or (datetime(2026, 3, 28, tzinfo=UTC),)
    return zone, draw(st.sampled_from(days)) + timedelta(minutes=draw(st.integers(-720, 2160)))


def test_a_time_in_the_gap_fires_at_the_first_moment_after_it() -> None:
    assert shown(Cron("30 2 * * *", BERLIN), "2026-03-28T12:00+01:00", 2) == ["03-29 03:00+02:00", "03-30 02:30+02:00"]
    assert shown(Cron("*/10 2 * * *", BERLIN), "2026-03-28T12:00+01:00", 2) == [
        "03-29 03:00+02:00",
        "03-30 02:00+02:00",
    ]
    assert shown(Cron("15 2 * * *", "Australia/Lord_Howe"), "2026-10-03T12:00+10:30", 1) == ["10-04 02:30+11:00"]
    assert shown(Cron("0 0 * * *", "America/Santiago"), "2026-09-05T12:00-04:00", 1) == ["09-06 01:00-03:00"]


def test_times_in_the_gap_and_the_one_after_it_fire_together_once() -> None:
    assert shown(Cron("0,30 2,3 * * *", BERLIN), "2026-03-28T12:00+01:00", 3) == [
        "03-29 03:00+02:00",
        "03-29 03:30+02:00",
        "03-30 02:00+02:00",
    ]


def test_a_time_that_occurs_twice_fires_the_first_time() -> None:
    assert shown(Cron("30 2 * * *", BERLIN), "2026-10-24T12:00+02:00", 2) == ["10-25 02:30+02:00", "10-26 02:30+01:00"]
    assert shown(Cron("30 2 * * *", BERLIN), "2026-10-25T02:15+01:00", 1) == ["10-26 02:30+01:00"]


def test_an_expression_for_every_hour_keeps_its_pace_through_both_changes() -> None:
    assert shown(Cron("*/30 * * * *", BERLIN), "2026-03-29T01:15+01:00", 2) == [
        "03-29 01:30+01:00",
        "03-29 03:00+02:00",
    ]
    assert shown(Cron("30 * * * *", BERLIN), "2026-10-25T01:45+02:00", 3) == [
        "10-25 02:30+02:00",
        "10-25 02:30+01:00",
        "10-25 03:30+01:00",
    ]


def test_a_day_that_a_zone_skipped_fires_when_the_next_begins() -> None:
    assert shown(Cron("0 9 30 12 *", "Pacific/Apia"), "2011-12-01T00:00+00:00", 1) == ["12-31 00:00+14:00"]


def test_spans_are_elapsed_time() -> None:
    daily = Every(timedelta(days=1), at("2026-03-28T09:00+01:00"))
    assert shown(daily, "2026-03-28T09:00+01:00", 2) == ["03-29 08:00+00:00", "03-30 08:00+00:00"]


def test_29_february_fires_in_leap_years_and_not_in_2100() -> None:
    years = [each.year for each in next_firings(Cron("0 0 29 2 *"), at("2091-01-01T00:00Z"), 4)]
    assert years == [2092, 2096, 2104, 2108]


@pytest.mark.parametrize("zone", CHANGING)
def test_firings_end_with_the_calendar(zone: str) -> None:
    late = at("9999-12-30T23:00Z")
    for expression in EXPRESSIONS:
        assert all(each > late for each in next_firings(Cron(expression, zone), late, 100))
    assert next_firings(Every(timedelta(days=2), late), late, 3) == ()
    assert next_firings(Every(MAX_SPAN, at("0001-01-01T00:00Z")), late, 3) == ()
    assert next_firings(Cron("* * * * *", zone), at("0001-01-01T00:00Z"), 1)


def test_a_moment_without_an_offset_is_refused() -> None:
    with pytest.raises(InvalidTimeError, match="no offset"):
        next_firings(Cron("* * * * *"), at("2026-01-01T00:00"), 1)


@given(schedules, moments)
def test_firings_strictly_increase_and_lie_after_the_moment(when: When, after: datetime) -> None:
    times = (after, *next_firings(when, after, 20))
    assert all(one < two for one, two in pairwise(times))


@given(near_changes(), st.sampled_from(EXPRESSIONS[:8]), st.integers(0, 4000), st.integers(1, 10**6))
def test_the_next_firings_of_each_later_moment_are_the_same(
    place: tuple[str, datetime], expression: str, seconds: int, micro: int
) -> None:
    zone, start = place
    when = Cron(expression, zone)
    later = start + timedelta(seconds=seconds, microseconds=micro)
    known = next_firings(when, start, 80)
    assume(known[-1] > later)
    expected = [each for each in known if each > later]
    assert list(next_firings(when, later, len(expected))) == expected


@settings(max_examples=examples(40))
@given(near_changes(), st.sets(st.integers(0, 59), min_size=1, max_size=3), st.sets(st.integers(0, 23), min_size=1))
@example(("Europe/Berlin", datetime(2026, 3, 28, 23, tzinfo=UTC)), {30}, {2})
@example(("Europe/Berlin", datetime(2026, 10, 24, 23, tzinfo=UTC)), {0}, set(range(24)))
@example(("Africa/Cairo", datetime(2026, 4, 23, 12, tzinfo=UTC)), {0, 15}, set(range(24)))
def test_firings_are_those_of_a_clock_that_is_read_each_minute(
    place: tuple[str, datetime], minutes: set[int], hours: set[int]
) -> None:
    name, start = place
    end = start + timedelta(days=1)
    zone = ZoneInfo(name)
    when = Cron(f"{','.join(map(str, minutes))} {','.join(map(str, hours))} * * *", name)

    def matches(wall: datetime) -> bool:
        return wall.minute in minutes and wall.hour in hours

    oracle = whenever_it_shows if len(hours) == 24 else once_for_each_time
    found = list(takewhile(lambda each: each <= end, firings(when, start)))
    assert found == oracle(matches, zone, start, end)


@settings(max_examples=examples(50))
@given(
    st.sampled_from(sorted(available_timezones() - {"localtime", "posixrules", "Factory"})),
    st.sampled_from(EXPRESSIONS),
    moments,
)
def test_every_zone_has_firings_at_times_that_its_clocks_show(zone: str, expression: str, after: datetime) -> None:
    for each in next_firings(Cron(expression, zone), after, 5):
        assert each.astimezone(ZoneInfo(zone)).utcoffset() == each.utcoffset()
        assert each > after


@given(near_changes(), st.sampled_from(EXPRESSIONS[3:6]))
def test_no_time_of_the_clock_fires_twice(place: tuple[str, datetime], expression: str) -> None:
    zone, start = place
    walls = [each.replace(tzinfo=None) for each in next_firings(Cron(expression, zone), start, 20)]
    assert len(set(walls)) == len(walls)


@given(schedules, moments, st.timedeltas(timedelta(0), timedelta(days=20)), st.integers(0, 30))
def test_missed_firings_are_the_latest_ones(when: When, last: datetime, away: timedelta, limit: int) -> None:
    now = last + away
    missed = missed_firings(when, last, now, limit)
    assert len(missed.times) <= limit
    assert all(last < each <= now for each in missed.times)
    if missed.is_cut:
        assert len(missed.times) == limit
    else:
        assert missed.times == tuple(takewhile(lambda each: each <= now, firings(when, last)))
    if missed.times:
        following = next_firings(when, missed.times[0], len(missed.times))
        assert following == (*missed.times[1:], *next_firings(when, now, 1))


@given(near_changes(), st.sampled_from(EXPRESSIONS[:8]), st.integers(1, 40))
def test_missed_firings_are_complete_across_changes_of_clocks(
    place: tuple[str, datetime], expression: str, limit: int
) -> None:
    zone, now = place
    when, last = Cron(expression, zone), now - timedelta(days=2)
    everything = tuple(takewhile(lambda each: each <= now, firings(when, last)))
    assert missed_firings(when, last, now, limit) == Missed(everything[-limit:], is_cut=len(everything) > limit)


@pytest.mark.parametrize("when", [Cron("* * * * * *", BERLIN), Every(SECOND, at("1990-01-01T00:00Z"))])
def test_a_year_of_seconds_is_not_counted_one_by_one(when: When) -> None:
    now = at("2026-01-01T00:00Z")
    assert missed_firings(when, at("1990-01-01T00:00Z"), now, 3) == Missed(
        (now - 2 * SECOND, now - SECOND, now), is_cut=True
    )
