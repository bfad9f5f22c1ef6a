"""JSON as JavaScript writes it: the text that patterns over the arguments of a tool call are matched against.

Rules: ECMAScript's JSON.stringify without indentation, applied to what JSON.parse makes of the same JSON. Numbers are
doubles, keys that are array indices come first, and half of a surrogate pair is escaped. Pure; imports nothing that
takes long, as it runs before every tool call, also in a process that is started for that call.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Final

from skills_core.errors import NestedTooDeepError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from skills_core.format.yaml12 import JsonValue

__all__ = ["MAX_DEPTH", "json_text"]

MAX_DEPTH: Final = 200
"""Levels of lists and objects within each other, the outermost included. Each costs one frame of Python's stack."""

_CONSTANTS: Final = {None: "null", True: "true", False: "false"}
_MAX_EXACT: Final = 2**53
_MAX_INDEX: Final = 2**32 - 2
_INDEX: Final = re.compile("0|[1-9][0-9]{0,9}")
_SURROGATES: Final = re.compile(r"[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]")

_PLAIN_BELOW: Final = 21
_PLAIN_FROM: Final = -6
"""Powers of ten between which JavaScript writes a number without an exponent; Python's are 16 and -4."""

_quoted: Final = json.JSONEncoder(ensure_ascii=False).encode
# It escapes what JavaScript escapes, in the same way, but for surrogates.


def json_text(value: JsonValue) -> str:
    """Return `value`, as `json.loads` gives it, as the text that JSON.stringify writes for the same JSON.

    Raises:
        NestedTooDeepError: The value has more than `MAX_DEPTH` levels.
    """
    parts: list[str] = []
    _write(value, MAX_DEPTH, parts.append)
    return "".join(parts)


def _write(value: JsonValue, levels: int, put: Callable[[str], None]) -> None:
    """Put the parts of the text in order; `levels` is how many more collections may be within each other."""
    if isinstance(value, str):
        put(_string(value))
    elif value is None or isinstance(value, bool):
        put(_CONSTANTS[value])
    elif isinstance(value, (int, float)):
        put(_number(value))
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
    """Return written keys and values: array indices ascending, then all others in the order of the object."""
    indices = sorted(filter(_is_index, value), key=int)
    if indices:
        value = {key: value[key] for key in indices} | value
    # Two keys that differ in Python alone, one character or its two surrogates, become one as in JSON.parse.
    return {_string(key): each for key, each in value.items()}.items()


def _is_index(key: str) -> bool:
    return _INDEX.fullmatch(key) is not None and int(key) <= _MAX_INDEX


def _string(text: str) -> str:
    quoted = _quoted(text)
    return quoted if quoted.isascii() else _SURROGATES.sub(_joined_or_escaped, quoted)


def _joined_or_escaped(found: re.Match[str]) -> str:
    """Return a pair of surrogates as the character that it is to JavaScript, and one alone as its escape."""
    units = found[0]
    if len(units) == 1:
        return f"\\u{ord(units):04x}"
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _number(value: float) -> str:
    """Return a number as a double, in the fewest digits that tell it from its neighbours; null beyond all doubles."""
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
    # The digits are the same in both languages, only where the point stands differs.
    mantissa, _, power = repr(value).partition("e")
    if not power:
        return mantissa.removesuffix(".0")
    return _placed(mantissa, int(power))


def _placed(mantissa: str, power: int) -> str:
    """Write `mantissa` times ten to the `power`, which Python writes with an exponent, as JavaScript does."""
    if not _PLAIN_FROM <= power < _PLAIN_BELOW:
        return f"{mantissa}e{power:+d}"
    sign = "-" if mantissa.startswith("-") else ""
    digits = mantissa.removeprefix("-").replace(".", "")
    # A double has at most 17 digits: from 1e16 all of them stand before the point.
    return sign + (digits.ljust(power + 1, "0") if power > 0 else "0." + digits.rjust(len(digits) - power - 1, "0"))
