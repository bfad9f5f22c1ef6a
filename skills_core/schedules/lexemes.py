"""Find the words of a text that have to do with time.

Each lexeme has a kind of one letter, so that the grammar in `phrases` is a table of regular expressions over kinds.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skills_core.schedules.spans import CHINESE_NUMBER, CHINESE_SHORT_UNIT, COMPACT, NUMBER, SHORT_UNIT, UNIT

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MAX_TEXT", "Lexeme", "fold_width", "lexemes"]

MAX_TEXT: Final = 10_000
"""Most characters of a request that are searched for a time."""

_WIDTHS: Final = {0xFF01 + number: 0x21 + number for number in range(0x5E)} | {0x3000: 0x20, 0x3001: 0x2C, 0xA0: 0x20}
_WEEKDAY: Final = r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|mon|tues?|wed|thu(?:rs?)?|fri)(?![\w'])"
_CHINESE_WEEKDAY: Final = "(?:週|周|星期|禮拜|礼拜)[一二三四五六日天]"
_MONTH: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)"
)
_CRON_FIELD: Final = (
    r"(?:\*(?:/[0-9]{1,4})?|[0-9]{1,2}[0-9,/*\-]{0,40}|L|LW|(?:[0-9]|[a-z]{3})[#L][0-9]?"
    r"|(?:mon|tue|wed|thu|fri|sat|sun|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)(?:[,-][a-z]{3}){0,11})"
)
_PART: Final = "凌晨|清晨|早晨|早上|上午|中午|下午|傍晚|晚上|夜[晚裡里]"

_ZONE_AREAS: Final = "Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Europe|Indian|Pacific|Etc"
_ABBREVIATIONS: Final = "[PMCE][SD]?T|CES?T|MES?Z|BST|IST|JST|KST|HKT|SGT|AES?T|AEDT|WES?T|EES?T|MSK"
_CRON_WORDS: Final = rf"(?:{_CRON_FIELD}[ \t]{{1,5}}){{4,5}}{_CRON_FIELD}"
_HOUR: Final = r"[0-9]{1,2}(?::[0-9]{2})?"
_CHINESE_DIGITS: Final = "[0-9一二三四五六七八九十]{1,3}"
_CHINESE_WEEK: Final = "[週周月年季]|星期|[禮礼]拜"
_DISTANT_UNIT: Final = "weeks?|months?|years?|quarters?"

_EXACT: Final = (
    # cron expressions and their names
    (
        "k",
        (
            rf"(?<![^\s`'\"「(])(?=[^\n]{{0,250}}\*)(?:cron(?: expression)?:? )?"
            rf"(?P<cron>{_CRON_WORDS})(?![^\s`'\"」,.;!?)])"
        ),
    ),
    ("k", r"(?<![\w.])(?P<macro>@(?:yearly|annually|monthly|weekly|daily|midnight|hourly|reboot))(?!\w)"),
    # a range of times is none
    ("v", rf"(?<![\w.:/]){_HOUR} ?(?:[ap]m)? ?(?:[-\u2013~至到]|to\b) ?[0-9]{{1,2}}(?::[0-9]{{2}}| ?[ap]m)(?![\w:])"),
    # instants and dates in ISO 8601
    (
        "I",
        (
            r"(?<![\w./:+-])(?P<iso>[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?)"
            r"(?P<zone> ?(?:Z|[+-][0-9]{2}:?[0-9]{2}))?(?![\w:/+-]|\.\w)"
        ),
    ),
    ("D", r"(?<![\w./:+-])(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})(?![\w/+-]|\.\w)"),
    ("O", rf"(?<![\w.+])\+(?P<offset>{COMPACT})(?![\w.:])"),
    # times of the day
    (
        "C",
        (
            r"(?<![\w.:/,+-])(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}))?"
            r"(?: ?(?P<half>[ap])\.?m\b\.?)?(?!:[0-9]|[/a-z0-9_]|[.,][0-9]|-[0-9a-z])"
        ),
    ),
    ("C", r"(?<![\w.:/,+-])(?P<hour12>[0-9]{1,2}) ?(?P<half12>[ap])(?:m\b|\.m\.)"),
    ("C", r"\b(?P<noon>noon)\b"),
    (
        "C",
        (
            r"(?P<hourc>[0-9]{1,2}|[二兩两三四五六七八九十]{1,3}|(?<=[上下晚早午晨])一) ?[點点時时]"
            rf"(?:(?P<halfc>半)|(?P<quarter>[一三]刻)| ?(?P<minutec>{CHINESE_NUMBER}) ?分)?"
            r"(?:[鐘钟]|整(?![理個个合體体數数]))?(?:的[時时]候|[時时](?![間间候]))?"
        ),
    ),
    (
        "H",
        (
            r"\bat (?P<bare>[0-9]{1,2})(?!\w|:|\.[0-9])"
            r"(?=\s*(?:$|[,.;!?\n)]|(?:in|to|and|on|every|today|tomorrow)\b|[^\x00-\x7f]))"
        ),
    ),
    # zones
    ("Z", r"\b(?P<utc>UTC|GMT)(?P<shift>[+-][0-9]{1,2}(?::?[0-9]{2})?)?(?![\w+-])(?: time\b)?"),
    ("Z", r"(?<=[0-9]) ?(?P<direct>Z\b|[+-][0-9]{2}:?[0-9]{2}\b)"),
    ("Z", rf"(?<![\w/])(?P<iana>(?:{_ZONE_AREAS})/[a-z_+\-]{{1,30}}(?:/[a-z_+\-]{{1,30}})?)(?![\w/])(?: time\b)?"),
    ("z", rf"(?-i:\b(?:{_ABBREVIATIONS}|[A-Z][a-z]+(?: [A-Z][a-z]+)? time)\b)"),
    ("z", r"[\u4e00-\u9fff]{2}[時时][間间]|\blocal time\b|\bin (?-i:[A-Z][a-z]+)\b|當地|当地"),
)
_RECURRING: Final = (
    ("v", rf"\b(?:every|each) (?:other|second|third|(?:{NUMBER} )?(?:{_DISTANT_UNIT})|[0-9]+(?:st|nd|rd|th))\b"),
    ("V", rf"\b(?:every|each) (?P<weekdays>week-?days?|{_WEEKDAY})"),
    ("Y", r"\b(?:every|each) day\b|\b(?:every|each)(?= (?:morning|afternoon|evening)\b)"),
    ("v", rf"\b(?:every|each) {NUMBER} ?(?:days?|d)\b"),
    ("E", rf"\b(?:every|each) (?P<number>{NUMBER}) ?(?P<unit>{SHORT_UNIT})(?![\w.])"),
    ("E", r"\b(?:every|each) (?:half )?(?P<alone>hour|(?<!half )(?:minute|min|hr))\b"),
    ("E", rf"\bevery (?P<compact>{COMPACT})(?!\w)"),
    ("y", r"\bdaily\b"),
    ("v", r"\b(?:hourly|weekly|nightly|monthly|quarterly|yearly|annually|bi-?weekly|fortnightly)\b"),
    ("v", r"\b(?:week-?days?|weekends?)\b"),
    ("v", rf"\b(?:once|twice|{NUMBER} times) (?:an?|per|every|each) (?:minute|hour|day|{_DISTANT_UNIT})\b"),
    ("V", rf"每[個个]?(?P<weekdaysc>工作[天日]|平日|{_CHINESE_WEEKDAY})"),
    ("v", rf"每隔?(?: ?{CHINESE_NUMBER} ?[天日]| ?(?:{CHINESE_NUMBER})? ?[個个]?(?:{_CHINESE_WEEK}))"),
    ("Y", rf"每一?[天日]|每(?=(?:{_PART}))|天天"),
    ("E", rf"每隔? ?(?P<numberc>{CHINESE_NUMBER})? ?(?P<unitc>{CHINESE_SHORT_UNIT})"),
    # what else recurs: on certain days, or with events
    ("v", rf"\b(?:every|each) (?:[a-z-]{{1,20}} ){{0,2}}(?:days?|nights?|hours?|minutes?|{_DISTANT_UNIT})\b"),
    ("v", r"\b(?:every|each) (?:time|sat|sun)\b|\b(?:odd|even|alternate|working|business) days?\b"),
    ("v", r"\b(?:twice|thrice|except)\b|\bon the (?:hour|half hour|dot)\b"),
    ("v", "每[次當当逢]|毎|整[點点]|工作[天日]|平日|假日|[節节]日|隔[天日]|[次翌]日"),
)
_RELATIVE: Final = (
    ("N", rf"\bin (?P<inn>{NUMBER}) ?(?P<inu>{SHORT_UNIT})(?![\w.-])|\bin (?P<incompact>{COMPACT})(?!\w)"),
    ("O", rf"\b(?P<fromn>{NUMBER}) ?(?P<fromu>{SHORT_UNIT}) from now\b"),
    ("O", rf"(?P<laten>{CHINESE_NUMBER}) ?(?P<lateu>{CHINESE_SHORT_UNIT})(?:之|以)?[後后]"),
    # a span of days leaves the time of the day open
    ("v", rf"\bin {NUMBER} ?(?:days?|weeks?|[dw])\b|\+ ?[0-9]{{1,9}} {UNIT}\b"),
    ("v", rf"\b{NUMBER} (?:days?|{_DISTANT_UNIT}) from \w+"),
    ("v", rf"{CHINESE_NUMBER} ?[個个]?(?:[天日月年週周]|星期|[禮礼]拜)(?:之|以)?[後后]"),
    ("v", rf"\b(?:the )?(?:day|{_DISTANT_UNIT}) (?:after|before)\b(?! tomorrow)"),
    ("v", r"\b(?:the )?(?:next|following) (?:day|morning|evening)\b"),
)
_BOUNDS: Final = (
    # of what recurs, which no schedule has, and times in words
    ("v", rf"\b(?:after|for|within) (?:the next )?{NUMBER} ?{UNIT}\b"),
    ("v", r"\b(?:[0-9]{1,9}|two|three|four|five) times\b"),
    ("v", r"\b(?:until|till)\b|直到|\b(?:starting|beginning|ending) (?:at|on|from|in)\b"),
    ("v", r"\b(?:business|office|working) hours\b"),
    ("v", r"\b(?:from [0-9]{1,2} (?:to|until|till|-)|between [0-9]{1,2} and) [0-9]{1,2}\b(?!:)"),
    (
        "v",
        r"\bo['\u2019]clock\b|\bat minute\b|\b(?:half|quarter|minutes?) (?:past|to)\b|\b(?:past|after|to) the hour\b",
    ),
)
_DAYS: Final = (
    ("v", r"\b(?:next|last|this|coming) (?:week(?:end)?|month|year|quarter)\b"),
    ("v", rf"[上下這这本][個个]?(?:{_CHINESE_WEEK})[一二三四五六日天末]?"),
    ("v", rf"\b(?:next|last|coming) {_WEEKDAY}"),
    ("d", r"\b(?P<day>(?:the )?day after tomorrow|tomorrow|today|tonight)\b(?!['\u2019])"),
    ("d", r"(?P<dayc>大?[後后]天|明[天日早晚]|今[天日早晚夜])(?!的)"),
    ("w", rf"\b(?:this )?(?P<weekday>{_WEEKDAY})"),
    ("w", rf"(?P<weekdayc>{_CHINESE_WEEKDAY})(?!的)"),
    ("V", r"\b(?P<plural>(?:mon|tues|wednes|thurs|fri|satur|sun)days)\b"),
    ("v", r"\b(?:sat|sun)\b|[週周月年]末|月底|年底|月初"),
    ("p", r"\b(?:(?:in|during) the |this )?(?P<part>morning|afternoon|evening)\b(?<!good morning)(?<!good evening)"),
    ("p", rf"(?P<partc>{_PART})"),
    ("v", r"\b(?:during|in) the night\b|\bovernight\b|\b(?:christmas|easter|thanksgiving|new year|birthday)\b"),
    ("v", "[聖圣][誕诞]|春[節节]|除夕|新年|生日"),
    # dates that can be read in several ways
    ("v", rf"\b[0-9]{{1,2}}(?:st|nd|rd|th)?\.? (?:of )?{_MONTH}\b|\b{_MONTH}\.? [0-9]{{1,2}}(?:st|nd|rd|th)?\b"),
    ("v", r"(?<![\w./])[0-9]{1,2}/[0-9]{1,2}(?:/[0-9]{2,4})?(?![\w/])"),
    ("v", r"(?<![\w.])[0-9]{1,2}\.[0-9]{1,2}\.(?:[0-9]{2,4})?(?!\w)"),
    ("v", rf"\b(?:the )?[0-9]{{1,2}}(?:st|nd|rd|th)\b|{_CHINESE_DIGITS} ?月 ?{_CHINESE_DIGITS} ?[日號号]"),
    ("v", r"\bmidnight\b|\bat night\b|\bend of (?:the )?(?:day|week|month|year)\b|(?-i:\b(?:EOD|COB)\b)|半夜|午夜"),
)
_OTHER_LANGUAGES: Final = (
    # so that a clock time beside them is no single time of today or tomorrow
    (
        "v",
        r"\b(?:morgen|heute|t(?:ä|ae)glich|jeden?|jeder|jedes|st(?:ü|ue)ndlich|w(?:ö|oe)chentlich|montags?|freitags?)\b",
    ),
    ("v", r"\b(?:demain|aujourd|chaque|tous les|toutes les|ma(?:ñ|n)ana|hoy|cada|todos los|todas las|diariamente)\b"),
    ("v", r"\b(?:domani|oggi|ogni|amanh(?:ã|a)|hoje)\b|(?:каждый|завтра|сегодня)|(?:내일|매일|오늘|明後日)"),
)
_INEXACT: Final = (
    ("g", r"\b(?:maybe|perhaps|probably|possibly|or so)\b|大概|也[許许]"),
    ("r", r"\b(?:around|about|approximately|roughly|circa)\b|[~≈]|左右|前[後后]|可能|大[約约]|差不多|[應应][該该]"),
    ("s", r"\b(?:soon|later|asap|as soon as possible|eventually|sometime|someday|now|immediately|right away)\b"),
    ("s", r"\b(?:regularly|periodically|often|occasionally|from time to time|a few (?:minutes|hours|days))\b"),
    ("s", r"\bin a (?:while|moment|bit|few \w+|couple of \w+)\b"),
    ("s", "等一下|等等|定期"),
    ("s", "稍[後后]|晚[點点]|待[會会]|[盡尽]快|有空|改天|[馬马]上|立刻|[以之][後后]|[過过]一[會会]"),
)
_CONNECTORS: Final = (("c", r"\b(?:at|on)\b|@(?= ?[0-9])|[在於于]"),)

_TABLE: Final = (*_EXACT, *_RECURRING, *_RELATIVE, *_BOUNDS, *_DAYS, *_OTHER_LANGUAGES, *_INEXACT, *_CONNECTORS)
"""The kinds and their patterns; the first pattern that matches at a position wins.

