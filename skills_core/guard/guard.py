"""Decide on a tool call: allow it, ask the user first, or deny it.

Source: the capability format. Patterns are matched against the tool's name, a space, and the arguments as JavaScript's
`JSON.stringify` writes them, without indentation and after `JSON.parse` of the same JSON: numbers are doubles, keys
that are array indices come first, and lone surrogates are escaped. Beyond the source, patterns are also matched against
the tool's name, a space, and each decoded string of the arguments, where a tab is a tab and `$` is the string's end.
A danger pattern denies the call, a confirm pattern asks; a denial wins.

Imports are light, because this runs before every tool call, also in a process that starts for that call.
"""

from __future__ import annotations

import copy
import json
import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from skills_core.diagnostics import one_line
from skills_core.errors import NestedTooDeepError
from skills_core.texts import compile_matcher

if TYPE_CHECKING:
    from skills_core.format.yaml12 import JsonValue
    from skills_core.skills.skill import Skill


logger = logging.getLogger(__name__)

MAX_SHOWN = 200
"""Maximum characters of a pattern in a reason."""

MAX_NAME = 100
"""Maximum characters of a tool's name in a reason and in the log."""


class Verdict(StrEnum):
    """The outcome for a call."""

    ALLOW = "allow"
    CONFIRM = "confirm"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class GuardRule:
    """A pattern and the verdict on calls that it matches; `skill` is None for a rule of the configuration."""

    pattern: str
    verdict: Verdict
    skill: Skill | None = None

    @property
    def origin(self) -> str:
        """Where the rule comes from, in words."""
        return f"the skill {one_line(self.skill.key)}" if self.skill else "the configuration"


@dataclass(frozen=True, slots=True)
class GuardDecision:
    """The verdict on one call; `reason` explains it to the caller and is empty if the call is allowed.

    `discloses_rule` tells whether the caller may learn whose `rule` decided, and by which pattern.
    """

    verdict: Verdict
    reason: str = ""
    rule: GuardRule | None = None
    discloses_rule: bool = True


class Guard:
    """Decides by rules, whose patterns it compiles at construction."""

    def __init__(self, rules: Iterable[GuardRule]) -> None:
        """Compile the rules.

        Raises:
            InvalidPatternError: a pattern is invalid; those of active skills never are.
        """
        denials_first = sorted(rules, key=lambda rule: rule.verdict is not Verdict.DENY)
        self._rules = [
            (rule, compile_matcher(rule.pattern), compile_matcher(rule.pattern, across_lines=True))
            for rule in denials_first
        ]
        self._shown: Callable[[Skill], Skill | None] | None = None

    def disclosing(self, shown: Callable[[Skill], Skill | None]) -> Guard:
        """Return a guard that decides alike, and whose decisions name skills as a caller knows them.

        `shown` returns a skill as the caller sees it, None if it does not.
        """
        guard = copy.copy(self)
        guard._shown = shown  # noqa: SLF001 - it is a copy of this guard
        return guard

    def decide(self, tool: str, arguments: dict[str, JsonValue]) -> GuardDecision:
        """Return the decision on a call of `tool`; arguments that nest too deeply for JSON are denied."""
        if not self._rules:
            return GuardDecision(Verdict.ALLOW)
        try:
            text = f"{tool} {json_text(arguments)}"
        except NestedTooDeepError as error:
            return GuardDecision(Verdict.DENY, f"The call is denied: {error}")
        strings = argument_texts(tool, arguments)
        for rule, matches, matches_string in self._rules:
            if matches(text) or any(map(matches_string, strings)):
                return self._decided(tool, rule)
        return GuardDecision(Verdict.ALLOW)

    def _decided(self, tool: str, rule: GuardRule) -> GuardDecision:
        """Return the decision by a rule; which rule of a hidden skill decides is not disclosed."""
        if rule.skill is not None and self._shown is not None:
            shown = self._shown(rule.skill)
            if shown is None:
                return GuardDecision(rule.verdict, _reason_without_rule(tool, rule.verdict), rule, discloses_rule=False)
            rule = replace(rule, skill=shown)
        return GuardDecision(rule.verdict, _reason(tool, rule), rule)


def rules_of(skills: Iterable[Skill]) -> tuple[GuardRule, ...]:
    """Return the rules that skills declare, in their order."""
    return tuple(
        GuardRule(pattern, verdict, skill)
        for skill in skills
        for verdict, patterns in (
            (Verdict.DENY, skill.frontmatter.danger_patterns),
            (Verdict.CONFIRM, skill.frontmatter.confirm_patterns),
        )
        for pattern in patterns
    )


def log_decision(tool: str, decision: GuardDecision) -> None:
    """Log a decision that a pattern made on a call of `tool`, with the digest of the pattern's skill."""
    if (rule := decision.rule) is not None:
        digest = rule.skill.digest if rule.skill else ""
        logger.info("guard: %s %s by %s %s", decision.verdict, one_line(tool)[:MAX_NAME], rule.origin, digest)


def _reason(tool: str, rule: GuardRule) -> str:
    pattern = one_line(rule.pattern)
    shown = pattern if len(pattern) <= MAX_SHOWN else pattern[:MAX_SHOWN] + "…"
    call = f"The call of {one_line(tool)[:MAX_NAME]}"
    if rule.verdict is Verdict.DENY:
        return (
            f"{call} is denied: it matches `{shown}`, which {rule.origin} calls dangerous. "
            "Do it another way, or tell the user why it cannot be done."
        )
    return f"{call} needs the user's consent: it matches `{shown}`, for which {rule.origin} wants to be asked."


