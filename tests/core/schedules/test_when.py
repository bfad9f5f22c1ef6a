from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise, takewhile
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from skills_core.errors import InvalidTimeError
from skills_core.installation import extra_advice
from skills_core.schedules.cron import MACROS, zone_named
from skills_core.schedules.parsing import parse_at
from skills_core.schedules.when import (
    MAX_SPAN,
    Cron,
    Every,
    Missed,
    Once,
    When,
    describe,
    firings,
    missed_firings,
    next_firings,
    span_in_words,
    when_from_json,
    when_to_json,
)
from tests.core.schedules.zone_changes import CHANGING, changes, once_for_each_time, whenever_it_shows
from tests.thoroughness import examples

offsets = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.integers(-60_000_000_000, 250_000_000_000).flatmap(
    lambda seconds: offsets.map(lambda offset: datetime.fromtimestamp(seconds, UTC).astimezone(offset))
)
spans = st.timedeltas(timedelta(seconds=1), MAX_SPAN)
crons = st.builds(
    Cron, st.sampled_from(["0 9 * * 1-5", "@daily", "*/5 * * * * *"]), st.sampled_from(["UTC", "Asia/Taipei"])
)


@given(st.one_of(st.builds(Once, moments), st.builds(Every, spans, moments), crons))
def test_json_gives_back_the_same_schedule(when: When) -> None:
    again = when_from_json(json.loads(json.dumps(when_to_json(when))))
    assert again == when
    assert when_to_json(again) == when_to_json(when)


def test_times_in_json_have_their_offset() -> None:
    taipei = datetime(2026, 12, 24, 18, tzinfo=zone_named("Asia/Taipei"))
    assert when_to_json(Once(taipei)) == {"kind": "once", "at": "2026-12-24T18:00:00+08:00"}
    assert when_to_json(Every(timedelta(hours=2), taipei)) == {
        "kind": "every",
        "seconds": 7200.0,
        "anchor": "2026-12-24T10:00:00+00:00",
    }
    assert when_to_json(Cron("0  9 * * mon", "Asia/Taipei")) == {
        "kind": "cron",
        "expression": "0 9 * * MON",
        "zone": "Asia/Taipei",
    }


def test_the_two_hours_that_clocks_show_twice_are_different_moments() -> None:
    berlin = zone_named("Europe/Berlin")
    first = Once(datetime(2026, 10, 25, 2, 30, tzinfo=berlin))
    second = Once(datetime(2026, 10, 25, 2, 30, tzinfo=berlin, fold=1))
    assert second.at - first.at == timedelta(hours=1)
    assert when_from_json(when_to_json(second)) == second != first


anything = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
objects = st.fixed_dictionaries(
    {"kind": st.sampled_from(["once", "every", "cron"])},
    optional=dict.fromkeys(("at", "seconds", "anchor", "expression", "zone", "more"), anything),
)


