"""Add or remove one entry in a client's configuration file; every other byte stays, comments and order included.

An edit is made on the text and then checked: both texts are read, and they may differ by the entry alone. A file in
which that cannot be done is left to its owner, with the entry to write.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import yaml

from server.capabilities.connect import jsonc
from skills_core.errors import SkillsError

_TOML_HEADER = re.compile(r"^[ \t]*\[", re.MULTILINE)
_MARK: Final = "\ufeff"
_BARE = re.compile(r"[A-Za-z0-9_-]+")


class DocumentError(SkillsError):
    """A configuration file cannot be read or edited; the message says where, and what was expected."""


class DocumentFormat(StrEnum):
    """How a client's file is written."""

    JSON = "json"
    """JSON, with comments where the client reads them."""
    TOML = "toml"
    YAML = "yaml"


def read_document(text: str, kind: DocumentFormat) -> dict[str, Any]:
    """Return the document; an empty text is an empty document.

    Raises:
        DocumentError: it cannot be read, or is not a table.
    """
    text = text.removeprefix(_MARK)
    try:
        found = _READERS[kind](text) if text.strip() else {}
    except yaml.MarkedYAMLError as error:
        # Its own text quotes lines of the file, which may hold secrets.
        place = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise DocumentError(f"this is not valid YAML: {place}{error.problem}") from None
    except (jsonc.JsoncError, tomllib.TOMLDecodeError, yaml.YAMLError, ValueError, RecursionError) as error:
        raise DocumentError(f"this is not valid {kind.upper()}: {error}") from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise DocumentError(f"expected a table at the top of the {kind.upper()}, not {type(found).__name__}")
    return found


def entry_at(document: Mapping[str, Any], path: Sequence[str]) -> object:
    """Return what a document has at a path, None if it has nothing there.

    In a list, an entry is the one with the `name` of the last key.
    """
    found: object = document
    for key in path:
        if isinstance(found, list):
            found = next((each for each in found if isinstance(each, dict) and each.get("name") == key), None)
        else:
            found = found.get(key) if isinstance(found, dict) else None
    return found


def with_entry(
    text: str, kind: DocumentFormat, path: Sequence[str], entry: Mapping[str, Any], *, in_list: bool = False
) -> str:
    """Return the text with `entry` at a path, in place of what is there; `in_list` tells that its holder is a list.

    Raises:
        DocumentError: the file cannot be read, or not be edited without changing more.
    """
    before = read_document(text, kind)
    _require_tables(text, before, path, in_list=in_list)

    def edit(text: str) -> str:
        if kind is DocumentFormat.JSON:
            return jsonc.with_member(text, path, entry)
        cleared = without_entry(text, kind, path)
        if kind is DocumentFormat.TOML:
            return _with_block(cleared, _toml_block(path, entry))
        return _with_yaml(cleared, path, entry, in_list=in_list)

    changed = _edited(text, edit)
    _check(before, changed, kind, path, entry)
    return changed


def without_entry(text: str, kind: DocumentFormat, path: Sequence[str], *, drops_empty: bool = False) -> str:
    """Return the text without what is at a path; with `drops_empty`, also without the tables that this leaves empty.

    Raises:
        DocumentError: as from `with_entry`.
    """
    if entry_at(read_document(text, kind), path) is None:
        return text
    changed = _removed(text, kind, path)
    while drops_empty and (path := path[:-1]) and not entry_at(read_document(changed, kind), path):
        changed = _removed(changed, kind, path)
    return changed


def _removed(text: str, kind: DocumentFormat, path: Sequence[str]) -> str:
    changed = _edited(text, lambda text: _REMOVERS[kind](text, path))
    _check(read_document(text, kind), changed, kind, path, None)
    return changed


def _edited(text: str, edit: Callable[[str], str]) -> str:
    """Return an edited text with the byte order mark and the line ends that it had."""
    mark, body = (_MARK, text[1:]) if text.startswith(_MARK) else ("", text)
    is_windows = "\r\n" in body and body.count("\n") == body.count("\r\n")
    try:
        changed = edit(body.replace("\r\n", "\n") if is_windows else body)
    except jsonc.JsoncError as error:
        raise DocumentError(str(error)) from None
    return mark + (changed.replace("\n", "\r\n") if is_windows else changed)


