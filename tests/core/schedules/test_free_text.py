# ruff: noqa: RUF001 - fullwidth characters are tested
from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skills_core.errors import InvalidTimeError
from skills_core.schedules.free_text import FoundTime, MissingReason, TimeMissing, find_time
from skills_core.schedules.when import Cron, Every, Once, When
from tests.thoroughness import examples

NOW = datetime.fromisoformat("2026-11-23T10:00:00+01:00")  # a Monday
BERLIN = "Europe/Berlin"
NO_TIME, NO_TASK, UNCLEAR, CONFLICT, INVALID = MissingReason


def once(text: str) -> Once:
    return Once(datetime.fromisoformat(text))


def every(**span: float) -> Every:
    return Every(timedelta(**span), NOW)


def cron(expression: str) -> Cron:
    return Cron(expression, BERLIN)


FOUND: dict[str, tuple[When, str]] = {
    "send the report at 9:00": (once("2026-11-24T09:00+01:00"), "send the report"),
    "At 9:00, send the report.": (once("2026-11-24T09:00+01:00"), "send the report."),
    "9:00 send the report": (once("2026-11-24T09:00+01:00"), "send the report"),
    "send the report, 9:00": (once("2026-11-24T09:00+01:00"), "send the report"),
    "send the report 9am": (once("2026-11-24T09:00+01:00"), "send the report"),
    "send the report tomorrow 9:00 to Ann": (once("2026-11-24T09:00+01:00"), "send the report to Ann"),
    "+5m check the build": (once("2026-11-23T10:05+01:00"), "check the build"),
    "check the build +1h30m": (once("2026-11-23T11:30+01:00"), "check the build"),
    "remind me in 5 minutes to drink": (once("2026-11-23T10:05+01:00"), "remind me to drink"),
    "send the mail 2026-12-24T18:00:00Z": (once("2026-12-24T18:00Z"), "send the mail"),
    "send the mail at 18:00 UTC": (once("2026-11-23T18:00Z"), "send the mail"),
    "on monday at 9:00 plan the week": (once("2026-11-30T09:00+01:00"), "plan the week"),
    "check the mail every 2 hours": (every(hours=2), "check the mail"),
    "every 90s check the mail": (every(seconds=90), "check the mail"),
    'say "hello" at 9:00': (once("2026-11-24T09:00+01:00"), 'say "hello"'),
    "send the mail (at 9:00)": (once("2026-11-24T09:00+01:00"), "send the mail"),
    "at 9:00 (UTC) send the mail": (once("2026-11-24T09:00Z"), "send the mail"),
    "every day at 9:00, Asia/Tokyo time, send it": (Cron("0 9 * * *", "Asia/Tokyo"), "send it"),
    "0 9 * * * (Asia/Tokyo) send the mail": (Cron("0 9 * * *", "Asia/Tokyo"), "send the mail"),
    "tomorrow, 9:00: send the mail": (once("2026-11-24T09:00+01:00"), "send the mail"),
    "在明天 9 點的時候發報告": (once("2026-11-24T09:00+01:00"), "發報告"),
    "mondays at 9:00 plan the week": (cron("0 9 * * 1"), "plan the week"),
    "every half hour check the mail": (every(minutes=30), "check the mail"),
    "daily at 9:00 send the report": (cron("0 9 * * *"), "send the report"),
    "run /report every hour": (every(hours=1), "run /report"),
    "every day at 9:00 summarise the last 24 hours": (cron("0 9 * * *"), "summarise the last 24 hours"),
    "every morning at 9:00 summarise today's mails": (cron("0 9 * * *"), "summarise today's mails"),
    "plan the week every monday at 9:00": (cron("0 9 * * 1"), "plan the week"),
    "every weekday at 18:30:15 send the status": (cron("15 30 18 * * 1-5"), "send the status"),
    "0 9 * * 1-5 send the status": (cron("0 9 * * 1-5"), "send the status"),
    "send the status, cron: `0 9 * * mon-fri`": (cron("0 9 * * MON-FRI"), "send the status, cron"),
    "@daily send the status": (cron("0 0 * * *"), "send the status"),
    "open http://localhost:8000/x:12 at 12:30": (once("2026-11-23T12:30+01:00"), "open http://localhost:8000/x:12"),
    "每 5 分檢查信箱": (every(minutes=5), "檢查信箱"),
    "每小時檢查郵件": (every(hours=1), "檢查郵件"),
    "每半小時執行備份": (every(minutes=30), "執行備份"),
    "明天 9 點發送報告": (once("2026-11-24T09:00+01:00"), "發送報告"),
    "明天下午3点发送邮件": (once("2026-11-24T15:00+01:00"), "发送邮件"),
    "今晚8點提醒我開會": (once("2026-11-23T20:00+01:00"), "提醒我開會"),
    "５分鐘後重啟服務": (once("2026-11-23T10:05+01:00"), "重啟服務"),
    "提醒我 １８：３０ 開會": (once("2026-11-23T18:30+01:00"), "提醒我 開會"),
    "每天早上 9 點整理今天的新聞": (cron("0 9 * * *"), "整理今天的新聞"),
    "每週一 9 點寫週報": (cron("0 9 * * 1"), "寫週報"),
    "每周五18:00备份": (cron("0 18 * * 5"), "备份"),
}