@given(anything | objects)
@example({"kind": "every", "seconds": float("nan"), "anchor": "2026-01-01T00:00:00Z"})
@example({"kind": "every", "seconds": 1e300, "anchor": "2026-01-01T00:00:00Z"})
@example({"kind": "every", "seconds": True, "anchor": "2026-01-01T00:00:00"})
@example({"kind": "once", "at": "0001-01-01T00:00:00+14:00"})
@example({"kind": "once", "at": "9999-12-31T23:59:59-14:00"})
@example({"kind": "cron", "expression": "\ud800", "zone": "UTC"})
def test_json_of_others_is_read_or_refused(value: Any) -> None:
    try:
        when = when_from_json(value)
    except InvalidTimeError:
        return
    assert when_from_json(when_to_json(when)) == when


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("* * 31 2 *", "never fires"),
        ("0 0 30 FEB *", "never fires"),
        ("0 0 31 4,6,9,11 *", "never fires"),
        ("0 0 */31 2 1#2", "never fires"),
        ("", "has 0"),
        ("* * * *", "has 4"),
        ("* * * * * * *", "has 7"),
        ("60 * * * *", "'minute' is '60'; expected 0-59"),
        ("* 24 * * *", "'hour' is '24'"),
        ("* * 0 * *", "'day of the month' is '0'"),
        ("* * * 13 *", "'month' is '13'"),
        ("* * * * 8", "'day of the week' is '8'"),
        ("* * * * FRI-SUN", "'day of the week' is 'FRI-SUN'"),
        ("*/0 * * * *", "'minute' is"),
        ("*/00 * * * *", "'minute' is"),
        ("*/61 * * * *", "step 61 is larger than the 60 values"),
        ("0,*/90 * * * *", "step 90 is larger than the 60 values"),
        ("50/11 * * * *", "step 11 is larger than the 10 values"),
        ("1-5/6 * * * *", "step 6 is larger than the 5 values"),
        ("5-70/2 * * * *", "'minute' is '5-70/2'"),
        ("*/61 * * * * *", "'second' is '*/61'"),
        ("0 */25 * * *", "step 25 is larger than the 24 values"),
        ("0 0 */32 * *", "step 32 is larger than the 31 values"),
        ("0 0 1 */13 *", "step 13 is larger than the 12 values"),
        ("0 0 1 JUL-SEP/4 *", "step 4 is larger than the 3 values"),
        ("0 0 * * */8", "step 8 is larger than the 7 values"),
        ("0 0 * * MON-FRI/6", "step 6 is larger than the 5 values"),
        ("0 0 L/2 * *", "'day of the month' is 'L/2'"),
        ("0 0 LW/2 * *", "'day of the month' is 'LW/2'"),
        ("70 * * * *", "'minute' is '70'"),
        ("1,70 * * * *", "'minute' is '1,70'"),
        ("70/2 * * * *", "'minute' is '70/2'"),
        ("5-1 * * * *", "'minute' is"),
        ("60 * * * * *", "'second' is '60'"),
        ("H * * * *", "'minute' is 'H'"),
        ("R * * * *", "'minute' is 'R'"),
        ("٣ * * * *", "'minute' is"),
        ("*/1*/1 * * * *", "'minute' is"),
        ("1" * 5000 + " * * * *", "at most 300 characters"),
        ("1," * 149 + "x", "has 1"),
        ("@reboot", "none of @yearly"),
        ("@every 5m", "none of @yearly"),
        ("a b c d e", "'minute' is 'A'"),
    ],
)
def test_an_expression_that_cannot_fire_is_refused_with_its_fault(expression: str, why: str) -> None:
    with pytest.raises(InvalidTimeError) as caught:
        Cron(expression)
    assert why in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("macro", MACROS)
def test_a_named_expression_is_stored_in_full(macro: str) -> None:
    assert Cron(macro.upper()).expression == MACROS[macro]


def test_six_fields_begin_with_seconds() -> None:
    first, second = next_firings(Cron("*/30 0 9 * * *"), datetime(2026, 1, 1, tzinfo=UTC), 2)
    assert (first.second, second.second, second - first) == (0, 30, timedelta(seconds=30))


@given(st.integers(0, 5), st.integers(1, 200), st.sampled_from(["*/{}", "1,*/{}", "*/{},1"]))
def test_a_step_is_accepted_up_to_the_number_of_values_of_its_field(position: int, step: int, shape: str) -> None:
    fields = ["0", "0", "0", "*", "*", "*"]
    fields[position] = shape.format(step)
    try:
        Cron(" ".join(fields))
    except InvalidTimeError:
        assert step > (60, 60, 24, 31, 12, 7)[position]
    else:
        assert step <= (60, 60, 24, 31, 12, 7)[position]


field = st.text("0123456789*/,-#LWMONJAN ?@\n\t\x00", max_size=12)


@settings(max_examples=examples(100))
@given(st.lists(field, min_size=4, max_size=7).map(" ".join) | st.text(max_size=40))
def test_any_expression_is_accepted_or_refused_and_then_fires(expression: str) -> None:
    try:
        when = Cron(expression)
    except InvalidTimeError:
        return
    assert next_firings(when, datetime(2026, 1, 1, tzinfo=UTC), 1)
    assert Cron(when.expression) == when


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Berlin",
        "europe/berlin",
        "PST",
        "../etc/passwd",
        "/etc/passwd",
        "Europe",
        "right/UTC",
        "localtime",
        "x" * 999,
        "\x00",
    ],
)
def test_an_unknown_zone_is_refused(name: str) -> None:
    with pytest.raises(InvalidTimeError, match="no such time zone"):
        Cron("* * * * *", name)


def test_the_error_of_a_zone_suggests_one() -> None:
    with pytest.raises(InvalidTimeError, match="Did you mean 'Europe/Berlin'"):
        zone_named("Berlin")


