# ruff: noqa: RUF001 - fullwidth characters are tested
from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skills_core.errors import InvalidTimeError
from skills_core.schedules.parsing import parse_at, parse_cron, parse_every
from skills_core.schedules.when import Cron, Once
from tests.thoroughness import examples

NOW = datetime.fromisoformat("2026-11-23T10:00:00+01:00")  # a Monday
BERLIN = "Europe/Berlin"

TIMES = {
    # spans from now on
    "+6s": "2026-11-23T10:00:06+01:00",
    "+5m": "2026-11-23T10:05:00+01:00",
    "+1h30m": "2026-11-23T11:30:00+01:00",
    "＋５ｍ": "2026-11-23T10:05:00+01:00",
    "in 2 hours": "2026-11-23T12:00:00+01:00",
    "in half an hour": "2026-11-23T10:30:00+01:00",
    "2 hours from now": "2026-11-23T12:00:00+01:00",
    "5 分鐘後": "2026-11-23T10:05:00+01:00",
    "兩小時後": "2026-11-23T12:00:00+01:00",
    "半小时后": "2026-11-23T10:30:00+01:00",
    # the next time of the day
    "18:30": "2026-11-23T18:30:00+01:00",
    "18:30:15": "2026-11-23T18:30:15+01:00",
    "9:00": "2026-11-24T09:00:00+01:00",
    "10:00": "2026-11-24T10:00:00+01:00",
    "９：００": "2026-11-24T09:00:00+01:00",
    "at 9:00": "2026-11-24T09:00:00+01:00",
    "9am": "2026-11-24T09:00:00+01:00",
    "9:30 p.m.": "2026-11-23T21:30:00+01:00",
    "12am": "2026-11-24T00:00:00+01:00",
    "12 pm": "2026-11-23T12:00:00+01:00",
    "noon": "2026-11-23T12:00:00+01:00",
    "下午 3 點": "2026-11-23T15:00:00+01:00",
    "下午3点": "2026-11-23T15:00:00+01:00",
    "下午三點半": "2026-11-23T15:30:00+01:00",
    "中午12點": "2026-11-23T12:00:00+01:00",
    "凌晨兩點": "2026-11-24T02:00:00+01:00",
    "十八點二十分": "2026-11-23T18:20:00+01:00",
    # days
    "today 18:00": "2026-11-23T18:00:00+01:00",
    "tonight 8:00": "2026-11-23T20:00:00+01:00",
    "tomorrow 9:00": "2026-11-24T09:00:00+01:00",
    "tomorrow morning at 9:00": "2026-11-24T09:00:00+01:00",
    "9:00 tomorrow": "2026-11-24T09:00:00+01:00",
    "the day after tomorrow at 9:00": "2026-11-25T09:00:00+01:00",
    "friday 9:00": "2026-11-27T09:00:00+01:00",
    "monday 9:00": "2026-11-30T09:00:00+01:00",
    "monday 18:00": "2026-11-23T18:00:00+01:00",
    "明天 9 點": "2026-11-24T09:00:00+01:00",
    "明天9点半": "2026-11-24T09:30:00+01:00",
    "明天 ９：００": "2026-11-24T09:00:00+01:00",
    "明早8點": "2026-11-24T08:00:00+01:00",
    "明晚 8 點": "2026-11-24T20:00:00+01:00",
    "今晚8點": "2026-11-23T20:00:00+01:00",
    "今晚 8:00": "2026-11-23T20:00:00+01:00",
    "後天下午三點一刻": "2026-11-25T15:15:00+01:00",
    "後天早上十點": "2026-11-25T10:00:00+01:00",
    "週五 9 點": "2026-11-27T09:00:00+01:00",
    "星期天9点": "2026-11-29T09:00:00+01:00",
    # dates
    "2026-12-24 18:00": "2026-12-24T18:00:00+01:00",
    "2026-12-24T18:00:00": "2026-12-24T18:00:00+01:00",
    "2026-12-24 at 6pm": "2026-12-24T18:00:00+01:00",
    "2027-07-01 18:00": "2027-07-01T18:00:00+02:00",
    "2026-12-24T18:00:00Z": "2026-12-24T18:00:00+00:00",
    "2026-12-24T18:00+05:30": "2026-12-24T18:00:00+05:30",
    "2026-12-24 18:00 -0800": "2026-12-24T18:00:00-08:00",
    "2026-12-24 18:00 UTC": "2026-12-24T18:00:00+00:00",
    "2026-12-24 18:00 utc": "2026-12-24T18:00:00+00:00",
    "2026-12-24T18:00-08:00": "2026-12-24T18:00:00-08:00",
    "18:00 UTC-08:00": "2026-11-23T18:00:00-08:00",
    "2026-12-24T18:00 UTC": "2026-12-24T18:00:00+00:00",
    "2026-12-24 18:00:00 Asia/Taipei": "2026-12-24T18:00:00+08:00",
    "2026-12-24 6pm UTC-8": "2026-12-24T18:00:00-08:00",
    "2026-12-24T18:00:00.500Z": "2026-12-24T18:00:00.500000+00:00",
    # zones
    "9:30 UTC": "2026-11-23T09:30:00+00:00",
    "18:00 UTC+8": "2026-11-23T18:00:00+08:00",
    "18:00+08:00": "2026-11-23T18:00:00+08:00",
    "tomorrow 9:00 Asia/Taipei": "2026-11-24T09:00:00+08:00",
    # clocks that are changed
    "2027-03-28 02:30": "2027-03-28T03:00:00+02:00",
    "2027-10-31 02:30": "2027-10-31T02:30:00+02:00",
}