@pytest.mark.parametrize("request_text", FOUND)
def test_one_exact_time_is_found_and_the_rest_is_the_task(request_text: str) -> None:
    found = find_time(request_text, NOW, BERLIN)
    assert isinstance(found, FoundTime), found
    assert (found.when, found.task) == FOUND[request_text]
    assert request_text[found.start : found.end] == found.text


MISSING = {
    "send the report": NO_TIME,
    "": NO_TIME,
    "發報告": NO_TIME,
    "寫好一點": NO_TIME,
    # no exact time
    "send the report in the morning": UNCLEAR,
    "send the report soon": UNCLEAR,
    "do it later": UNCLEAR,
    "稍後發報告": UNCLEAR,
    "明天發報告": UNCLEAR,
    "定期檢查信箱": UNCLEAR,
    "9am probably send it": UNCLEAR,
    "call about 9:00": UNCLEAR,
    "大概 9:00 發報告": UNCLEAR,
    "send the report every day": UNCLEAR,
    "send the report every morning": UNCLEAR,
    "check it every 3 days": UNCLEAR,
    "pay the rent every month on the 1st at 9:00": UNCLEAR,
    "每月 1 號 9:00 付房租": CONFLICT,
    "next monday at 9:00 send the mail": UNCLEAR,
    "send the card on Dec 24 at 18:00": UNCLEAR,
    "12月24日 18:00 發卡片": UNCLEAR,
    "send the card on 12/24 at 18:00": UNCLEAR,
    "at 9:00 PST send the mail": UNCLEAR,
    "at 9:00 Berlin time send the mail": UNCLEAR,
    "send the report 9:00-17:00": UNCLEAR,
    "check every hour from 9 to 17": UNCLEAR,
    "every 2 hours for 3 days check it": UNCLEAR,
    "every hour at minute 15 check it": UNCLEAR,
    # words of the task
    "send the 9:00 report": UNCLEAR,
    "send 9:00 report": UNCLEAR,
    "quote John 3:16": UNCLEAR,
    "列出三點建議": UNCLEAR,
    "整理下午3點的會議紀錄": UNCLEAR,
    "summarise the log of 2026-12-24 at 18:00": UNCLEAR,
    "write a summary that one can read in 5 minutes": UNCLEAR,
    'post "see you at 9:00" to the channel': UNCLEAR,
    "send the mail before 9:00": UNCLEAR,
    # more than one
    "send the 9:00 report at 10:00": CONFLICT,
    "send the report at 9:00 or 10:00": CONFLICT,
    "every 2 hours check it, at 9:00": CONFLICT,
    "check it every 2 hours, then at 9:00 report": CONFLICT,
    "summarise the daily report at 9:00": CONFLICT,
    "send the report between 9:00 and 17:00": CONFLICT,
    "maybe send the report at 9:00": CONFLICT,
    "check it every 2 hours until it works": UNCLEAR,
    "every 2 hours check it until it works": CONFLICT,
    "mondays and fridays at 9:00 send it": CONFLICT,
    "from monday to friday at 9:00 send it": CONFLICT,
    "twice daily at 9:00 send it": UNCLEAR,
    "send it at 9:00 every working day": UNCLEAR,
    "send it at 9:00 on Christmas": UNCLEAR,
    "every 2 hours (UTC) send it": UNCLEAR,
    "on Christmas send it at 9:00": CONFLICT,
    "send it at 9:00 the day after": UNCLEAR,
    "send it at 18:00 +1 day": UNCLEAR,
    "send it in 3 days": UNCLEAR,
    "3 天後發報告": UNCLEAR,
    "3 天後 9 點發報告": UNCLEAR,
    "9:00 daily report": UNCLEAR,
    "at 9:00 in Tokyo call Ken": UNCLEAR,
    "every hour on the hour check it": UNCLEAR,
    "每小時整點檢查": UNCLEAR,
    "9 點 工作日 發報告": UNCLEAR,
    "11 月 30 日 9 點發報告": UNCLEAR,
    "從明天起每天 9 點發報告": CONFLICT,
    "每天 9 點到 17 點檢查": CONFLICT,
    "9:00 jeden Tag den Bericht senden": UNCLEAR,
    "morgen um 9:00 den Bericht senden": CONFLICT,
    "9:00 tous les jours envoyer le rapport": UNCLEAR,
    "every day at 9:00 except on sundays send it": UNCLEAR,
    "every day at 9:00 send it except on sundays": CONFLICT,
    "at 9:00 convert the logs to UTC": CONFLICT,
    'post "see you at 9:00" at 8:00': CONFLICT,
    "明天9點列出三點建議": CONFLICT,
    # impossible
    "send the report at 25:00": INVALID,
    "send the report today at 9:00": INVALID,
    "send the report tomorrow at 9": INVALID,
    "2026-02-30 9:00 send the report": INVALID,
    "every day at 9:00 +01:00 send it": INVALID,
    "五點鐘提醒我下班": INVALID,
    "0 9 31 2 * send the report": INVALID,
    "@reboot start the server": INVALID,
    # no task
    "at 9:00": NO_TASK,
    "every 2 hours": NO_TASK,
    "schedule it tomorrow at 9:00, please": NO_TASK,
    "remind me at 9:00": NO_TASK,
    "請明天 9 點提醒我": NO_TASK,
    "每 5 分": NO_TASK,
}


