"""Compare a skill's files with the entry that announced them, as the Skills extension (SEP-2640) requires of hosts.

A match means that a server's listing and files agree, not that either is trustworthy: both come from the same server.
Pure: entry and bytes in, diagnostics out, each with its URI.
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

__all__ = ["entry_warnings", "equal_as_json", "incomplete_entries", "verify_file", "verify_frontmatter"]

_MAX_FIELDS = 20
# Maximum number of differing fields that are reported one by one.

_SHOWN = 60
# Maximum characters of a value in a message.


def verify_file(file: EntryFile, raw: bytes) -> Diagnostic | None:
    """Return how the bytes of a file differ from its entry; None if size and digest match."""
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
    """Return where the frontmatter of a SKILL.md, given by its bytes, differs from the entry's.

    Frontmatter that needs a repair or has duplicate keys is refused, because other parsers may read it differently.
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
    except ValueError:  # Python refuses to print integers of thousands of digits
        text = "a number"
    return f"'{shown(key)}': {text if len(text) <= _SHOWN else f'{text[:_SHOWN]}…'}"


def equal_as_json(one: object, other: object) -> bool:
    """Tell whether two JSON values are equal; booleans are not numbers, and 1.0 equals 1.

    Numbers are compared as doubles, as most hosts and servers represent them. Values must not nest deeper than an
    entry's frontmatter may.
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


def entry_warnings(entry: Entry) -> tuple[Diagnostic, ...]:
    """Return warnings about a valid entry that some hosts may refuse."""
    length = len(entry.description)
    if length <= DESCRIPTION_LIMIT:
        return ()
    message = f"the description has {length} characters, and hosts may refuse more than {DESCRIPTION_LIMIT}"
    return (Diagnostic(Severity.WARNING, Reason.DESCRIPTION_TOO_LONG, message, shown(entry.uri)),)


def incomplete_entries(entries: Iterable[Entry]) -> dict[str, Diagnostic]:
    """Return a fault by URI for each entry that omits a file of a skill nested in it.

    The files of a nested skill are also files of the enclosing one, and an entry must list every file.
    """
    found: dict[str, Diagnostic] = {}
    enclosing: list[Entry] = []
    # In this order, everything below a directory directly follows it.
    for entry in sorted(entries, key=lambda entry: f"{entry.root}/"):
        while enclosing and not entry.root.startswith(f"{enclosing[-1].root}/"):
            enclosing.pop()
        if enclosing and not entry.manifest <= enclosing[-1].manifest:
            uri = enclosing[-1].uri
            message = f"the entry omits a file of the skill nested in it, {shown(entry.uri)}"
            found.setdefault(uri, Diagnostic(Severity.ERROR, Reason.INCOMPLETE_ENTRY, message, shown(uri)))
        enclosing.append(entry)
    return found
