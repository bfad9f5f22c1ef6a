"""Find the time in a request, without guessing, or ask the user for what is missing.

A request is understood if it begins or ends with one time in an accepted form, and nothing else in it may concern time:
no number, unit, day, zone, part of a day, repetition, condition or negation. What is left is the task. All other
requests return the question to ask.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from skills_core.errors import InvalidTimeError
from skills_core.schedules.cron import is_place_of_zone, to_utc, zone_named
from skills_core.schedules.parsing import ACCEPTED, Form, fold_width, forms, meaning, read_time

if TYPE_CHECKING:
    from skills_core.schedules.when import When


MAX_TEXT: Final = 10_000
"""Most characters of a request that are searched for a time."""

WHEN: Final = f"When should it run? Give one exact time in one of the forms {ACCEPTED}."
WHAT: Final = "What should be done at that time? Describe the task."


class MissingReason(StrEnum):
    """Why a request cannot be scheduled as it is."""

    NO_TIME = "no_time"
    NO_TASK = "no_task"
    UNCLEAR = "unclear"
    CONFLICT = "conflict"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class FoundTime:
    """The one time of a request, as `text`; `task` is the rest of the request."""

    when: When
    text: str
    task: str


@dataclass(frozen=True, slots=True)
class TimeMissing:
    """What to ask the user; `when` is the time if the task alone is missing."""

    reason: MissingReason
    question: str
    when: When | None = None


class _FormMatch(NamedTuple):
    form: Form
    match: re.Match[str]


_CONCERNS_TIME: Final = {
    "a number": r"""
        \d+ zero one two three four five six seven eight nine ten eleven twelve \w+teen twenty thirty forty fifty sixty
        seventy eighty ninety hundred thousand half halves quarters? thirds? first dozens? couple few several many
        半 幾 几 两 兩 俩 倆
    """,
    "a unit": r"""
        (?:milli)?sec(?:ond)?s? min(?:ute)?s? h(?:ou)?rs? hourly o['\u2019]?clock days? daily weeks? weekly fortnight\w*
        months? monthly quarterly years? yearly annual\w* decades? century (?:bi|semi)-?\w+ly
        小[時时] [分秒點点刻][鐘钟] [鐘钟][頭头] 秒 星期 [禮礼]拜 季度 整[點点]
    """,
    "a day": r"""
        today tonight tomorrow tmr yesterday week-?days? week-?ends? (?:mon|tues|wednes|thurs|fri|satur|sun)days? mon
        tues? weds? thur?s? fri sat sun january february march april may june july august september october november
        december jan feb mar apr jun jul aug sept? oct nov dec christmas xmas easter thanksgiving eve new_year\w*
        holidays? birthdays? dates?
        [今明昨前後后隔次翌當当][天日] [今明昨][早晚年] [週周][一二三四五六日末] [月年][底初中末] 天天 日日 去年
        工作[天日] [上下這这本][個个]?[週周月年次] 平日 假日 [節节]日 假期 生日 [聖圣][誕诞] 春[節节] 除夕 新年 元旦
        [國国][慶庆] 中秋 清明 端午
    """,
    "a part of the day": r"""
        mornings? noon mid-?day afternoons? evenings? night\w* mid-?night overnight dawn dusk sunrise sunset lunch-?time
        bed-?time [ap]\.?m eod cob sharp
        凌晨 清[晨早] 早晨 早上 上午 中午 正午 下午 傍晚 晚上 深夜 半夜 午夜 夜[晚間间裡里] 白天 [早晚][點点]
    """,
    "a zone": r"""
        utc gmt (?:[pmceah]|ak|aw|ac|ae|nz)[sd]t ces?t mes?z [bijkh]st hkt sgt wes?t ees?t msk (?-i:[ECMP]T|Z)
        (?:time-?)?zones? eastern central mountain pacific zulu
        (?:africa|america|antarctica|arctic|asia|atlantic|australia|europe|indian|pacific|etc)/\w+ [時时][區区] [當当]地
    """,
    "a repetition": r"""
        every\w* each again repeat\w* once twice thrice other alternate always ever odd even regular\w* periodic\w*
        often occasional\w* frequent\w* rarely seldom usual\w* intervals?
        [每逢毎] 定期 經常 经常 偶[爾尔] 有[時时] [隨随][時时] 再次 多次 [數数][次小分天日]
    """,
    "a range": r"""
        between until till? before after since through\w* prior_to up_to at_(?:most|least) max(?:imum)? minimum during
        within while beginning starting ending
        之前 以前 之[後后] 以[後后] 直到 [為为]止 之[間间] 期[間间] [之以][內内] [從从][今明] [開开]始前
    """,
    "a condition": r"if when whenever unless in_case as_long_as 如果 假如 要是 若 一旦 [當当].{1,20}[時时]",
    "a negation": r"""
        no not never none nobody nothing nowhere neither nor without except\w* excluding but only instead
        \w{1,20}n['\u2019\u02bc`\u00b4]t cannot (?:do|does|did|is|are|was|were|has|have|had|wo|would|ca|could|should)nt
        (?:must|need)nt stop\w* cancel\w* skip\w* avoid\w* refrain\w* quit paus\w+ disable\w* forget nevermind
        [不別别勿莫沒没無无免禁未非否] 除了 除非 除外 [之以]外 取消 停 休息 跳[過过] 避免 [暫暂][緩缓]
    """,
    "a doubt": r"""
        maybe perhaps probably possibly roughly approx\w* circa around or_so \w+ish
        大概 也[許许] 或[許许] 可能 大[約约] 差不多 左右 前[後后] [應应][該该]
    """,
    "a word for a time": r"""
        times? now soon\w* later earlier early late immediately eventually some_?(?:time|day)s? asap as_soon_as next
        last past previous recent\w* coming following ago right_away moment\w* any_?time a_bit
        [時时][間间候刻] 稍[後后] 等[一等] 待[會会] 一[會会] [盡尽]快 有空 改天 [馬马]上 立[刻即] [現现]在 平[時时] 最近
        morgen heute gestern t(?:ä|ae)glich jede[nrs]? stunden? tage? uhr montags? freitags? nicht kein\w* nie bis
        demain aujourd hier chaque tous toutes heures? jours? matin soir pas jamais sauf ne ma(?:ñ|n)ana hoy ayer cada
        todos todas horas? d(?:í|i)as? nunca excepto diariamente salvo domani oggi ieri ogni giorn[oi] ore mai non
        tranne amanh(?:ã|a) hoje n(?:ã|a)o
    """,
}
"""What may change when a request is to run, beside its time: patterns of words, in which `_` may be a space.

All of it is asked about, because a task that has it can be given by itself. Words of other languages stand here so that
they are not taken for a task.
"""

_HARMLESS: Final = re.compile(
    # URLs and absolute paths, and Chinese words with a character that means a number or a negation elsewhere
    r"\b[a-z][a-z0-9+.-]{1,20}://[!-~]*[\w/=&#%~-]|(?<![^\s(\"'`])~?/[!-~]*[\w/=&#%~-]"
    r"|一[下些切起]|[統统]一|唯一|[刪删清移拆解]除|[分特類类級级性][別别]|未[讀读]|非常",
    re.ASCII | re.IGNORECASE,
)
_LEAD: Final = re.compile(
    r"(?:\b(?:(?:reminder|alarm|timer|schedule|it)\s+for|please|pls|kindly|hi|hey|hello|ok|okay|so|then|and|can|could|would|will|you|i|i'd|want|need|like|to|schedule"
    r"|set|up|an?|reminder|timer|alarm|task|job|it|me|remind|do|run|start|execute|at|on|cron)\b"
    r"|[請请麻煩烦]|[幫帮]我|提醒我?|排程|[設设]定|安排|[執执]行|一下|我|想|要|在|於|于|任[務务]|[\s,.;:!()\"'`])*",
    re.IGNORECASE,
)
_TRAIL: Final = re.compile(r"(?:\b(?:please|pls|thanks|thank you)\b|吧|[謝谢]+|[\s,.;:!?。)\"'`」』”])*", re.IGNORECASE)
_OF_THE_TASK: Final = re.compile(
    r"(?:\b(?:the|an?|this|that|these|those|my|our|your|its|his|her|their|of|from|to|by|for|than|with|about|around|in|is|was)"
    r"|[的從从自至到前約约近上下這这本隔大過过])[\s'\"`(]*$",
    re.IGNORECASE,
)
_CONTINUES: Final = re.compile(
    r"\s*(?:(?:of|on|or|and|plus|minus)\b|\(?(?-i:[A-Z]{2,5})\b|,?\s*\(?in (?-i:[A-Z]))", re.IGNORECASE
)
_NAME: Final = re.compile(r"[\s,]*\(?([A-Z][a-z]+(?:[ _][A-Z][a-z]+)?)")
_SET_OFF: Final = re.compile(r"[,;:.!?。\n(\-\u2013\u2014]\s*$")
_SEPARATORS: Final = " \t\n,;:"
_PAIRS: Final = ("()", "``", '""', "''", "“”", "「」", "『』")
_NEARBY: Final = 200
_MAX_SHOWN: Final = 5


def find_time(request: str, now: datetime, zone: str) -> FoundTime | TimeMissing:
    """Return the one time of a request, or what to ask; a time without a zone is one of `zone`.

    Raises:
        InvalidTimeError: there is no such zone, or `now` has no offset from UTC.
    """
    to_utc(now)
    zone_named(zone)
    if len(request) > MAX_TEXT:
        question = f"The request has more than {MAX_TEXT} characters. {WHEN}"
        return TimeMissing(MissingReason.UNCLEAR, question)
    text = _HARMLESS.sub(lambda match: "_" * len(match.group()), fold_width(request))
    found = _forms_in(text)
    if len(found) != 1:
        return _missing(request, text, found)
    start, end = found[0].match.span()
    if unclear := _why_unclear(request, text, found[0]):
        return TimeMissing(MissingReason.UNCLEAR, f"{unclear} {WHEN}")
    try:
        when = meaning(*found[0], now, zone)
    except InvalidTimeError as error:
        return TimeMissing(MissingReason.INVALID, f"{error}. {WHEN}")
    task = _without(request, start, end)
    if not _has_task(task):
        return TimeMissing(MissingReason.NO_TASK, WHAT, when)
    return FoundTime(when, request[start:end], task)


def _forms_in(text: str) -> list[_FormMatch]:
    """Return the forms in a text, without those that lie in a longer one."""
    every = [_FormMatch(form, match) for form, pattern in forms() for match in pattern.finditer(text)]
    spans = {each.match.span(): each for each in reversed(every)}
    longest: list[_FormMatch] = []
    for (_, end), each in sorted(spans.items(), key=lambda item: (item[0][0], -item[0][1])):
        if not longest or end > longest[-1].match.end():
            longest.append(each)
    return longest


def _missing(request: str, text: str, found: list[_FormMatch]) -> TimeMissing:
    if not found:
        if beside := _concerning_time(text):
            kind, word = beside
            question = f"The request says {word!r}, {kind}, but no exact time. {WHEN}"
            return TimeMissing(MissingReason.UNCLEAR, question)
        return TimeMissing(MissingReason.NO_TIME, WHEN if _has_task(text) else f"{WHEN} {WHAT}")
    shown = tuple(request[each.match.start() : each.match.end()].strip() for each in found)
    quoted = ", ".join(map(repr, shown[:_MAX_SHOWN])) + (" and more" if len(shown) > _MAX_SHOWN else "")
    question = f"The request has more than one expression of time: {quoted}. Which one says when to run? {WHEN}"
    return TimeMissing(MissingReason.CONFLICT, question)


def _why_unclear(request: str, text: str, found: _FormMatch) -> str:
    """Return why it is not certain that a form says when to run; empty if it is."""
    start, end = found.match.span()
    shown = request[start:end].strip()
    before, after = text[:start], text[end:]
    if beside := _concerning_time(f"{before}\n{after}"):
        kind, word = beside
        return (
            f"Beside the time {shown!r}, the request says {word!r}, {kind}. Give the time and the task each by itself."
        )
    is_set_off = _SET_OFF.search(before[-_NEARBY:]) or before[-1:] + after[:1] in _PAIRS
    while (before.rstrip()[-1:] + after.lstrip()[:1]) in _PAIRS:
        before, after = before.rstrip()[:-1], after.lstrip()[1:]
    leads, trails = _LEAD.fullmatch(before), _TRAIL.fullmatch(after)
    is_of_task = _OF_THE_TASK.search(before[-_NEARBY:]) and _has_task(before)
    name = _NAME.match(after)
    if (
        (leads or trails)
        and not is_of_task
        and not _is_quoted(before)
        and not (_CONTINUES.match(after) or (name and is_place_of_zone(name[1])))
        and (leads or _is_strong(found) or is_set_off)
    ):
        return ""
    return f"Does {shown!r} say when to run, or does it belong to the task? Write the time first."


def _is_strong(found: _FormMatch) -> bool:
    named = ("at", "half", "half12", "partc", "noon")
    return not found.form.weak or any(found.match.groupdict().get(each) for each in named)


def _is_quoted(before: str) -> bool:
    """Tell whether a text ends within quotes or brackets."""
    return any(
        before.count(pair[0]) % 2 if pair[0] == pair[1] else before.count(pair[0]) > before.count(pair[1])
        for pair in _PAIRS
        if pair != "''"
    )


def _concerning_time(text: str) -> tuple[str, str] | None:
    """Return the kind and the words of the first thing in a text that may concern time."""
    for kind, pattern in _patterns():
        if match := pattern.search(text):
            return kind, match.group()
    for character in text:
        if character.isnumeric():
            return "a number", character
        # The table knows words of two scripts.
        if character.isalpha() and not unicodedata.name(character, "").startswith(("LATIN ", "CJK ")):
            return "in a script whose words for times are not known", character
        if unicodedata.category(character) == "Cf":
            return "a character that is not visible", character
    return None


@functools.cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Compile the table when it is used."""
    found = []
    for kind, listed in _CONCERNS_TIME.items():
        words = [each.replace("_", " ?") for each in listed.split()]
        chinese = [each for each in words if re.search("[\u4e00-\u9fff]", each)]
        others = [each for each in words if each not in chinese]
        pattern = "|".join([rf"\b(?:{'|'.join(others)})\b", *chinese])
        found.append((kind, re.compile(pattern, re.ASCII | re.IGNORECASE)))
    return tuple(found)


def _without(request: str, start: int, end: int) -> str:
    """Return a request without its time, the quotes or brackets around it, and the punctuation that set it off."""
    folded = fold_width(request)
    before, after = folded[:start].rstrip(), folded[end:].lstrip()
    if before[-1:] + after[:1] in _PAIRS:
        before, after = before[:-1], after[1:]
    before, after = before.rstrip(_SEPARATORS), after.lstrip(_SEPARATORS + ".。")
    after = after if any(map(str.isalnum, after)) else ""
    task = f"{request[: len(before)]} {request[len(request) - len(after) :]}" if after else request[: len(before)]
    return task.strip(_SEPARATORS)


def _has_task(text: str) -> bool:
    folded = fold_width(text)
    rest = folded[_LEAD.match(folded).end() :]  # type: ignore[union-attr] # it matches the empty text
    return _TRAIL.fullmatch(rest) is None


@dataclass(frozen=True, slots=True)
class UserRequest:
    """What the user said: time and task, or both in one `text`."""

    time: str | None = None
    task: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Understood:
    """What is understood of a request; `question` asks for what is missing, `asks_time` says whether that is the time.

    `known` is the request as it is to be completed by the answer.
    """

    known: UserRequest
    when: When | None = None
    task: str | None = None
    question: str = ""
    asks_time: bool = False

    def answered(self, answer: str) -> UserRequest:
        """Return the request with the answer to the question."""
        return replace(self.known, time=answer) if self.asks_time else replace(self.known, task=answer)


def understand(request: UserRequest, now: datetime, zone: str, *, needs_task: bool = True) -> Understood:
    """Return the time and the task of a request, or the question to ask first."""
    if request.text is not None and request.time is None and request.task is None:
        found = find_time(request.text, now, zone)
        if isinstance(found, FoundTime):
            return Understood(request, found.when, found.task)
        if found.reason is not MissingReason.NO_TASK:
            return Understood(UserRequest(task=request.text), question=found.question, asks_time=True)
        request = UserRequest(time=request.text)
    if not (request.time or "").strip():
        return Understood(request, question=WHEN, asks_time=True)
    # The time is read by itself, so that times in the task are part of the task.
    when, question = _read(request.time or "", now, zone)
    if when is None:
        return Understood(request, question=question, asks_time=True)
    if needs_task and not (request.task or "").strip():
        return Understood(request, when, question=WHAT)
    return Understood(request, when, request.task)


def _read(text: str, now: datetime, zone: str) -> tuple[When | None, str]:
    """Return the time that a text gives, beside it at most words such as `please`; or None and the question to ask."""
    try:
        return read_time(text, now, zone), ""
    except InvalidTimeError:
        found = find_time(text, now, zone)
    if isinstance(found, FoundTime):
        return None, f"{found.task!r} is not part of a time. {WHEN}"
    return found.when, found.question
