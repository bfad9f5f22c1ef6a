"""Parse frontmatter to JSON values by the YAML 1.2 core schema (YAML 1.2.2, section 10.3).

PyYAML produces the events, with libyaml if installed. The rest is done here, because PyYAML resolves scalars by YAML
1.1 and its composer is recursive. One pass over the events builds the values with a stack of open collections and
checks all bounds, so that the cost of hostile text is linear in its length.

The reference is the npm package `yaml` 2 with its defaults, which the official hosts use to verify what a server lists.

Deviations, required by JSON or for safety:

- NaN, infinities and numbers beyond a double are null, as in `JSON.stringify`; smaller integers stay exact.
- A key that is not a string is converted as in JavaScript; a collection as a key is refused.
- `!!binary` stays base64 text. Other tags outside the core schema are refused, and so is a text that does not fit its
  tag: the reference warns and drops the tag, or builds values that JSON does not have (Set, Map, Date).
- A repeated key keeps its last value; a directive never changes the schema; a lone surrogate becomes U+FFFD.
"""

import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NoReturn, Protocol, TypeAlias

import yaml
from yaml import (
    AliasEvent,
    CollectionEndEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from skills_core.diagnostics import without_lone_surrogates
from skills_core.sharing import shared

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
        ScalarError: the tag is not in the core schema, or the text does not fit its tag. Parsers disagree in this case:
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
        ScalarError: the text leaves no private-use character free.
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


JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
JsonObject: TypeAlias = "dict[str, JsonValue]"

MAX_CHARACTERS: Final = 262_144
MAX_DEPTH: Final = 64
"""Levels of collections below the root mapping; the MCP inspector refuses to compare deeper values."""
MAX_NODES: Final = 50_000
"""Keys, scalars and collections; an alias counts as all that it repeats."""
_CHARACTERS_PER_NODE: Final = 64
"""A scalar counts once more for each so many characters, to bound the expansion of aliases to a long string."""

_QUOTES: Final = frozenset("'\"")
_REPLACEMENT: Final = "\ufffd"

_REFUSED: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]|\r(?!\n)")
"""Not printable in YAML 1.2.2 (section 5.1), and the lone carriage return, a line break there, but not in npm."""


class YamlFault(StrEnum):
    """Why a text yields no mapping."""

    SYNTAX = "syntax"
    NOT_A_MAPPING = "not_a_mapping"
    TOO_LARGE = "too_large"
    TOO_DEEP = "too_deep"
    TOO_MANY_NODES = "too_many_nodes"
    UNSUPPORTED_TAG = "unsupported_tag"


class YamlNoteKind(StrEnum):
    """How a value differs from its text after conversion to JSON."""

    DUPLICATE_KEY = "duplicate_key"
    NON_STRING_KEY = "non_string_key"
    NON_FINITE_NUMBER = "non_finite_number"
    BINARY = "binary"
    LONE_SURROGATE = "lone_surrogate"


