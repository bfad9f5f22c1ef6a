from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skills_core.errors import InvalidTimeError
from skills_core.schedules.free_text import FoundTime, MissingReason, TimeMissing, find_time
from skills_core.schedules.parsing import read_time
from skills_core.schedules.when import Cron, Every, Once, When
from tests.thoroughness import examples

NOW = datetime.fromisoformat("2026-11-23T10:00:00+01:00")  # a Monday
BERLIN = "Europe/Berlin"


class Sentence(NamedTuple):
    """A request, and its outcome: `once`, `every` or `cron` with its task, or `ask` with its reason."""

    request: str
    outcome: str
    detail: str


SENTENCES = [
    Sentence(*line.split("\t"))
    for line in (Path(__file__).parent / "sentences.tsv").read_text(encoding="utf-8").split("\n")[1:-1]
]
FOUND = [each for each in SENTENCES if each.outcome != "ask"]
MISSING = [each for each in SENTENCES if each.outcome == "ask"]


def expected(outcome: str) -> When:
    kind, _, value = outcome.partition(" ")
    if kind == "once":
        return Once(datetime.fromisoformat(value))
    if kind == "every":
        return Every(timedelta(seconds=int(value)), NOW)
    expression, _, zone = value.partition(" Asia/")
    return Cron(expression, f"Asia/{zone}" if zone else BERLIN)


@pytest.mark.parametrize("sentence", FOUND, ids=lambda each: each.request)
def test_one_exact_time_is_found_and_the_rest_is_the_task(sentence: Sentence) -> None:
    found = find_time(sentence.request, NOW, BERLIN)
    assert isinstance(found, FoundTime), found
    assert (found.when, found.task) == (expected(sentence.outcome), sentence.detail)
    assert found.text in sentence.request


@pytest.mark.parametrize("sentence", MISSING, ids=lambda each: each.request)
def test_what_is_not_exactly_one_time_and_a_task_is_asked_for(sentence: Sentence) -> None:
    missing = find_time(sentence.request, NOW, BERLIN)
    assert isinstance(missing, TimeMissing), missing
    assert missing.reason.value == sentence.detail, missing
    assert "?" in missing.question or missing.reason is MissingReason.NO_TASK
    assert (missing.when is not None) == (missing.reason is MissingReason.NO_TASK)


def test_the_question_quotes_what_was_found_and_gives_the_forms() -> None:
    missing = find_time("send the 9:00 report at 10:00", NOW, BERLIN)
    assert isinstance(missing, TimeMissing)
    assert missing.question.startswith(
        "The request has more than one expression of time: '9:00', 'at 10:00'. Which one says when to run?"
    )
    for form in ("+5m", "18:00", "每 5 分", "明天 9 點", "2026-12-24 18:00 UTC"):
        assert f"`{form}`" in missing.question


@pytest.mark.parametrize(
    ("request_text", "word", "kind"),
    [
        ("don't check mail at 9:00", "don't", "a negation"),
        ("1.5 hours from now check it out", "1", "a number"),
        ("every 2 hours 30 minutes check it out", "30", "a number"),
        ("at 9:00 PST check mail", "PST", "a zone"),
        ("每 5 分檢查, 晚上報告", "晚上", "a part of the day"),
    ],
)
def test_the_question_names_the_word_that_is_left_over(request_text: str, word: str, kind: str) -> None:
    missing = find_time(request_text, NOW, BERLIN)
    assert isinstance(missing, TimeMissing)
    assert f"{word!r}, {kind}" in missing.question


def test_without_time_and_task_both_are_asked_for() -> None:
    missing = find_time("please schedule it", NOW, BERLIN)
    assert isinstance(missing, TimeMissing)
    assert "When should it run?" in missing.question
    assert "What should be done" in missing.question


def test_a_long_request_is_not_searched() -> None:
    missing = find_time("at 9:00 send it " * 1000, NOW, BERLIN)
    assert isinstance(missing, TimeMissing)
    assert "10000 characters" in missing.question


