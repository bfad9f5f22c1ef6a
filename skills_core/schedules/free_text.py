"""Find the time in a request, without guessing.

A request is understood if it has exactly one time, nothing else that may concern the time, and a task. All other
requests return the question to ask.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from skills_core.errors import InvalidTimeError
from skills_core.schedules.lexemes import MAX_TEXT, fold_width
from skills_core.schedules.phrases import Form, meaning, phrases, why_unclear
from skills_core.schedules.zones import to_utc, zone_named

if TYPE_CHECKING:
    from datetime import datetime

    from skills_core.schedules.phrases import Phrase
    from skills_core.schedules.when import When

__all__ = ["FoundTime", "MissingReason", "TimeMissing", "find_time"]


class MissingReason(StrEnum):
    """Why a request cannot be scheduled as it is."""

    NO_TIME = "no_time"
    NO_TASK = "no_task"
    UNCLEAR = "unclear"
    CONFLICT = "conflict"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class FoundTime:
    """The one time of a request, at `start` to `end`; `task` is the rest of the request."""

    when: When
    start: int
    end: int
    text: str
    task: str


@dataclass(frozen=True, slots=True)
class TimeMissing:
    """What to ask the user; `found` quotes the words that may concern the time."""

    reason: MissingReason
    question: str
    found: tuple[str, ...] = ()


_EXAMPLES: Final = "for example `+5m`, `18:00`, `tomorrow 9:00`, `every 2 hours` or `every day at 9:00`"
_WHEN: Final = f"When should it run? Give one exact time, {_EXAMPLES}."
_WHAT: Final = "What should be done at that time? Describe the task."
_MAX_SHOWN: Final = 5
_NEARBY: Final = 200
_SEPARATORS: Final = " \t\n,;:"
_PAIRS: Final = ("()", "``", '""', "''", "“”", "「」", "『』")

_QUOTED: Final = re.compile(
    r"\"[^\"\n]{1,500}\"|“[^”\n]{1,500}”|「[^」\n]{1,500}」|『[^』\n]{1,500}』|`[^`\n]{1,500}`|(?<!\w)'[^'\n]{1,300}'(?!\w)"
)
_FILLER: Final = re.compile(
    r"\b(?:please|pls|can|could|would|will|you|schedule|set|up|a|an|the|run|it|this|that|to|me|remind|reminder|timer|alarm"
    r"|task|job|for|and|then|i|i'd|like|want|need|do|start|execute|at|on|by|in|hi|hey|hello|so)\b"
    r"|[請请麻煩烦]|幫我|帮我|提醒我?|排程|設定|设定|安排|執行|执行|一下|我|想|要|在|於|于|的|[吧了就再]|任務|任务",
    re.IGNORECASE,
)
_OF_THE_TASK: Final = re.compile(
    r"(?:\b(?:the|an?|this|that|these|those|my|our|your|its|his|her|their|of|from|since|until|till?|before|after|between"
    r"|by|for|than|past|last|whole|not|never|except|if|when|whether)|直到|之前|以前|[從从自至到前])[\s'\"`(]*$",
    re.IGNORECASE,
)
_BELONGS_TO_WORD: Final = re.compile(r"\s*(?:[的之][^\s]|['\u2019]s\b|以?前|之前|前)")
_SET_OFF_BEFORE: Final = re.compile(r"[,;:.!?。\n(\-\u2013\u2014]\s*$")
_SET_OFF_AFTER: Final = re.compile(r"\s*(?:$|[.!?。\n)])")
_AT: Final = re.compile(r"(?:\b(?:at)\s+|@\s?|[在於于]\s*)", re.IGNORECASE)


def find_time(request: str, now: datetime, zone: str) -> FoundTime | TimeMissing:
    """Return the one time of a request, or what to ask; a time without a zone is one of `zone`.

    Raises:
        InvalidTimeError: there is no such zone, or `now` has no offset from UTC.
    """
    to_utc(now)
    zone_named(zone)
    if len(request) > MAX_TEXT:
        question = f"The request has more than {MAX_TEXT} characters. {_WHEN}"
        return TimeMissing(MissingReason.UNCLEAR, question)
    text = fold_width(request)
    found = phrases(text)
    complete = [each for each in found if each.form is not None]
    unclear = [each for each in found if each.form is None and (each.kinds.strip("csrz") or not complete)]
    shown = tuple(request[each.start : each.end].strip() for each in found if each in complete or each in unclear)
    if len(complete) != 1 or unclear:
        return _missing(complete, unclear, shown, text)
    phrase = complete[0]
    if not _is_certain(text, phrase):
        question = f"Does {shown[0]!r} say when to run, or does it belong to the task? {_WHEN}"
        return TimeMissing(MissingReason.UNCLEAR, question, shown)
    try:
        when = meaning(phrase, now, zone)
    except InvalidTimeError as error:
        return TimeMissing(MissingReason.INVALID, f"{error}. {_WHEN}", shown)
    task = _without(request, phrase)
    if not _has_task(task):
        return TimeMissing(MissingReason.NO_TASK, _WHAT, shown)
    return FoundTime(when, phrase.start, phrase.end, request[phrase.start : phrase.end], task)


def _missing(complete: list[Phrase], unclear: list[Phrase], shown: tuple[str, ...], text: str) -> TimeMissing:
    quoted = ", ".join(map(repr, shown[:_MAX_SHOWN])) + (" and more" if len(shown) > _MAX_SHOWN else "")
    if not shown:
        return TimeMissing(MissingReason.NO_TIME, _WHEN if _has_task(text) else f"{_WHEN} {_WHAT}")
    if not complete:
        why = why_unclear(unclear[0]) if len(unclear) == 1 else "they give no exact time"
        return TimeMissing(MissingReason.UNCLEAR, f"The request says {quoted}: {why}. {_WHEN}", shown)
    question = f"The request has more than one expression of time: {quoted}. Which one says when to run? {_WHEN}"
    return TimeMissing(MissingReason.CONFLICT, question, shown)


def _is_certain(text: str, phrase: Phrase) -> bool:
    """Tell whether a phrase says when to run, not what the task is about."""
    before, after = text[: phrase.start], text[phrase.end :]
    for quoted in _QUOTED.finditer(text):
        if quoted.start() < phrase.start and phrase.end < quoted.end():
            if quoted.group()[1:-1].strip() != phrase.text:
                return False
            before, after = text[: quoted.start()], text[quoted.end() :]
    if (_OF_THE_TASK.search(before[-_NEARBY:]) and _has_task(before)) or _BELONGS_TO_WORD.match(after):
        return False
    if phrase.form not in {Form.CLOCK, Form.RELATIVE} or phrase.first("O"):
        return True
    if phrase.form == Form.CLOCK and _AT.match(phrase.text):
        return True
    if phrase.form == Form.CLOCK and phrase.first("C") and _is_half_day(phrase) and _SET_OFF_AFTER.match(after):
        return True
    return not _has_task(before) or bool(_SET_OFF_BEFORE.search(before[-_NEARBY:]))


def _is_half_day(phrase: Phrase) -> bool:
    return any({"half", "half12"} & each.values.keys() for each in phrase.lexemes)


def _without(request: str, phrase: Phrase) -> str:
    """Return a request without a phrase, the quotes or brackets around it, and the punctuation that set it off."""
    folded = fold_width(request)
    before, after = folded[: phrase.start].rstrip(), folded[phrase.end :].lstrip()
    if before[-1:] + after[:1] in _PAIRS:
        before, after = before[:-1], after[1:]
    before, after = before.rstrip(_SEPARATORS), after.lstrip(_SEPARATORS + ".。")
    task = f"{request[: len(before)]} {request[len(request) - len(after) :]}" if after else request[: len(before)]
    return task.strip(_SEPARATORS)


def _has_task(text: str) -> bool:
    return any(character.isalnum() for character in _FILLER.sub(" ", fold_width(text)))
