"""The texts of a tool call's arguments against which patterns are matched: as JSON, and string by string.

The JSON is written as JavaScript does: ECMAScript's JSON.stringify without indentation, applied to the result of
JSON.parse on the same JSON. Numbers are doubles, keys that are array indices come first, and lone surrogates are
escaped. Imports are light, because this runs before every tool call, also in a process that starts for that call.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Final

from skills_core.errors import NestedTooDeepError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from skills_core.format.yaml12 import JsonValue

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
