"""Compare a skill's files with the entry that announced them, as the Skills extension (SEP-2640) asks of hosts.

A match says that a server's listing and its files agree, never that either can be trusted: both come from the same
server. Pure: entry and bytes in, diagnostics out, each with the URI it is about.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from skills_core.diagnostics import Diagnostic, Reason, Severity
from skills_core.format.document import parse_document
from skills_core.format.frontmatter import DESCRIPTION_LIMIT
from skills_core.remote.entries import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from skills_core.format.yaml12 import JsonValue
    from skills_core.remote.entries import Entry, EntryFile

__all__ = ["entry_notes", "equal_as_json", "incomplete_entries", "verify_file", "verify_frontmatter"]

_MAX_FIELDS = 20
# Fields that differ and are told of one by one.

_SHOWN = 60
# Characters of a value that a message repeats.


def verify_file(file: EntryFile, raw: bytes) -> Diagnostic | None:
    """Say how the bytes of a file differ from its entry, or None where size and digest are those announced."""
    where = shown(file.uri)
    if len(raw) != file.size:
        message = f"the file has {len(raw)} bytes, the entry announces {file.size}"
        return Diagnostic(Severity.ERROR, Reason.SIZE_MISMATCH, message, where)
    digest = "sha256:" + hashlib.sha256(raw).hexdigest()
    if digest != file.digest:
        message = f"the file's digest is {digest}, the entry announces {file.digest}"
        return Diagnostic(Severity.ERROR, Reason.DIGEST_MISMATCH, message, where)
    return None


def verify_frontmatter(entry: Entry, raw: bytes) -> tuple[Diagnostic, ...]:
    """Say where the frontmatter of a SKILL.md, given by its bytes, differs from the entry's.

    What only loads after a repair, or says a thing twice, is refused: other parsers would read something else.
    """
    where = shown(entry.uri)
    document = parse_document(raw, where)
    if document.fault is not None or not document.verbatim:
        message = "other hosts cannot read this frontmatter, or read it differently, so it cannot be verified"
        found = [d for d in document.diagnostics if d.severity is not Severity.INFO]
        return (*found, Diagnostic(Severity.ERROR, Reason.FRONTMATTER_MISMATCH, message, where))
    differing = [
        key
        for key in sorted(entry.frontmatter.keys() | document.fields.keys())
        if key not in entry.frontmatter
        or key not in document.fields
        or not equal_as_json(entry.frontmatter[key], document.fields[key])
    ]
    messages = [
        f"the entry's frontmatter has {_field(entry.frontmatter, key)}, the SKILL.md {_field(document.fields, key)}"
        for key in differing[:_MAX_FIELDS]
    ]
    if len(differing) > _MAX_FIELDS:
        messages.append(f"{len(differing) - _MAX_FIELDS} more fields differ")
    return tuple(Diagnostic(Severity.ERROR, Reason.FRONTMATTER_MISMATCH, message, where) for message in messages)


def _field(fields: Mapping[str, JsonValue], key: str) -> str:
    if key not in fields:
        return f"no field '{shown(key)}'"
    try:
        text = json.dumps(fields[key])
    except ValueError:  # Python spells out no integer of thousands of digits
        text = "a number"
    return f"'{shown(key)}': {text if len(text) <= _SHOWN else f'{text[:_SHOWN]}…'}"


def equal_as_json(one: object, other: object) -> bool:
    """Tell whether two JSON values are the same: a truth value is no number, and 1.0 is 1.

    Numbers are compared as doubles, which is all that they are to most of the hosts and servers there are. Values
    must not nest deeper than an entry's frontmatter may.
    """
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        try:
            return float(one) == float(other)
        except OverflowError:
            return one == other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal_as_json(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal_as_json, one, other))
    return type(one) is type(other) and one == other


def entry_notes(entry: Entry) -> tuple[Diagnostic, ...]:
    """Return what is worth telling about an entry that keeps the rules every host insists on."""
    length = len(entry.description)
    if length <= DESCRIPTION_LIMIT:
        return ()
    message = f"the description has {length} characters, and hosts may refuse more than {DESCRIPTION_LIMIT}"
    return (Diagnostic(Severity.WARNING, Reason.DESCRIPTION_TOO_LONG, message, shown(entry.uri)),)


def incomplete_entries(entries: Iterable[Entry]) -> dict[str, Diagnostic]:
    """Return a fault for each entry, by its URI, that leaves out a file of a skill nested within it.

    The files of a nested skill are supporting files of the enclosing one, and an entry must list every file.
    """
    found: dict[str, Diagnostic] = {}
    enclosing: list[Entry] = []
    # Sorted so, whatever lies below a directory follows it directly.
    for entry in sorted(entries, key=lambda entry: f"{entry.root}/"):
        while enclosing and not entry.root.startswith(f"{enclosing[-1].root}/"):
            enclosing.pop()
        if enclosing and not entry.manifest <= enclosing[-1].manifest:
            uri = enclosing[-1].uri
            message = f"the entry leaves out a file of the skill nested within it, {shown(entry.uri)}"
            found.setdefault(uri, Diagnostic(Severity.ERROR, Reason.INCOMPLETE_ENTRY, message, shown(uri)))
        enclosing.append(entry)
    return found