@pytest.mark.parametrize("span", [timedelta(0), timedelta(seconds=-5), timedelta(milliseconds=999), timedelta.max])
def test_a_span_out_of_bounds_is_refused(span: timedelta) -> None:
    with pytest.raises(InvalidTimeError, match="between one second and 100 years"):
        Every(span, datetime(2026, 1, 1, tzinfo=UTC))


def test_the_library_of_cron_is_imported_when_a_cron_expression_is_used() -> None:
    code = (
        "import sys, datetime\n"
        "from skills_core.schedules import free_text, parsing, when\n"
        "parsing.parse_at('+5m', datetime.datetime.now(datetime.UTC), 'UTC')\n"
        "assert 'cronsim' not in sys.modules\n"
        "parsing.parse_cron('0 9 * * *', 'UTC')\n"
        "assert 'cronsim' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cronsim", None)
    with pytest.raises(InvalidTimeError, match=re.escape(extra_advice("run"))):
        Cron("* * * * *")


@pytest.mark.parametrize("at", ["9999-12-31T00:00:00+00:00", "9999-12-31T23:59:59-12:00", "0001-01-01T23:59:59+00:00"])
def test_a_moment_that_some_clocks_cannot_show_is_refused(at: str) -> None:
    with pytest.raises(InvalidTimeError):
        Once(datetime.fromisoformat(at))


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12"])
def test_the_last_moment_can_be_described_in_each_zone(zone: str) -> None:
    now = datetime(2026, 11, 23, tzinfo=UTC)
    assert zone in describe(parse_at("9999-12-30T23:59:59Z", now, zone), now, zone)


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
recent_moments = st.integers(630_000_000, 2_900_000_000).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
schedules: st.SearchStrategy[When] = st.one_of(
    st.builds(Once, recent_moments),
    st.builds(Every, st.timedeltas(SECOND, MAX_SPAN), recent_moments),
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


@given(schedules, recent_moments)
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
    recent_moments,
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


@given(schedules, recent_moments, st.timedeltas(timedelta(0), timedelta(days=20)), st.integers(0, 30))
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


NOW = datetime.fromisoformat("2026-10-24T12:00:00+02:00")


def test_a_cron_expression_is_put_into_words_with_its_zone_and_three_firings() -> None:
    assert describe(Cron("30 2 * * *", BERLIN), NOW) == (
        "At 02:30 every day, by the clocks of Europe/Berlin (cron 30 2 * * *).\n"
        "Next firings:\n"
        "- Sunday 2026-10-25 02:30:00 +02:00 (Europe/Berlin)\n"
        "- Monday 2026-10-26 02:30:00 +01:00 (Europe/Berlin)\n"
        "- Tuesday 2026-10-27 02:30:00 +01:00 (Europe/Berlin)"
    )


def test_a_span_says_that_it_is_elapsed_time() -> None:
    assert describe(Every(timedelta(hours=12), NOW), NOW, BERLIN) == (
        "Every 12 hours of elapsed time, whatever clocks show.\n"
        "Next firings:\n"
        "- Sunday 2026-10-25 00:00:00 +02:00 (Europe/Berlin)\n"
        "- Sunday 2026-10-25 11:00:00 +01:00 (Europe/Berlin)\n"
        "- Sunday 2026-10-25 23:00:00 +01:00 (Europe/Berlin)"
    )


def test_a_single_firing_is_shown_in_the_zone_of_the_schedule() -> None:
    when = Once(datetime(2026, 12, 24, 17, tzinfo=UTC))
    assert describe(when, NOW, BERLIN) == "Once at Thursday 2026-12-24 18:00:00 +01:00 (Europe/Berlin)."


def test_a_single_firing_that_is_past_says_so() -> None:
    assert describe(Once(NOW), NOW, "UTC") == (
        "Once at Saturday 2026-10-24 10:00:00 +00:00 (UTC), which is past.\nIt has no further firing."
    )


def test_a_description_in_an_unknown_zone_is_refused() -> None:
    with pytest.raises(InvalidTimeError, match="no such time zone"):
        describe(Once(NOW), NOW, "Mars/Olympus")


@pytest.mark.parametrize(
    ("seconds", "words"), [(1, "1 second"), (90, "1 minute 30 seconds"), (7200, "2 hours"), (90_000, "1 day 1 hour")]
)
def test_a_span_in_words(seconds: int, words: str) -> None:
    assert span_in_words(timedelta(seconds=seconds)) == words