@pytest.mark.parametrize("text", TIMES)
def test_a_time_means(text: str) -> None:
    assert parse_at(text, NOW, BERLIN).at.isoformat() == TIMES[text]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("9:00 Europe/Atlantis", "no such time zone"),
        ("18:00+15:00", "offsets lie between"),
        ("9:00-10:00", "an offset or the end of a range; write UTC-10:00"),
        ("25:00", "hours from 0 to 23"),
        ("9:60", "minutes and seconds from 0 to 59"),
        ("13pm", "from 1 to 12"),
        ("0am", "from 1 to 12"),
        ("明天 3 點", "night or afternoon"),
        ("晚上12點", "do not agree"),
        ("上午 13:00", "do not agree"),
        ("today 9:00", "is past; it is 2026-11-23T10:00:00+01:00"),
        ("2026-11-23T09:00:00Z", "is past"),
        ("2026-02-30 9:00", "no such day"),
        ("2026-02-30T09:00", "no such day"),
        ("2027-02-29 09:00", "no such day"),
        ("+0s", "between one second and 100 years"),
        ("+1m1h", "each unit once, the largest first"),
        ("+999999999w", "between one second and 100 years"),
        ("every 2 hours", "it recurs"),
        ("0 9 * * *", "it recurs"),
        ("每天 9 點", "it recurs"),
        ("x" * 5000, "5000 characters"),
    ],
)
def test_a_time_that_is_none_or_not_exact_is_refused_with_its_fault(text: str, why: str) -> None:
    with pytest.raises(InvalidTimeError) as caught:
        parse_at(text, NOW, BERLIN)
    assert why in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    "text",
    [
        "",
        "9",
        "soon",
        "9am probably",
        "about 9:00",
        "later",
        "in the morning",
        "tomorrow",
        "明天",
        "2026-12-24",
        "in 3 days",
        "at 9",
        "next monday 9:00",
        "12/24 18:00",
        "Dec 24 at 18:00",
        "tomorrow midnight",
        "9:00, 10:00",
        "9:00 PST",
        "9:00 Berlin time",
        "明天北京時間 9 點",
        "send it at 9:00",
        "1.5 hours from now",
        "in 2 hours 30 minutes",
        "兩個半小時後",
        "not at 9:00",
        "9:00 at the latest",
        "2026-12-24 18:00 UTC CET",
        "2026-12-24 18:00 UTC+",
    ],
)
def test_what_is_in_no_form_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(InvalidTimeError, match=r"expected one of the forms `\+5m`.*明天 9 點"):
        parse_at(text, NOW, BERLIN)


def test_a_time_after_the_last_year_is_refused() -> None:
    late = datetime(9999, 12, 31, 23, tzinfo=UTC)
    for text in ("+2h", "tomorrow 9:00", "9:00"):
        with pytest.raises(InvalidTimeError, match="after the year 9999"):
            parse_at(text, late, "UTC")
    with pytest.raises(InvalidTimeError, match="years 1 to 9999"):
        parse_at("9999-12-31T23:00-05:00", NOW, "UTC")


def test_a_span_from_now_begins_with_the_next_whole_second() -> None:
    assert parse_at("+6s", NOW.replace(microsecond=1), BERLIN).at == NOW + timedelta(seconds=7)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("4s", 4),
        ("10m", 600),
        ("2h", 7200),
        ("1d", 86_400),
        ("1w", 604_800),
        ("1h30m", 5400),
        ("2 hours", 7200),
        ("every 2 hours", 7200),
        ("two hours", 7200),
        ("half an hour", 1800),
        ("90 min", 5400),
        ("day", 86_400),
        ("every day", 86_400),
        ("每 5 分", 300),
        ("每５分鐘", 300),
        ("每隔十五分鐘", 900),
        ("每小時", 3600),
        ("每小时", 3600),
        ("每兩個小時", 7200),
        ("每半小時", 1800),
        ("每天", 86_400),
        ("每週", 604_800),
        ("三十秒", 30),
    ],
)
def test_a_span_means(text: str, seconds: int) -> None:
    assert parse_every(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "5", "-5m", "1.5h", "month", "0s", "101 years", "99999d", "5m 5m", "1m1h", "9:00", "幾分鐘", "十十分"]
)
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(InvalidTimeError):
        parse_every(text)


def test_an_expression_may_be_written_in_fullwidth_characters() -> None:
    assert parse_cron("０ ９ ＊ ＊ １－５", BERLIN) == Cron("0 9 * * 1-5", BERLIN)


words = st.sampled_from(
    [
        *TIMES,
        *[
            "+",
            ":",
            "-",
            "/",
            "at",
            "on",
            "every",
            "in",
            "the",
            "每",
            "點",
            "分",
            "半",
            "一",
            "十",
            "後",
            "週",
            "UTC",
            "Z",
            "9",
            "31",
            "2026-12-24",
            "noon",
            "am",
            "pm",
            ",",
            "(",
            "`",
            "\x00",
            "�",
            "٣",
            "½",
            "²",
        ],
    ]
)
texts = st.text(max_size=40) | st.lists(words, max_size=6).map(" ".join) | st.lists(words, max_size=6).map("".join)


@settings(max_examples=examples(150))
@given(texts)
@example("²點")
@example("9999-12-31 23:59:59")
@example("0000-01-01T00:00")
def test_parsers_raise_their_own_error_alone(text: str) -> None:
    for parse in (lambda: parse_at(text, NOW, BERLIN), lambda: parse_every(text), lambda: parse_cron(text, BERLIN)):
        try:
            result = parse()
        except InvalidTimeError:
            continue
        assert not isinstance(result, Once) or result.at > NOW