@pytest.mark.parametrize(
    "part",
    [
        "at ",
        "x",
        "x\n",
        "9:",
        "9 ",
        "每",
        "一",
        "* ",
        "0 0 * * ",
        "the ",
        '"',
        "`",
        "(",
        "at 9:00 ",
        "every ",
        "in ",
        ",",
        *["1,", "1s", "當", "n't ", "a.", "//", "cron: ", "please ", "日", "bi-", "午 ", "aA", "1-", "@"],
    ],
)
def test_a_hostile_request_is_answered(part: str) -> None:
    """Without bounds on repetitions, some of these take minutes."""
    assert isinstance(find_time((part * 10_000)[:9_990] + " x", NOW, BERLIN), TimeMissing)


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(InvalidTimeError, match="no such time zone"):
        find_time("at 9:00 send it", NOW, "Berlin")


# --- Properties ---


def listed(text: str) -> list[str]:
    return [each for line in text.strip().split("\n") for each in line.split("|")]


TASKS = ("check the mail", "send the report to Ann", "open http://localhost:8000/a:12", "檢查信箱", "发送报告给小李")
ENGLISH = listed(
    """
at {h}:{m:02}|tomorrow {h}:{m:02}|tomorrow at {h}:{m:02} UTC|in {m} minutes|+{m}m
{m} minutes from now|every {m} minutes|every {m}s|every day at {h}:{m:02}|daily at {h}:{m:02}
every monday at {h}:{m:02}|on friday at {h}:{m:02}|2026-12-24 {h:02}:{m:02} UTC
2026-12-24T{h:02}:{m:02}:00+08:00|{m} {h} * * *|every weekday at {h}:{m:02}
"""
)
CHINESE = listed(
    """
明天 {h}:{m:02}|{m} 分鐘後|{m}分钟后|每 {m} 分|每{m}分钟|每隔 {m} 秒|每天 {h}:{m:02}|每日{h}:{m:02}
每週五 {h}:{m:02}|每周五{h}:{m:02}|每個工作日 {h}:{m:02}|週三 {h}:{m:02}
"""
)
phrases = st.builds(
    lambda form, h, m: form.format(h=h, m=m), st.sampled_from(ENGLISH + CHINESE), st.integers(0, 23), st.integers(2, 59)
)
DISTRACTIONS = listed(
    """
not|don't|never|no|do not|except|unless|until|between|but|only|stop|cancel|3|three|half|twenty|½
a few|several|first|hour|minutes|30 minutes|2 hours|5m|days|week|daily|weekly|monthly|tomorrow|today
tonight|friday|fridays|Mon|weekend|Dec 24|12/24|2026-12-24|christmas|morning|in the evening|at night
noon|midnight|pm|PST|UTC|CET|local time|Europe/Berlin|soon|later|now|next|last|every|each|again|once
twice|if|when|before|after|since|during|within|starting|from 9 to 17|at 8:00|10:00|9am|maybe
probably|or so|不|不要|別|别|除了|直到|三|兩個|两个半|幾|小時|小时|分鐘|分钟|明天|後天|后天|今晚
週五|周五|週末|周末|早上|下午|晚上|北京時間|北京时间|稍後|稍后|每|每天|再次|如果|大概|左右
for an hour|after lunch|at most|around|prior to|anytime|odd days|mid-morning|quarterly|Ⅻ|廿|俩|刻钟
清早|国庆|以外|之内|工作日|节假日|周一|UTC+8|GMT|Q3|eight o'clock|non|jamais|之前|以後|之后|取消
停止|10 點|3点|月底|morgen|nicht|demain|mañana|завтра|毎日|내일
"""
)


def placed(phrase: str, task: str, distraction: str) -> list[str]:
    return [
        f"{phrase} {task} {distraction}",
        f"{phrase} {distraction} {task}",
        f"{phrase}, {distraction} {task}",
        f"{distraction} {phrase} {task}",
        f"{task} {distraction} {phrase}",
        f"{task} {phrase} {distraction}",
        f"{distraction} {task} {phrase}",
    ]