@pytest.mark.parametrize("request_text", MISSING)
def test_what_is_not_exactly_one_time_and_a_task_is_asked_for(request_text: str) -> None:
    missing = find_time(request_text, NOW, BERLIN)
    assert isinstance(missing, TimeMissing), missing
    assert missing.reason is MISSING[request_text], missing
    assert "?" in missing.question


def test_the_question_quotes_what_was_found() -> None:
    missing = find_time("send the 9:00 report at 10:00", NOW, BERLIN)
    assert isinstance(missing, TimeMissing)
    assert missing.found == ("9:00", "at 10:00")
    assert missing.question.startswith(
        "The request has more than one expression of time: '9:00', 'at 10:00'. Which one says when to run?"
    )


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
        " ",
        "\n",
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
        "1,",
    ],
)
def test_a_hostile_request_is_answered(part: str) -> None:
    """Without bounds on repetitions, some of these take minutes."""
    assert isinstance(find_time((part * 10_000)[:9_990] + " x", NOW, BERLIN), TimeMissing)


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(InvalidTimeError, match="no such time zone"):
        find_time("at 9:00 send it", NOW, "Berlin")


pieces = st.sampled_from(
    [
        *FOUND,
        *MISSING,
        *[
            "at",
            "the",
            "of",
            ",",
            ".",
            "'",
            '"',
            "9:00",
            "+5m",
            "every",
            "@daily",
            "每",
            "明天",
            "點",
            "maybe",
            "�",
            "\x00",
            "²",
        ],
    ]
)


@settings(max_examples=examples(80))
@given(st.text(max_size=60) | st.lists(pieces, max_size=4).map(" ".join))
@example("²點 做")
def test_any_request_is_understood_or_asked_about(request_text: str) -> None:
    answer = find_time(request_text, NOW, BERLIN)
    if isinstance(answer, FoundTime):
        assert request_text[answer.start : answer.end] == answer.text
        assert answer.task
    else:
        assert answer.question


@given(
    st.sampled_from(sorted(FOUND)),
    st.sampled_from(["at 7:45", "+9m", "every 3 hours", "每天 7 點", "0 7 * * *", "tomorrow"]),
)
def test_a_second_time_is_never_ignored(request_text: str, other: str) -> None:
    assert isinstance(find_time(f"{request_text} and {other} do more", NOW, BERLIN), TimeMissing)
    assert isinstance(find_time(f"{other} do more and {request_text}", NOW, BERLIN), TimeMissing)
