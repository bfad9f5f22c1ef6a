from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skills_core.errors import InvalidTimeError
from skills_core.schedules.cron import MACROS
from skills_core.schedules.description import describe
from skills_core.schedules.firings import next_firings
from skills_core.schedules.parsing import parse_at
from skills_core.schedules.when import MAX_SPAN, Cron, Every, Once, When, when_from_json, when_to_json
from skills_core.schedules.zones import zone_named
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
        "from skills_core.schedules import description, free_text, parsing, policies, states\n"
        "parsing.parse_at('+5m', datetime.datetime.now(datetime.UTC), 'UTC')\n"
        "assert 'cronsim' not in sys.modules\n"
        "parsing.parse_cron('0 9 * * *', 'UTC')\n"
        "assert 'cronsim' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cronsim", None)
    with pytest.raises(InvalidTimeError, match=r"skillserve\[run\]"):
        Cron("* * * * *")


@pytest.mark.parametrize("at", ["9999-12-31T00:00:00+00:00", "9999-12-31T23:59:59-12:00", "0001-01-01T23:59:59+00:00"])
def test_a_moment_that_some_clocks_cannot_show_is_refused(at: str) -> None:
    with pytest.raises(InvalidTimeError):
        Once(datetime.fromisoformat(at))


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12"])
def test_the_last_moment_can_be_described_in_each_zone(zone: str) -> None:
    now = datetime(2026, 11, 23, tzinfo=UTC)
    assert zone in describe(parse_at("9999-12-30T23:59:59Z", now, zone), now, zone)