def _require_tables(text: str, document: object, path: Sequence[str], *, in_list: bool) -> None:
    """Refuse a file in which something on the way to an entry is not the table, or list, that its client expects."""
    for number in range(1, len(path)):
        found = entry_at(document, path[:number]) if isinstance(document, dict) else None
        expected = list if in_list and number == len(path) - 1 else dict
        if found is not None and not isinstance(found, expected):
            key = path[number - 1]
            line = next((at for at, each in enumerate(text.splitlines(), 1) if _names(each, key)), 1)
            kind = "a list" if expected is list else "a table"
            raise DocumentError(f"line {line}: {'.'.join(path[:number])}: expected {kind}, not {_kind_of(found)}")


def _names(line: str, key: str) -> bool:
    return re.match(rf"""[\s{{\[,]*["']?{re.escape(key)}["']?\s*[]:=.]""", line) is not None


def _kind_of(value: object) -> str:
    return {dict: "a table", list: "a list", str: "a text", bool: "true or false"}.get(type(value), "a number")


def _check(before: dict[str, Any], changed: str, kind: DocumentFormat, path: Sequence[str], entry: object) -> None:
    try:
        after = read_document(changed, kind)
        is_right = entry_at(after, path) == entry and _rest(before, path) == _rest(after, path)
    except DocumentError:
        is_right = False
    if not is_right:
        raise DocumentError(f"{'.'.join(path)} cannot be edited here without changing more; edit it by hand")


def _rest(document: object, path: Sequence[str]) -> object:
    """Return the document without the entry, and without what is empty on the way to it."""
    if isinstance(document, list):
        left = [each for each in document if not (isinstance(each, dict) and each.get("name") == path[0])]
        return left or None
    if not isinstance(document, dict):
        return document
    kept = {key: value for key, value in document.items() if key != path[0]}
    if len(path) > 1 and path[0] in document:
        inner = _rest(document[path[0]], path[1:])
        kept |= {path[0]: inner} if inner not in (None, {}) else {}
    return kept


def _with_block(text: str, block: str) -> str:
    """Return the text with a block at its end, after an empty line."""
    if not text.strip():
        return text + block
    newline = "" if text.endswith("\n") else "\n"
    return f"{text}{newline}\n{block}"


def _toml_block(path: Sequence[str], entry: Mapping[str, Any]) -> str:
    lines = [f"[{'.'.join(map(_toml_key, path))}]"]
    lines += [f"{_toml_key(key)} = {_toml_value(value)}" for key, value in entry.items()]
    return "\n".join(lines) + "\n"


def _toml_key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _toml_text(key)