`k` cron; `I` instant; `D` date; `d` day relative to today; `w` weekday; `p` part of the day; `C` time of the day; `H`
hour alone; `O` and `N` span from the present on, `N` may also be a duration; `E` span that recurs; `Y` every day; `y`
daily; `V` certain weekdays; `Z` zone; `z` unknown zone; `v` what has several readings; `g` doubt; `r` approximation;
`s` no exact time; `c` connector.
"""


@functools.cache
def _pattern() -> re.Pattern[str]:
    """Compile the table when it is used: that takes longer than all imports of this package."""
    groups = (f"(?P<{kind}_{number}>{pattern})" for number, (kind, pattern) in enumerate(_TABLE))
    return re.compile("|".join(groups), re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Lexeme:
    """Words at `start` to `end`; `values` are the named parts of their pattern."""

    kind: str
    start: int
    end: int
    text: str
    values: Mapping[str, str]


def fold_width(text: str) -> str:
    """Return `text` with fullwidth characters as ordinary ones; positions stay the same."""
    return text.translate(_WIDTHS)


def lexemes(text: str) -> tuple[Lexeme, ...]:
    """Return the lexemes of a text of folded width, in order."""
    found = []
    for match in _pattern().finditer(text):
        named = {name: value for name, value in match.groupdict().items() if value is not None}
        label = next(name for name in named if name[1:2] == "_")
        values = {name: value for name, value in named.items() if name[1:2] != "_"}
        found.append(Lexeme(label[0], match.start(), match.end(), match.group(), values))
    return tuple(found)