def _reason_without_rule(tool: str, verdict: Verdict) -> str:
    call = f"The call of {one_line(tool)[:MAX_NAME]}"
    if verdict is Verdict.DENY:
        return f"{call} is denied by a rule of this server. Do it another way, or tell the user why it cannot be done."
    return f"{call} needs the user's consent, as a rule of this server says."


MAX_DEPTH: Final = 200
"""Maximum nesting of lists and objects, counting the outermost. Each level takes one frame of Python's stack."""

_CONSTANTS: Final = {None: "null", True: "true", False: "false"}
_MAX_EXACT: Final = 2**53
_MAX_INDEX: Final = 2**32 - 2
_INDEX: Final = re.compile("0|[1-9][0-9]{0,9}")
_SURROGATES: Final = re.compile(r"[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]")

_PLAIN_BELOW: Final = 21
_PLAIN_FROM: Final = -6
"""JavaScript writes a number without an exponent between these powers of ten; Python's bounds are 16 and -4."""

_quoted: Final = json.JSONEncoder(ensure_ascii=False).encode
# Escapes the same characters as JavaScript in the same way, except for surrogates.


def json_text(value: JsonValue) -> str:
    """Return `value`, as `json.loads` gives it, as the text that JSON.stringify writes for the same JSON.

    Raises:
        NestedTooDeepError: the value has more than `MAX_DEPTH` levels.
    """
    parts: list[str] = []
    _write(value, MAX_DEPTH, parts.append)
    return "".join(parts)


def _write(value: JsonValue, levels: int, put: Callable[[str], None]) -> None:
    """Pass the parts of the text to `put`, in order; `levels` is how many more levels of nesting are allowed."""
    if isinstance(value, str):
        put(_string_text(value))
    elif value is None or isinstance(value, bool):
        put(_CONSTANTS[value])
    elif isinstance(value, (int, float)):
        put(_number_text(value))
    elif levels == 0:
        raise NestedTooDeepError(MAX_DEPTH)
    elif isinstance(value, list):
        before = "["
        for each in value:
            put(before)
            _write(each, levels - 1, put)
            before = ","
        put("]" if value else "[]")
    else:
        before = "{"
        for key, each in _members(value):
            put(f"{before}{key}:")
            _write(each, levels - 1, put)
            before = ","
        put("}" if value else "{}")


def _members(value: dict[str, JsonValue]) -> Iterable[tuple[str, JsonValue]]:
    """Return quoted keys with their values: array indices ascending, then the other keys in the object's order."""
    indices = sorted(filter(_is_index, value), key=int)
    if indices:
        value = {key: value[key] for key in indices} | value
    # Keys that differ only in Python, a character and its surrogate pair, become one key as in JSON.parse.
    return {_string_text(key): each for key, each in value.items()}.items()


def _is_index(key: str) -> bool:
    return _INDEX.fullmatch(key) is not None and int(key) <= _MAX_INDEX


def _string_text(text: str) -> str:
    quoted = _quoted(text)
    return quoted if quoted.isascii() else _SURROGATES.sub(_join_or_escape, quoted)


def _join_or_escape(found: re.Match[str]) -> str:
    """Return a surrogate pair as its character, as JavaScript sees it, and a lone surrogate as its escape."""
    units = found[0]
    if len(units) == 1:
        return f"\\u{ord(units):04x}"
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _number_text(value: float) -> str:
    """Return a number as the shortest text of its double; "null" if no double can hold it."""
    if isinstance(value, int):
        if -_MAX_EXACT <= value <= _MAX_EXACT:
            return str(value)
        try:
            value = float(value)
        except OverflowError:
            return "null"
    if not math.isfinite(value):
        return "null"
    if value == 0:
        return "0"
    # Both languages choose the same digits and differ only in the position of the point.
    mantissa, _, power = repr(value).partition("e")
    if not power:
        return mantissa.removesuffix(".0")
    return _expand_exponent(mantissa, int(power))


def _expand_exponent(mantissa: str, power: int) -> str:
    """Write `mantissa` times ten to the `power`, where Python uses an exponent, as JavaScript does."""
    if not _PLAIN_FROM <= power < _PLAIN_BELOW:
        return f"{mantissa}e{power:+d}"
    sign = "-" if mantissa.startswith("-") else ""
    digits = mantissa.removeprefix("-").replace(".", "")
    # A double has at most 17 digits: from 1e16 on, all of them precede the point.
    return sign + (digits.ljust(power + 1, "0") if power > 0 else "0." + digits.rjust(len(digits) - power - 1, "0"))


MAX_SEPARATE: Final = 1000
"""Strings of a call that are matched one by one; the rest are joined into one text, to bound the number of matches."""


def argument_texts(tool: str, arguments: dict[str, JsonValue]) -> list[str]:
    """Return the tool's name, a space and a string, for each distinct string in the arguments, keys included.

    The name comes first so that a pattern for one tool applies here too.
    """
    strings = [*dict.fromkeys(_strings(arguments))]
    separate, rest = strings[:MAX_SEPARATE], strings[MAX_SEPARATE:]
    return [f"{tool} {string}" for string in [*separate, *(["\n".join(rest)] if rest else [])]]


def _strings(arguments: dict[str, JsonValue]) -> Iterator[str]:
    waiting: list[JsonValue] = [arguments]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            yield from value
            waiting += reversed(value.values())
        elif isinstance(value, list):
            waiting += reversed(value)
