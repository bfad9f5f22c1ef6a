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
    try:
        found = _READERS[kind](text) if text.strip() else {}
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
    if kind is DocumentFormat.JSON:
        try:
            changed = jsonc.with_member(text, path, entry)
        except jsonc.JsoncError as error:
            raise DocumentError(str(error)) from None
    elif kind is DocumentFormat.TOML:
        changed = _with_block(without_entry(text, kind, path), _toml_block(path, entry))
    else:
        changed = _with_yaml(without_entry(text, kind, path), path, entry, in_list=in_list)
    _check(before, changed, kind, path, entry)
    return changed


def without_entry(text: str, kind: DocumentFormat, path: Sequence[str]) -> str:
    """Return the text without what is at a path.

    Raises:
        DocumentError: as from `with_entry`.
    """
    before = read_document(text, kind)
    if entry_at(before, path) is None:
        return text
    if kind is DocumentFormat.JSON:
        changed = jsonc.without_member(text, path)
    elif kind is DocumentFormat.TOML:
        changed = _without_toml(text, path)
    else:
        changed = _without_yaml(text, path)
    _check(before, changed, kind, path, None)
    return changed


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
    """Return the text with an entry at the end of the block that the first key names, which is added if missing."""
    holder, name = path[0], path[-1]
    root = yaml.compose(text, yaml.SafeLoader) if text.strip() else None
    value = _yaml_value(root, holder)
    is_list = len(path) == 2 and isinstance(value, yaml.SequenceNode)  # noqa: PLR2004 - the holder and the name
    if value is None or not value.value:
        # Nothing is in it yet: the key is written again, with the entry.
        content = [dict(entry)] if in_list else {name: dict(entry)}
        return _with_block(_without_yaml_key(text, root, holder), _yaml_text({holder: content}, 0))
    if value.flow_style or len(path) != 2:  # noqa: PLR2004 - the holder and the name
        raise DocumentError(f"{'.'.join(path)} cannot be edited here; edit it by hand")
    first = value.value[0] if is_list else value.value[0][0]
    indent = first.start_mark.column - (2 if is_list else 0)
    block = _yaml_text([{"name": name, **entry}] if is_list else {name: dict(entry)}, indent)
    end = _end_of_lines(text, value)
    newline = "" if text[:end].endswith("\n") else "\n"
    return f"{text[:end]}{newline}{block}{text[end:]}"


def _without_yaml(text: str, path: Sequence[str]) -> str:
    root = yaml.compose(text, yaml.SafeLoader)
    value = _yaml_value(root, path[0])
    if value is None or value.flow_style:
        raise DocumentError(f"{'.'.join(path)} cannot be edited here; edit it by hand")
    for item in value.value:
        key, node = item if isinstance(item, tuple) else (item, item)
        if (key.value if isinstance(item, tuple) else _name_of(item)) == path[-1]:
            start = text.rfind("\n", 0, key.start_mark.index) + 1
            return text[:start] + text[_end_of_lines(text, node) :]
    return text


def _name_of(item: yaml.Node) -> object:
    pairs = item.value if isinstance(item, yaml.MappingNode) else ()
    return next((value.value for name, value in pairs if name.value == "name"), None)


def _without_yaml_key(text: str, root: yaml.Node | None, key: str) -> str:
    if not isinstance(root, yaml.MappingNode):
        return text
    for name, value in root.value:
        if name.value == key:
            start = text.rfind("\n", 0, name.start_mark.index) + 1
            return text[:start] + text[_end_of_lines(text, value) :]
    return text


def _yaml_value(root: yaml.Node | None, key: str) -> yaml.CollectionNode | None:
    """Return the mapping or list of a key at the top, None if there is neither."""
    pairs = root.value if isinstance(root, yaml.MappingNode) else ()
    found = next((value for name, value in pairs if name.value == key), None)
    return found if isinstance(found, yaml.CollectionNode) else None


def _end_of_lines(text: str, node: yaml.Node) -> int:
    """Return where the last line of a node ends; the marks of a block reach over the comments behind it."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    end = len(text[: node.end_mark.index].rstrip())
    found = text.find("\n", end)
    return len(text) if found < 0 else found + 1


def _yaml_text(value: object, indent: int) -> str:
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, default_flow_style=False, width=10_000)
    return "".join(" " * indent + line for line in text.splitlines(keepends=True))


_READERS: Final[Mapping[DocumentFormat, Callable[[str], object]]] = {
    DocumentFormat.JSON: jsonc.load,
    DocumentFormat.TOML: tomllib.loads,
    DocumentFormat.YAML: yaml.safe_load,
}