class YamlError(Exception):
    """The text is not a valid mapping; line and column count from 1 in the text."""

    def __init__(self, fault: YamlFault, message: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(fault, message, line, column)
        self.fault = fault
        self.message = message
        self.line = line
        self.column = column

    def __str__(self) -> str:
        return self.message if self.line is None else f"line {self.line}: {self.message}"


@dataclass(frozen=True, slots=True)
class YamlNote:
    """A remark on a mapping that was read; `field` is the top-level field that it concerns."""

    kind: YamlNoteKind
    message: str
    line: int
    field: str = ""


@dataclass(frozen=True, slots=True)
class YamlMapping:
    """A mapping as JSON values; read-only, because aliases may share an object."""

    value: Mapping[str, JsonValue]
    lines: Mapping[str, int]
    notes: tuple[YamlNote, ...]


def load_mapping(text: str) -> YamlMapping:
    """Parse the mapping of a frontmatter.

    Raises:
        YamlError: the text is not one valid mapping, or exceeds the bounds of length, depth or number of nodes.
    """
    if len(text) > MAX_CHARACTERS:
        raise YamlError(YamlFault.TOO_LARGE, f"longer than {MAX_CHARACTERS:,} characters")
    text = text.removeprefix("\ufeff")
    ordinary = text.replace("\n", "").isprintable()  # skips two slower searches for nearly every text
    if not ordinary and (refused := _REFUSED.search(text)):
        raise _refusal(text, refused.start())
    if not text.endswith("\n"):
        # A block scalar ends with a line break even if the text does not: hosts cut the line break before the closing
        # fence, and npm `yaml` and js-yaml add it. libyaml does not.
        text += "\n"
    restore = None
    if not ordinary or "\\" in text:
        try:
            text, restore = with_stand_ins(text)
        except ScalarError as error:
            raise YamlError(YamlFault.SYNTAX, str(error)) from None
    builder = _Builder(text, restore)
    _feed(text, builder.take)
    if builder.root is None:
        raise YamlError(YamlFault.NOT_A_MAPPING, "there are no fields")
    return YamlMapping(builder.root, builder.lines, tuple(builder.notes))


def _refusal(text: str, position: int) -> YamlError:
    character = text[position]
    message = (
        "a carriage return without a line feed"
        if character == "\r"
        else f"the character U+{ord(character):04X} is not allowed"
    )
    line = text.count("\n", 0, position) + 1
    return YamlError(YamlFault.SYNTAX, message, line, position - text.rfind("\n", 0, position))


class _EventSource(Protocol):
    def get_event(self) -> Event | None: ...


_new_parser: Callable[[str], _EventSource]
try:
    from yaml._yaml import CParser
except ImportError:  # PyYAML was built without libyaml
    _new_parser = yaml.SafeLoader
else:
    _new_parser = CParser


def visit_events(text: str, take: Callable[[Event], None]) -> None:
    """Call `take` with each event of a text that `load_mapping` reads; marks are positions in `text`."""
    _feed(with_stand_ins(text if text.endswith("\n") else text + "\n")[0], take)


def _feed(text: str, take: Callable[[Event], None]) -> None:
    parser = _new_parser(text)
    try:
        while (event := parser.get_event()) is not None:
            take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = error.problem or error.context or "not readable as YAML"
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        raise YamlError(YamlFault.SYNTAX, f"{message:.200}", line, column) from None
    except (yaml.YAMLError, ValueError, OverflowError):
        # The pure Python parser does not catch numbers too large for `chr` or `int`.
        raise YamlError(YamlFault.SYNTAX, "not readable as YAML") from None


@dataclass(slots=True)
class _Anchored:
    """A node with an anchor; its weight is 0 until it is closed."""

    value: JsonValue
    weight: int = 0
    height: int = 0


@dataclass(slots=True)
class _OpenNode:
    """An unclosed collection. Its column is that of the block, or for brackets that of the enclosing block."""

    items: "list[JsonValue] | dict[str, JsonValue]"
    anchored: _Anchored | None
    nodes_before: int
    column: int
    first_row: int
    flow: bool
    key: str | None = None
    height: int = 1


class _Builder:
    """Builds values from events; `take` raises `YamlError` at the first event that breaks a rule."""

    def __init__(self, text: str, restore: Callable[[str], str] | None) -> None:
        self.root: dict[str, JsonValue] | None = None
        self.lines: dict[str, int] = {}
        self.notes: list[YamlNote] = []
        self._field = ""
        self._rows = text.split("\n")
        self._restore = restore
        self._stack: list[_OpenNode] = []
        self._anchors: dict[str, _Anchored] = {}
        self._nodes = 0
        self._documents = 0

    def take(self, event: Event) -> None:
        if isinstance(event, ScalarEvent):
            self._scalar(event)
        elif isinstance(event, CollectionEndEvent):
            self._end(event)
        elif isinstance(event, MappingStartEvent):
            self._start(event, {})
        elif isinstance(event, SequenceStartEvent):
            self._start(event, [])
        elif isinstance(event, AliasEvent):
            self._alias(event)
        elif isinstance(event, DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                _fail(YamlFault.SYNTAX, "a second document begins", event)

    def _scalar(self, event: ScalarEvent) -> None:
        if not self._stack:
            _fail(YamlFault.NOT_A_MAPPING, "a single value instead of fields", event)
        if event.style in _QUOTES and not self._stack[-1].flow:
            self._check_indent(_place(event)[0], event, self._stack[-1].column)
        text = event.value
        if self._restore is not None:
            text = self._restore(text)
            if text.count(_REPLACEMENT) > event.value.count(_REPLACEMENT):
                self._note(YamlNoteKind.LONE_SURROGATE, "a lone surrogate becomes U+FFFD", event)
        value: Scalar = text
        if event.tag is not None:
            value = self._tagged(event, event.tag, text)
        elif event.implicit[0]:
            value = resolve_plain(text)
        weight = 1 + len(text) // _CHARACTERS_PER_NODE
        self._count(weight, event)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, weight)
        self._put_scalar(value, event)

    def _tagged(self, event: ScalarEvent, tag: str, text: str) -> Scalar:
        if tag == BINARY_TAG:
            self._note(YamlNoteKind.BINARY, "binary data stays base64 text", event)
        try:
            return resolve_tagged(tag, text)
        except ScalarError:
            _fail(YamlFault.UNSUPPORTED_TAG, f"the tag {tag!r:.60} is not supported here", event)

    def _start(
        self, event: MappingStartEvent | SequenceStartEvent, items: dict[str, JsonValue] | list[JsonValue]
    ) -> None:
        expected = MAP_TAG if isinstance(items, dict) else SEQ_TAG
        if event.tag not in {None, NON_SPECIFIC_TAG, expected}:
            _fail(YamlFault.UNSUPPORTED_TAG, f"the tag {event.tag!r:.60} is not supported here", event)
        if self._stack:
            self._put_collection(items, event)
        elif isinstance(items, dict):
            self.root = items
        else:
            _fail(YamlFault.NOT_A_MAPPING, "a list instead of fields", event)
        if len(self._stack) > MAX_DEPTH:
            _fail(YamlFault.TOO_DEEP, f"nested deeper than {MAX_DEPTH} levels", event)
        anchored = None
        if event.anchor is not None:
            anchored = self._anchors[event.anchor] = _Anchored(items)
        row, column = _place(event)
        outer = self._stack[-1].column if self._stack else 0
        # With an anchor or tag before a block, its own column is unknown, and that of the outer block is the bound.
        bare = event.anchor is None and event.tag is None
        flow = bool(event.flow_style)
        column = column if bare and not flow else outer
        self._stack.append(_OpenNode(items, anchored, self._nodes, column, row, flow))
        self._count(1, event)

    def _end(self, event: CollectionEndEvent) -> None:
        closed = self._stack.pop()
        if closed.flow and self._stack and not self._stack[-1].flow:
            self._check_indent(closed.first_row, event, closed.column)
        if closed.anchored is not None:
            closed.anchored.weight = self._nodes - closed.nodes_before
            closed.anchored.height = closed.height
        if self._stack:
            outer = self._stack[-1]
            outer.height = max(outer.height, closed.height + 1)

    def _check_indent(self, first_row: int, event: ScalarEvent | CollectionEndEvent, column: int) -> None:
        last_row = event.end_mark.line if event.end_mark else 0
        bracket = _place(event) if isinstance(event, CollectionEndEvent) else None
        if found := find_underindented(self._rows, range(first_row, last_row + 1), column, bracket):
            message = "a line inside quotes or brackets needs more indentation than its key"
            raise YamlError(YamlFault.SYNTAX, message, *found)

    def _alias(self, event: AliasEvent) -> None:
        target = self._anchors.get(event.anchor or "")
        if target is None:
            _fail(YamlFault.SYNTAX, f"the alias {event.anchor!r:.60} has no anchor above it", event)
        if target.weight == 0:
            _fail(YamlFault.TOO_DEEP, "an alias inside the collection that it names", event)
        if len(self._stack) + target.height - 1 > MAX_DEPTH:
            _fail(YamlFault.TOO_DEEP, f"nested deeper than {MAX_DEPTH} levels", event)
        self._count(target.weight, event)
        if isinstance(target.value, (list, dict)):
            self._put_collection(target.value, event)
            top = self._stack[-1]
            top.height = max(top.height, target.height + 1)
        else:
            self._put_scalar(target.value, event)

    def _put_collection(self, items: list[JsonValue] | dict[str, JsonValue], event: Event) -> None:
        top = self._stack[-1]
        if isinstance(top.items, list):
            top.items.append(items)
        elif top.key is None:
            _fail(YamlFault.SYNTAX, "a list or mapping as a key; text with brackets needs quotes", event)
        else:
            top.items[top.key] = items
            top.key = None

    def _put_scalar(self, value: Scalar, event: Event) -> None:
        top = self._stack[-1]
        if isinstance(top.items, list):
            top.items.append(self._finite(value, event))
        elif top.key is None:
            # Thousands of skills have the same few keys.
            top.key = sys.intern(value if isinstance(value, str) else key_text(value))
            self._check_key(value, top.key, top.items, event)
        else:
            top.items[top.key] = self._finite(value, event)
            top.key = None

    def _check_key(self, value: Scalar, key: str, mapping: dict[str, JsonValue], event: Event) -> None:
        if mapping is self.root:
            self._field, self.lines[key] = key, _place(event)[0]
        if not isinstance(value, str):
            self._note(YamlNoteKind.NON_STRING_KEY, f"a key that is not a string becomes {key!r}", event)
        if key in mapping:
            self._note(YamlNoteKind.DUPLICATE_KEY, f"the key {key!r:.60} is repeated; the last value counts", event)

    def _finite(self, value: Scalar, event: Event) -> Scalar:
        if isinstance(value, float) and not math.isfinite(value):
            self._note(YamlNoteKind.NON_FINITE_NUMBER, "JSON has no such number; it becomes null", event)
            return None
        return shared(value) if isinstance(value, str) else value

    def _count(self, weight: int, event: Event) -> None:
        self._nodes += weight
        if self._nodes > MAX_NODES:
            _fail(YamlFault.TOO_MANY_NODES, f"more than {MAX_NODES:,} values once aliases are expanded", event)

    def _note(self, kind: YamlNoteKind, message: str, event: Event) -> None:
        self.notes.append(YamlNote(kind, message, _place(event)[0], self._field))


def _place(event: Event) -> tuple[int, int]:
    mark = event.start_mark
    return (mark.line + 1, mark.column + 1) if mark else (1, 1)


def _fail(fault: YamlFault, message: str, event: Event) -> NoReturn:
    raise YamlError(fault, message, *_place(event))
