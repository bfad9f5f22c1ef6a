"""Change one member of a JSON document with comments, and leave every other byte as it is.

Configuration files of clients are edited by people: their comments, order and indentation have to stay. Comments and
trailing commas are accepted as VS Code accepts them, whose parser most clients share.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from skills_core.errors import SkillsError

_SPACE = re.compile(r"(?:[ \t\r\n\ufeff]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SCALAR = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_REST_OF_LINE = re.compile(r"[ \t]*(?://[^\r\n]*|/\*[^\r\n]*?\*/[ \t]*)(?=\r?\n)")
_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])')
_INDENT = re.compile(r"\n([ \t]+)\S")
_MAX_DEPTH = 200


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")


_PLAIN = json.JSONDecoder(parse_constant=_refuse_constant)


class JsoncError(SkillsError):
    """A text is not JSON with comments; the message says where, and what was expected."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an object: its key, and where the key begins and the value begins and ends."""

    key: str
    start: int
    value: Value
    comma: int | None = None
    """Where the comma behind it is."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value and its place in the text; `members` are those of an object, None for any other value."""

    start: int
    end: int
    members: tuple[Member, ...] | None = None


def parse(text: str, levels: int = _MAX_DEPTH) -> Value:
    """Return the document's value, with the members of objects down to this many levels.

    Raises:
        JsoncError: the text is not one value.
    """
    reader = _Reader(text, levels)
    value = reader.value(_after_space(text, 0), 0)
    end = _after_space(text, value.end)
    if end != len(text):
        raise reader.expected("the end of the file", end)
    return value


