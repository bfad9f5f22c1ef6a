"""Trigger queries: what users say, whether a skill should be activated by it, and where their files are.

The file is a JSON list of objects with `query` and `should_trigger`, as the guides of the format have it, or that list
in an object. The other shape has a list for each kind, as waza's `should_trigger_prompts` and
`should_not_trigger_prompts`, also in YAML. The tables below have the names under which lists and fields are found.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

from skills_core.diagnostics import one_line
from skills_core.disk.files import Location, open_new, read_bounded, read_file
from skills_core.disk.folders import EVALS
from skills_core.disk.writing import json_bytes
from skills_core.errors import Fault, FileRefusedError, SkillsError, did_you_mean, similar_to, system_message
from skills_core.format.yaml12 import YamlError, YamlNoteKind, load_mapping

_STEMS: Final = (
    "trigger_queries",
    "trigger_evals",
    "trigger_eval",
    "trigger_cases",
    "trigger_tests",
    "trigger_eval_set",
)

QUERY_FILES: Final = (
    "evals/eval_queries.json",
    *(f"evals/{each}.json" for stem in _STEMS for each in (stem, stem.replace("_", "-"))),
    "evals/triggers.json",
    "evals/trigger.json",
    "eval_queries.json",
)
"""Where the queries of a skill are looked for in its folder, in this order; new ones are written to the first."""

PART_FILES: Final[Mapping[str, str]] = {
    "train": "evals/train_queries.json",
    "validation": "evals/validation_queries.json",
}
"""The two files of queries that are split already, by the part that they hold; both or neither are there."""

MAX_FILE: Final = 1_000_000
"""Maximum size of a file of queries in bytes."""

_MAX_NAMED: Final = 10
MAX_QUERIES: Final = 1000
MAX_TEXT: Final = 10_000
"""Maximum number of queries in a file, and of characters in one."""

_SHOULD: Final = "should_trigger_prompts"
_SHOULD_NOT: Final = "should_not_trigger_prompts"
_LISTS: Final[Mapping[bool | None, tuple[str, ...]]] = {
    None: ("queries", "items", "cases", "evals", "tests", "test_cases", "prompts", "triggers"),
    True: ("should_trigger", _SHOULD, "should_activate", "positive", "positives"),
    False: (
        *("should_not_trigger", _SHOULD_NOT, "should_not_activate", "negative", "negatives"),
        *("near_miss", "near_misses"),
    ),
}
"""The names of the lists in an object by whether their queries should trigger; None if each query says so."""

_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "query": ("query", "prompt", "input", "text", "user_prompt", "utterance"),
    "should_trigger": (
        *("should_trigger", "expected_trigger", "expect_trigger", "should_activate", "expected_match", "expected"),
        *("kind", "label"),
    ),
    "id": ("id",),
    "split": ("split",),
    "expected_skill": ("expected_skill", "expect_skill", "preferred_skill"),
}
"""The names of the fields of a query; the first that an entry has counts."""

_REMARKS: Final = frozenset(
    {"category", "comment", "description", "name", "note", "notes", "rationale", "reason", "tags", "title", "why"}
)
"""Fields of a query that say nothing about how it is tested."""

_ABOUT: Final = frozenset({"$schema", "description", "name", "notes", "skill", "skill_name", "title", "version"})
"""Fields of the file that say nothing about that either."""

_LABELS: Final[Mapping[object, bool]] = {
    **dict.fromkeys(("trigger", "should_trigger", "positive"), True),
    **dict.fromkeys(("no_trigger", "not_trigger", "should_not_trigger", "do_not_trigger", "negative"), False),
}
"""The words for `should_trigger` in fields of other names."""

_EXAMPLE: Final = '[{"query": "What a user would say", "should_trigger": true}, …]'


class QueryFileError(SkillsError):
    """A file of trigger queries cannot be used; `place` is the value concerned, as in `[2].query`, or empty."""

    def __init__(self, where: str, place: str, message: str) -> None:
        shown = f"{one_line(where)}: {place}" if place else one_line(where)
        super().__init__(f"{shown}: {message}")
        self.where = where
        self.place = place


@dataclass(frozen=True, slots=True)
class Query:
    """What a user says, and whether the skill should be activated by it.

    `id` identifies the query, by default by its number from 1. `split` names the part of the set that it belongs to.
    `expected_skill` is the skill that the query needs instead, if it should not trigger.
    """

    text: str
    should_trigger: bool
    id: str
    split: str | None = None
    expected_skill: str | None = None


Tell: TypeAlias = Callable[[str], None]
"""Takes a line for people, such as which fields of a file are not read."""


def _silent(_: str) -> None:
    """Tell no one."""


def read_queries(raw: bytes, where: str, tell: Tell = _silent) -> tuple[Query, ...]:
    """Read the file `where`, whose suffix tells JSON from YAML, with the bytes `raw`; `tell` what is not read of it.

    Raises:
        QueryFileError: the file has another form, a value is missing or has another type, or two queries are equal.
    """
    if len(raw) > MAX_FILE:
        _refuse(where, "", f"the file has {len(raw):,} bytes; at most {MAX_FILE:,} are read")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        _refuse(where, "", f"byte {error.start:,} is not UTF-8; save the file as UTF-8")
    value = _parse_yaml(text, where) if where.lower().endswith((".yaml", ".yml")) else _parse_json(text, where)
    queries = tuple(_queries(value, where))
    _check_set(queries, where)
    for line in _unread(value):
        tell(f"{one_line(where)}: {line}")
    return queries


def _unread(value: object) -> Iterator[str]:
    """Yield which fields of the file and of its queries are not read."""
    known = {name for names in _LISTS.values() for name in names}
    top: Mapping[str, Any] = value if isinstance(value, Mapping) else {"queries": value}
    entries = [each for name in known for each in top.get(name) or () if isinstance(each, Mapping)]
    of_file = Counter(key for key in top if key not in known | _ABOUT)
    of_queries = Counter(key for entry in entries for key in entry if key not in _REMARKS | _read_fields(entry))
    for what, names in (("not read in the file", of_file), ("fields of queries that are not read", of_queries)):
        shown = [f"{one_line(name)[:40]} ({number})" for name, number in names.most_common() if name[:1] != "_"]
        if shown:
            yield f"{what}: {', '.join(shown[:_MAX_NAMED])}{' and others' if len(shown) > _MAX_NAMED else ''}"


def _read_fields(entry: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(next((name for name in names if name in entry), "") for names in _FIELDS.values())


def joined_parts(parts: Mapping[str, Sequence[Query]], where: str) -> tuple[Query, ...]:
    """Return the queries of several files as one set, each with the name of its part as `split` and in its ID.

    Raises:
        QueryFileError: two queries are equal.
    """
    queries = tuple(
        replace(query, id=f"{part}-{query.id}", split=part) for part, found in parts.items() for query in found
    )
    _check_set(queries, where)
    return queries


def _queries(value: object, where: str) -> Iterator[Query]:
    """Yield the queries of a list, or of all lists of an object, those that should trigger first."""
    if isinstance(value, Mapping):
        lists = [(name, kind) for kind, names in _LISTS.items() for name in names if name in value]
        if not lists:
            _refuse(where, "", f"expected a list, as in {_EXAMPLE}, not an object with {_names(value)}")
        taken: set[str] = set()
        for name, kind in lists:
            listed = [] if value[name] is None else value[name]
            found = list(_listed(listed, where, name, len(taken), kind=kind))
            # The lists may be numbered on their own.
            if any(query.id in taken for query in found):
                found = [replace(query, id=f"{name}-{query.id}") for query in found]
            taken.update(query.id for query in found)
            yield from found
    else:
        yield from _listed(value, where, "", 0, kind=None)


def _listed(value: object, where: str, name: str, before: int, *, kind: bool | None) -> Iterator[Query]:
    """Yield the queries of one list; `before` is the number of those in earlier lists."""
    if not isinstance(value, list):
        _refuse(where, name, f"expected a list, as in {_EXAMPLE}, not {_shown(value)}")
    _check_count(value, where, name)
    for number, entry in enumerate(value):
        # A text is an entry where the list says of which kind it is.
        full = {"query": entry} if kind is not None and isinstance(entry, str) else entry
        yield _query(full, where, f"{name}[{number}]", before + number + 1, kind=kind)


def _query(entry: object, where: str, place: str, number: int, *, kind: bool | None) -> Query:
    if not isinstance(entry, Mapping):
        _refuse(where, place, f"expected an object with query and should_trigger, not {_shown(entry)}")
    named = {field: next((name for name in names if name in entry), field) for field, names in _FIELDS.items()}
    values = {field: entry.get(name) for field, name in named.items()}
    if kind is not None and named["should_trigger"] not in entry:
        values["should_trigger"] = kind
    for field in ("query", "should_trigger"):
        if named[field] not in entry and values[field] is None:
            known = {*named.values(), *_FIELDS}
            similar = did_you_mean(similar_to(field, (key for key in entry if key not in known)), "; did")
            _refuse(where, place, f"{field} is missing{similar}")
    should = values["should_trigger"]
    if isinstance(should, str) and named["should_trigger"] != "should_trigger":
        should = _LABELS.get(should.casefold().replace("-", "_").replace(" ", "_"), should)
    if not isinstance(should, bool):
        _refuse(where, f"{place}.{named['should_trigger']}", f"expected true or false, not {_shown(should)}")
    if kind is not None and should is not kind:
        _refuse(where, f"{place}.{named['should_trigger']}", "the list has queries of the other kind; move this one")
    return Query(
        _text(values["query"], where, f"{place}.{named['query']}"),
        should,
        _identifier(values["id"], where, f"{place}.id") or str(number),
        _name(values["split"], where, f"{place}.split"),
        _name(values["expected_skill"], where, f"{place}.{named['expected_skill']}"),
    )


def _check_count(listed: Sequence[object], where: str, place: str) -> None:
    if len(listed) > MAX_QUERIES:
        _refuse(where, place, f"there are {len(listed):,} queries; at most {MAX_QUERIES:,} are read")


def _check_set(queries: Sequence[Query], where: str) -> None:
    """Refuse an empty set, and queries or IDs that occur twice: each query counts once."""
    if not queries:
        _refuse(where, "", f"there are no queries; expected a list, as in {_EXAMPLE}")
    seen: dict[str, Query] = {}
    ids: set[str] = set()
    for query in queries:
        text = " ".join(query.text.split()).casefold()
        if other := seen.get(text):
            how = "" if other.should_trigger == query.should_trigger else ", with another should_trigger"
            _refuse(where, f"query {query.id}", f"this is query {other.id} again{how}; remove one of them")
        if query.id in ids:
            _refuse(where, f"query {query.id}", "two queries have this id; give each its own")
        seen[text] = query
        ids.add(query.id)


def _text(value: object, where: str, place: str) -> str:
    if not isinstance(value, str) or not value.strip():
        _refuse(where, place, f"expected what a user would say, not {_shown(value)}")
    if len(value) > MAX_TEXT:
        _refuse(where, place, f"the text has {len(value):,} characters; at most {MAX_TEXT:,} are read")
    if (found := re.search("[\ud800-\udfff]", value)) is not None:
        _refuse(where, place, f"character {found.start() + 1:,} is a lone surrogate; remove it")
    return value


def _identifier(value: object, where: str, place: str) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return _name(value, where, place)


def _name(value: object, where: str, place: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_TEXT:
        _refuse(where, place, f"expected a name, not {_shown(value)}")
    return value


def _parse_json(text: str, where: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        _refuse(where, f"line {error.lineno}, column {error.colno}", f"this is not JSON: {error.msg}")
    except RecursionError:
        _refuse(where, "", f"the values are nested too deep; expected {_EXAMPLE}")
    except ValueError as error:  # a repeated key, NaN, or a number with too many digits
        _refuse(where, "", f"this is not JSON that all programs read alike: {error}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"an object has the key {twice[:100]!r} twice")
    return value


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number in JSON")


def _parse_yaml(text: str, where: str) -> Mapping[str, Any]:
    try:
        mapping = load_mapping(text)
    except YamlError as error:
        _refuse(where, "", f"this is not YAML with {_SHOULD} and {_SHOULD_NOT}: {error}")
    for note in mapping.notes:
        if note.kind is YamlNoteKind.DUPLICATE_KEY:
            _refuse(where, f"line {note.line}", f"{note.message}; remove one of them")
    return mapping.value


def _names(value: Mapping[str, Any]) -> str:
    return ", ".join(repr(key[:40]) for key in list(value)[:5]) or "no keys"


def _shown(value: object) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return repr(value[:60]) if value.strip() else "an empty text"
    if isinstance(value, (int, float)):
        return f"the number {value!r:.40}"
    return "a list" if isinstance(value, list) else "an object"


def _refuse(where: str, place: str, message: str) -> NoReturn:
    raise QueryFileError(where, place, message)


def queries_of_skill(folder: Path, tell: Tell = _silent) -> tuple[str, tuple[Query, ...]] | None:
    """Return the queries of the skill in `folder` with the path of their file there; None if it has no such file.

    Queries in two files, for training and for validation, are one set, whose path is that of both.

    Raises:
        QueryFileError: a file cannot be read, is not a file of queries, or only one of two files is there.
    """
    for name in QUERY_FILES:
        if (queries := _read_file(folder, name, tell)) is not None:
            return name, queries
    found = {part: _read_file(folder, name, tell) for part, name in PART_FILES.items()}
    parts = {part: queries for part, queries in found.items() if queries is not None}
    if not parts:
        return None
    if missing := [name for part, name in PART_FILES.items() if part not in parts]:
        message = "is missing beside the other part; write it, or put all queries into evals/eval_queries.json"
        raise QueryFileError(str(folder / missing[0]), "", message)
    where = " and ".join(PART_FILES.values())
    return where, joined_parts(parts, f"{folder}: {where}")


def chosen_queries(folder: Path, file: Path | None, tell: Tell = _silent) -> tuple[str, tuple[Query, ...]]:
    """Return the queries in the file that the user named, or else those of the skill in `folder`, with their path.

    Raises:
        QueryFileError: there are none, or they cannot be read.
    """
    if file is not None:
        return str(file), queries_in(file, tell)
    found = queries_of_skill(folder, tell)
    if found is None:
        message = f"there are no queries; expected {QUERY_FILES[0]}, or a file named with --queries"
        raise QueryFileError(str(folder), "", message)
    return found


def _read_file(folder: Path, name: str, tell: Tell) -> tuple[Query, ...] | None:
    try:
        raw, _ = read_file(Location(folder, name), MAX_FILE)
    except FileRefusedError as error:
        if error.fault is Fault.ABSENT:
            return None
        raise QueryFileError(str(folder / name), "", error.message) from error
    return read_queries(raw, str(folder / name), tell)


def queries_in(file: Path, tell: Tell = _silent) -> tuple[Query, ...]:
    """Return the queries in a file that the user named.

    Raises:
        QueryFileError: there is no such file, it cannot be read, or it is not a file of queries.
    """
    try:
        raw = read_bounded(file, MAX_FILE)
    except FileRefusedError as error:
        raise QueryFileError(str(file), "", error.message) from error
    if raw is None:
        raise QueryFileError(str(file), "", "there is no such file")
    return read_queries(raw, str(file), tell)


class QueriesExistError(SkillsError):
    """The queries cannot be written: the skill has some, or its folder cannot be written to."""


def require_no_queries(folder: Path) -> None:
    """Refuse to draft queries for a skill that has some.

    Raises:
        QueriesExistError: it has a file of queries, or a link in the place of the folder for one.
    """
    names = (*QUERY_FILES, *PART_FILES.values())
    if name := next((each for each in names if os.path.lexists(folder / each)), None):
        raise QueriesExistError(
            f"{folder / name}: the skill has queries, which are not replaced; edit or move the file"
        )
    if (folder / EVALS).is_symlink():
        raise QueriesExistError(f"{folder / EVALS}: this is a link, which is not followed; use a folder")


def drafts_document(queries: Iterable[Query]) -> list[dict[str, Any]]:
    """Return the queries as the file has them."""
    return [
        {
            "query": query.text,
            "should_trigger": query.should_trigger,
            **({"expected_skill": query.expected_skill} if query.expected_skill and not query.should_trigger else {}),
        }
        for query in queries
    ]


def write_drafts(folder: Path, queries: Iterable[Query]) -> Path:
    """Write the queries to a new file of the skill in `folder`, and return its path.

    Raises:
        QueriesExistError: there is such a file, or it cannot be created.
    """
    require_no_queries(folder)
    file = folder / QUERY_FILES[0]
    try:
        (folder / EVALS).mkdir(exist_ok=True)
        # Exclusive creation follows no link and replaces nothing.
        handle = open_new(file, 0o666)
        with os.fdopen(handle, "wb") as stream:
            stream.write(json_bytes(drafts_document(queries)))
    except OSError as error:
        raise QueriesExistError(f"{file}: the queries cannot be written: {system_message(error)}") from error
    return file
