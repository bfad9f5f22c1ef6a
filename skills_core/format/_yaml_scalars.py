"""Scalars of the YAML 1.2 core schema: from the text of a node to a value, and from a value to a JSON key.

The rules are those of YAML 1.2.2, section 10.3.2 (tag resolution of the core schema). The last part works around
PyYAML, which implements YAML 1.1: it refuses characters or takes them for line breaks, and accepts lines that it should
refuse.
"""

import math
import re
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from skills_core.diagnostics import without_lone_surrogates

Scalar: TypeAlias = bool | int | float | str | None

_CORE: Final = "tag:yaml.org,2002:"
STR_TAG: Final = _CORE + "str"
BINARY_TAG: Final = _CORE + "binary"
MAP_TAG: Final = _CORE + "map"
SEQ_TAG: Final = _CORE + "seq"
NON_SPECIFIC_TAG: Final = "!"
"""`! 12` is the string "12": with the non-specific tag, only the kind of the node counts (section 6.9.1)."""

_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_MAY_BE_NUMBER: Final = frozenset("+-.0123456789")
_INT: Final = re.compile(r"[-+]?[0-9]+")
_OCTAL_OR_HEX: Final = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INFINITY: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)")
_NAN: Final = frozenset((".nan", ".NaN", ".NAN"))

_TAG_OF: Final = {
    type(None): _CORE + "null",
    bool: _CORE + "bool",
    int: _CORE + "int",
    float: _CORE + "float",
    str: STR_TAG,
}

_FLOAT_DIGITS: Final = 309
"""The digits of the largest double; far below the length that `int` refuses."""
_PLAIN_FROM: Final = 1e-6
_PLAIN_BELOW: Final = 1e21
"""The bounds within which JavaScript writes a number without an exponent (ECMA-262, Number::toString)."""


class ScalarError(ValueError):
    """A text that has no value for its tag, or that PyYAML cannot process."""


def resolve_plain(text: str) -> Scalar:
    """Return the value of an untagged plain scalar."""
    if text[:1] in _MAY_BE_NUMBER:
        return _number(text)
    return _WORDS.get(text, text)


def _number(text: str) -> int | float | str:
    if _INT.fullmatch(text):
        return _decimal(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _OCTAL_OR_HEX.fullmatch(text):
        return _bounded(int(text, 0))
    if text in _NAN:
        return math.nan
    if _INFINITY.fullmatch(text):
        return -math.inf if text[0] == "-" else math.inf
    return text


def _decimal(text: str) -> int | float:
    """Parse any number of digits in spite of Python's limit on the length of an integer."""
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > _FLOAT_DIGITS:
        return -math.inf if text[0] == "-" else math.inf
    magnitude = int(digits or "0")
    return _bounded(-magnitude if text[0] == "-" else magnitude)


def _bounded(value: int) -> int | float:
    """Return an integer exactly if it is in the range of a double; beyond, infinity as in JavaScript."""
    try:
        float(value)
    except OverflowError:
        return -math.inf if value < 0 else math.inf
    return value


def resolve_tagged(tag: str, text: str) -> Scalar:
    """Return the value of a scalar with an explicit tag.

    Raises:
        UnfitError: the tag is not in the core schema, or the text does not fit its tag. Parsers disagree in this case:
            npm `yaml` warns and uses the plain text, others refuse.
    """
    if tag in {STR_TAG, NON_SPECIFIC_TAG}:
        return text
    if tag == BINARY_TAG:
        return "".join(text.split())
    value = resolve_plain(text)
    if tag != _TAG_OF[type(value)]:
        raise ScalarError(tag)
    return value


def key_text(value: Scalar) -> str:
    """Return a key as JavaScript converts it to a string: `1.0` is "1", `true` is "true", and null is empty."""
    match value:
        case None:
            return ""
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return _javascript_number(float(value))


def _javascript_number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "-Infinity" if value < 0 else "Infinity"
    if value == 0:
        return "0"
    shortest = repr(value)  # both languages write the shortest digits that parse back
    if _PLAIN_FROM <= abs(value) < _PLAIN_BELOW:
        from decimal import Decimal  # noqa: PLC0415 - few files have such numbers; at the top, every start would pay for it

        return f"{Decimal(shortest):f}".removesuffix(".0")
    mantissa, _, exponent = shortest.partition("e")
    return f"{mantissa}e{int(exponent):+d}"


def find_underindented(
    rows: Sequence[str], continued: range, column: int, bracket: tuple[int, int] | None
) -> tuple[int, int] | None:
    """Return line and column of the first continuation of quotes or brackets that is not indented enough.

    YAML 1.2.2, section 6.3 (line prefixes) requires more indentation than that of the enclosing block. libyaml does not
    check this, the reference refuses, and one in sixty public skills has such a line. As in the reference, the closing
    bracket may be in the column of the key.

    Args:
        rows: the lines of the text.
        continued: the indexes of the lines that begin inside the quotes or brackets.
        column: the column of the block, from 1.
        bracket: line and column of the closing bracket, from 1, or None for a quoted scalar.
    """
    for row in continued:
        body = rows[row].lstrip(" ")
        indent = len(rows[row]) - len(body)
        if indent >= column or body in {"", "\r"}:
            continue
        place = (row + 1, indent + 1)
        if bracket and (body[0] == "#" or not body.strip() or place == bracket == (row + 1, column)):
            continue
        return place
    return None


_UNCARRIED: Final = re.compile(
    "[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]"  # allowed in strings of YAML 1.2; some break lines in 1.1
    r"|\\(?P<form>u|U0000)(?P<surrogate>[dD][89a-fA-F][0-9a-fA-F]{2})"  # valid in JSON, refused by libyaml
)
_STAND_IN: Final = re.compile("[\ue000-\uf8ff]|\\\\(?:u|U0000)[ef][0-9a-f]{3}")
_LIKE_STAND_IN: Final = re.compile("(?=([ef][0-9a-f]{3}))")
_PRIVATE_USE: Final = range(0xE000, 0xF900)


def with_stand_ins(text: str) -> tuple[str, Callable[[str], str] | None]:
    """Replace what PyYAML does not read as YAML 1.2 does by stand-ins of equal length.

    A stand-in is a private-use character that the text contains neither literally nor in hexadecimal, so that it is
    unique. The escape of a surrogate becomes the escape of its stand-in, because only the parser knows whether it is an
    escape (in double quotes) or six plain characters (elsewhere).

    Returns:
        The text to parse, and a function that restores the characters of a scalar, or None if nothing was replaced.

    Raises:
        UnfitError: the text leaves no private-use character free.
    """
    if _UNCARRIED.search(text) is None:
        return text, None
    taken = {int(digits, 16) for digits in _LIKE_STAND_IN.findall(text.lower())}
    free = (code for code in _PRIVATE_USE if code not in taken and chr(code) not in text)
    forward: dict[str, str] = {}
    back: dict[str, str] = {}

    def replace(match: re.Match[str]) -> str:
        original, surrogate = match[0], match["surrogate"]
        if original not in forward:
            code = next(free, None)
            if code is None:
                raise ScalarError("the text has too many private-use characters")
            forward[original] = f"\\{match['form']}{code:04x}" if surrogate else chr(code)
            back[forward[original]] = original
            back[chr(code)] = chr(int(surrogate, 16)) if surrogate else original
        return forward[original]

    def restore(scalar: str) -> str:
        return without_lone_surrogates(_STAND_IN.sub(lambda match: back.get(match[0], match[0]), scalar))

    return _UNCARRIED.sub(replace, text), restore