def load(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return what the document says.

    Raises:
        JsoncError: the text is not one value.
    """
    try:
        # Most files are plain JSON, and some have megabytes.
        return _PLAIN.decode(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        parse(text)
    without_comments = _COMMENT.sub(lambda found: found[0] if found[0].startswith('"') else " ", text.lstrip("\ufeff"))
    return json.loads(_TRAILING_COMMA.sub(lambda found: found[1] or "", without_comments))


def with_member(text: str, path: Sequence[str], entry: Mapping[str, Any]) -> str:
    """Return the text with `entry` as the member that `path` names; the objects on the way are added if missing.

    Raises:
        JsoncError: the text is not an object, or something on the way is not one.
    """
    if not text.strip():
        return json.dumps(_nested(path, entry), indent=2, ensure_ascii=False) + "\n"
    holder = _object(text, parse(text, len(path)), "the file")
    for number, key in enumerate(path):
        found = _only(text, holder, key)
        if found is None:
            return _inserted(text, holder, key, _nested(path[number + 1 :], entry))
        if number == len(path) - 1:
            shown = _dumped(entry, text, found.start)
            return text[: found.value.start] + shown + text[found.value.end :]
        holder = _object(text, found.value, ".".join(path[: number + 1]))
    raise AssertionError("a path has at least one key")


def without_member(text: str, path: Sequence[str]) -> str:
    """Return the text without the member that `path` names; the same text if there is none.

    Raises:
        JsoncError: as from `with_member`.
    """
    if not text.strip():
        return text
    holder = _object(text, parse(text, len(path)), "the file")
    for key in path[:-1]:
        found = _only(text, holder, key)
        if found is None:
            return text
        holder = _object(text, found.value, key)
    gone = _only(text, holder, path[-1])
    return text if gone is None else _removed(text, holder, (holder.members or ()).index(gone))


def _removed(text: str, holder: Value, at: int) -> str:
    members = holder.members or ()
    gone = members[at]
    if at:
        # The comma in front goes with it, and what stands between.
        before = members[at - 1]
        trailing = gone.comma is not None and before.comma is not None
        start = before.comma + 1 if trailing and before.comma is not None else before.value.end
        comment = _REST_OF_LINE.match(text, before.value.end if before.comma is None else before.comma + 1)
        end = gone.value.end if gone.comma is None else gone.comma + 1
        return text[:start] + (comment[0] if comment else "") + text[end:]
    if len(members) > 1 and gone.comma is not None:
        return text[: gone.start] + text[members[1].start :]
    end = gone.value.end if gone.comma is None else gone.comma + 1
    rest = text[end : holder.end - 1]
    return text[: holder.start + 1] + (rest if rest.strip() else "") + text[holder.end - 1 :]


def _inserted(text: str, holder: Value, key: str, value: object) -> str:
    """Return the text with a further member at the end of an object, in its style."""
    shown_key = json.dumps(key, ensure_ascii=False)
    members = holder.members or ()
    if members:
        last = members[-1]
        newline = _line_before(text, last.start)
        shown = f"{shown_key}: {_dumped(value, text, last.start)}"
        end = last.value.end if last.comma is None else last.comma + 1
        # A comment behind the last member is about that.
        comment = _REST_OF_LINE.match(text, end) if newline else None
        behind = comment[0] if comment else ""
        first_comma, last_comma = (",", "") if last.comma is None else ("", ",")
        return f"{text[:end]}{first_comma}{behind}{newline or ' '}{shown}{last_comma}{text[end + len(behind) :]}"
    outer = _indentation(text, holder.start)
    inner = outer + _unit(text)
    shown = f"{shown_key}: {_indented(value, _unit(text), inner)}"
    kept = text[holder.start + 1 : holder.end - 1].rstrip()
    return f"{text[: holder.start + 1]}{kept}\n{inner}{shown}\n{outer}{text[holder.end - 1 :]}"


def _line_before(text: str, position: int) -> str:
    """Return the line break and indentation in front of a position, nothing if something else is on its line."""
    start = text.rfind("\n", 0, position)
    indent = text[start + 1 : position]
    return f"\n{indent}" if start >= 0 and not indent.strip() else ""


def _indentation(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 :]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    """Return the indentation of one level: that of the first line that is indented, otherwise two spaces."""
    found = _INDENT.search(text)
    return found[1] if found else "  "


def _dumped(value: object, text: str, position: int) -> str:
    """Return a value in the style of the file: on one line if what is at `position` does not begin a line."""
    if text.rfind("\n", 0, position) < 0:
        return json.dumps(value, ensure_ascii=False)
    return _indented(value, _unit(text), _indentation(text, position))


def _indented(value: object, unit: str, outer: str) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", f"\n{outer}")


def _nested(path: Sequence[str], entry: object) -> object:
    for key in reversed(path):
        entry = {key: entry}
    return entry


def _object(text: str, value: Value, name: str) -> Value:
    if value.members is None:
        raise JsoncError(f"{_place(text, value.start)}: {name}: expected an object")
    return value


def _only(text: str, holder: Value, key: str) -> Member | None:
    """Return the member of a key; which of two counts differs between readers, so that neither may be changed."""
    found = [each for each in holder.members or () if each.key == key]
    if len(found) > 1:
        raise JsoncError(f"{_place(text, found[1].start)}: {key} is there twice; remove one of the two")
    return found[0] if found else None


def _after_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return position if found is None else found.end()


def _place(text: str, position: int) -> str:
    line = text.count("\n", 0, position) + 1
    return f"line {line}, column {position - text.rfind(chr(10), 0, position)}"


class _Reader:
    """Reads values by recursive descent; each method takes the position of the first character of what it reads."""

    def __init__(self, text: str, levels: int) -> None:
        self._text = text
        self._levels = levels

    def expected(self, what: str, position: int) -> JsoncError:
        return JsoncError(f"{_place(self._text, position)}: expected {what}")

    def value(self, position: int, depth: int) -> Value:
        if depth > _MAX_DEPTH:
            raise JsoncError(f"{_place(self._text, position)}: nested more than {_MAX_DEPTH} levels deep")
        if depth == self._levels:
            # What has no comment is passed over at once.
            with suppress(ValueError, RecursionError):
                return Value(position, _PLAIN.raw_decode(self._text, position)[1])
        first = self._text[position : position + 1]
        if first == "{":
            return self._object(position, depth)
        if first == "[":
            return self._array(position, depth)
        found = (_STRING if first == '"' else _SCALAR).match(self._text, position)
        if found is None:
            raise self.expected("a value", position)
        return Value(position, found.end())

    def _object(self, start: int, depth: int) -> Value:
        members: list[Member] = []
        position = _after_space(self._text, start + 1)
        while self._text[position : position + 1] != "}":
            key = _STRING.match(self._text, position)
            if key is None:
                raise self.expected("a key in double quotes, or }", position)
            colon = _after_space(self._text, key.end())
            if self._text[colon : colon + 1] != ":":
                raise self.expected(":", colon)
            value = self.value(_after_space(self._text, colon + 1), depth + 1)
            position, comma = self._after_item(value.end, "}")
            try:
                name = json.loads(key[0])
            except ValueError:
                raise self.expected("a key without unknown escapes", key.start()) from None
            members.append(Member(name, key.start(), value, comma))
        return Value(start, position + 1, tuple(members))

    def _array(self, start: int, depth: int) -> Value:
        position = _after_space(self._text, start + 1)
        while self._text[position : position + 1] != "]":
            position, _ = self._after_item(self.value(position, depth + 1).end, "]")
        return Value(start, position + 1)

    def _after_item(self, end: int, closing: str) -> tuple[int, int | None]:
        """Return where the next item or the closing bracket is, and where the comma in between is."""
        position = _after_space(self._text, end)
        if self._text[position : position + 1] == ",":
            return _after_space(self._text, position + 1), position
        if self._text[position : position + 1] != closing:
            raise self.expected(f", or {closing}", position)
        return position, None