@settings(max_examples=examples(600))
@given(phrases, st.sampled_from(TASKS), st.sampled_from(DISTRACTIONS))
def test_what_may_concern_time_is_part_of_the_time_or_asked_about(phrase: str, task: str, distraction: str) -> None:
    for request in placed(phrase, task, distraction):
        found = find_time(request, NOW, BERLIN)
        if isinstance(found, FoundTime):
            # Both together are one form, as `9:00` and `tomorrow` are.
            assert (distraction in found.text, found.task) == (True, task), request
            assert read_time(found.text, NOW, BERLIN) == found.when


@settings(max_examples=examples(600))
@given(phrases, st.sampled_from(TASKS))
def test_an_accepted_form_is_found_at_either_end_of_any_task_and_means_what_it_means_alone(
    phrase: str, task: str
) -> None:
    when = read_time(phrase, NOW, BERLIN)
    for request in (f"{phrase} {task}", f"{phrase}, {task}", f"please {phrase} {task}", f"{task}, {phrase}"):
        found = find_time(request, NOW, BERLIN)
        assert isinstance(found, FoundTime), request
        assert found.when == when
        assert found.task.removeprefix("please ") == task
    alone = find_time(phrase, NOW, BERLIN)
    assert isinstance(alone, TimeMissing)
    assert (alone.reason, alone.when) == (MissingReason.NO_TASK, when)


NUMBERS = "一二三四五六七八九"


def in_chinese(number: int) -> str:
    tens, ones = divmod(number, 10)
    return f"{NUMBERS[tens - 1] if tens > 1 else ''}{'十' if tens else ''}{NUMBERS[ones - 1] if ones else ''}"


@given(st.integers(1, 99), st.sampled_from("smh"))
def test_a_span_means_the_same_in_each_spelling(number: int, unit: str) -> None:
    name = {"s": "second", "m": "minute", "h": "hour"}[unit] + ("s" if number > 1 else "")
    old, new = {"s": ("秒", "秒钟"), "m": ("分鐘", "分钟"), "h": ("小時", "个小时")}[unit]
    span = timedelta(**{{"s": "seconds", "m": "minutes", "h": "hours"}[unit]: number})
    chinese = in_chinese(number)
    for phrase in (
        f"+{number}{unit}",
        f"in {number} {name}",
        f"{number} {name} from now",
        f"{number}{new}后",
        f"{chinese}{old}後",
    ):
        assert read_time(phrase, NOW, BERLIN) == Once(NOW + span), phrase
    for phrase in (f"every {number}{unit}", f"every {number} {name}", f"每 {number} {old}", f"每{chinese}{new}"):
        assert read_time(phrase, NOW, BERLIN) == Every(span, NOW), phrase


@given(st.integers(0, 23), st.integers(0, 59))
def test_a_time_of_the_day_means_the_same_in_each_spelling(hour: int, minute: int) -> None:
    half, part = ("am", "上午") if hour < 12 else ("pm", "下午" if hour < 19 else "晚上")
    twelve = hour % 12 or 12
    phrases = [f"tomorrow {hour}:{minute:02}", f"明天 {hour}:{minute:02}", f"tomorrow at {twelve}:{minute:02} {half}"]
    if hour not in {0, 12}:
        phrases += [f"明天{part}{twelve}點{minute}分", f"明天{part}{twelve}点{minute}分"]
    for phrase in phrases:
        assert read_time(phrase, NOW, BERLIN) == Once(datetime(2026, 11, 24, hour, minute, tzinfo=NOW.tzinfo)), phrase


pieces = st.sampled_from(
    [*(each.request for each in SENTENCES), *DISTRACTIONS, "at", "'", '"', "+5m", "@daily", "點", "�", "\x00", "²"]
)


@settings(max_examples=examples(80))
@given(st.text(max_size=60) | st.lists(pieces, max_size=4).map(" ".join))
@example("²點 做")
def test_any_request_is_understood_or_asked_about(request_text: str) -> None:
    answer = find_time(request_text, NOW, BERLIN)
    if isinstance(answer, FoundTime):
        assert answer.text in request_text
        assert answer.task
    else:
        assert answer.question