def _toml_text(value: object) -> str:
    """Return a text, number or truth value: TOML's basic strings have the escapes of JSON, and must escape DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_value(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_toml_key(key)} = {_toml_value(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    return _toml_text(value)


def _without_toml(text: str, path: Sequence[str]) -> str:
    """Return the text without the table at a path, the tables in it, and the empty line in front."""
    names = r"[ \t]*\.[ \t]*".join(rf'(?:{re.escape(key)}|"{re.escape(key)}"|\'{re.escape(key)}\')' for key in path)
    header = re.compile(rf"^[ \t]*\[[ \t]*{names}[ \t]*(?:\.[^\]\n]*)?\][^\n]*(?:\n|\Z)", re.MULTILINE)
    while (found := header.search(text)) is not None:
        following = _TOML_HEADER.search(text, found.end())
        end = following.start() if following else len(text)
        start = found.start() - 1 if text[: found.start()].endswith("\n\n") else found.start()
        text = text[:start] + text[end:]
    return text


def _with_yaml(text: str, path: Sequence[str], entry: Mapping[str, Any], *, in_list: bool) -> str:
    """Return the text with an entry at the end of the block that holds it; what is missing on the way is added."""
    root = yaml.compose(text, yaml.SafeLoader) if text.strip() else None
    node, depth = root, 0
    while depth < len(path) - 1 and (inner := _yaml_value(node, path[depth])) is not None and inner.value:
        if inner.flow_style:
            raise DocumentError(f"{'.'.join(path)} cannot be edited here; edit it by hand")
        node, depth = inner, depth + 1
    rest = path[depth:]
    if len(rest) > 1 and depth and _yaml_pair(node, rest[0]):
        raise DocumentError(f"{'.'.join(path)} cannot be edited here; edit it by hand")
    if len(rest) > 1 or not in_list:
        value: object = [dict(entry)] if in_list else {path[-1]: dict(entry)}
        for key in reversed(rest[:-1]):
            value = {key: value}
    else:
        value = [dict(entry)]
    if node is None or not depth:
        # Nothing is in it yet: the key is written again, with the entry.
        return _with_block(_without_yaml_key(text, root, path[0]), _yaml_text(value, 0))
    first = node.value[0] if isinstance(node, yaml.SequenceNode) else node.value[0][0]
    indent = first.start_mark.column - (2 if isinstance(node, yaml.SequenceNode) else 0)
    end = _end_of_lines(text, node)
    newline = "" if text[:end].endswith("\n") else "\n"
    return f"{text[:end]}{newline}{_yaml_text(value, indent)}{text[end:]}"


def _without_yaml(text: str, path: Sequence[str]) -> str:
    node: yaml.Node | None = yaml.compose(text, yaml.SafeLoader)
    for key in path[:-1]:
        node = _yaml_value(node, key)
    if not isinstance(node, yaml.CollectionNode) or node.flow_style:
        raise DocumentError(f"{'.'.join(path)} cannot be edited here; edit it by hand")
    for item in node.value:
        key, value = item if isinstance(item, tuple) else (item, item)
        if (key.value if isinstance(item, tuple) else _name_of(item)) == path[-1]:
            start = text.rfind("\n", 0, key.start_mark.index) + 1
            before, behind = text[:start], text[_end_of_lines(text, value) :]
            # The empty line in front of a last block goes with it.
            return before[:-1] if not behind and before.endswith("\n\n") else before + behind
    return text


def _name_of(item: yaml.Node) -> object:
    pairs = item.value if isinstance(item, yaml.MappingNode) else ()
    return next((value.value for name, value in pairs if name.value == "name"), None)


def _without_yaml_key(text: str, node: yaml.Node | None, key: str) -> str:
    pair = _yaml_pair(node, key)
    if pair is None:
        return text
    start = text.rfind("\n", 0, pair[0].start_mark.index) + 1
    return text[:start] + text[_end_of_lines(text, pair[1]) :]


def _yaml_value(node: yaml.Node | None, key: str) -> yaml.CollectionNode | None:
    """Return the mapping or list of a key, None if there is neither."""
    pair = _yaml_pair(node, key)
    return pair[1] if pair and isinstance(pair[1], yaml.CollectionNode) else None


def _yaml_pair(node: yaml.Node | None, key: str) -> tuple[yaml.Node, yaml.Node] | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    found = [(name, value) for name, value in pairs if name.value == key]
    if len(found) > 1:
        raise DocumentError(f"line {found[1][0].start_mark.line + 1}: {key} is there twice; remove one of the two")
    return found[0] if found else None


def _end_of_lines(text: str, node: yaml.Node) -> int:
    """Return where the last line of a node ends; the marks of a block reach over the comments behind it."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    end = len(text[: node.end_mark.index].rstrip())
    found = text.find("\n", end)
    return len(text) if found < 0 else found + 1


def _yaml_text(value: object, indent: int) -> str:
    # Other line ends than LF, which YAML would fold, are written as escapes.
    is_plain = json.dumps(value, ensure_ascii=False).isprintable()
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=is_plain, default_flow_style=False, width=10_000)
    return "".join(" " * indent + line + "\n" for line in text.rstrip("\n").split("\n"))


_READERS: Final[Mapping[DocumentFormat, Callable[[str], object]]] = {
    DocumentFormat.JSON: jsonc.load,
    DocumentFormat.TOML: tomllib.loads,
    DocumentFormat.YAML: yaml.safe_load,
}

_REMOVERS: Final[Mapping[DocumentFormat, Callable[[str, Sequence[str]], str]]] = {
    DocumentFormat.JSON: jsonc.without_member,
    DocumentFormat.TOML: _without_toml,
    DocumentFormat.YAML: _without_yaml,
}
