"""Parse what another server says of a skill, and compare the skill's files with it.

The rules are those of the Skills extension (SEP-2640). JSON values in, an `Entry` or all of its faults out; then entry
and bytes in, diagnostics out, each with its URI. The input is untrusted, and every step is bounded by its size.

A match means that a server's listing and files agree, not that either is trustworthy: both come from the same server.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from skills_core.diagnostics import Diagnostic, Reason, Severity, one_line
from skills_core.disk.folders import MAIN_FILE
from skills_core.errors import EntryRefusedError
from skills_core.format.document import parse_document
from skills_core.format.frontmatter import DESCRIPTION_LIMIT, NAME_LIMIT, name_fault
from skills_core.format.yaml12 import MAX_DEPTH
from skills_core.loading.loader import MAX_PUBLISHED_FILES, MAX_PUBLISHED_SIZE

if TYPE_CHECKING:
    from skills_core.format.yaml12 import JsonValue

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/?/?/?")
# The authority is the first segment of the skill path and has no meaning; it may be empty or absent.

_NO_URI = re.compile(r"[\x00-\x20\x7f?#]")
# Characters that must be encoded in a URI, and those that begin a query or a fragment.

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

_MAX_URI = 8192
# Maximum characters of a URI; it is also sent in an HTTP header, and servers limit those.

_MAX_SIZE = 2**53
# The largest integer that JSON represents safely.

_MAX_FAULTS = 50
# Maximum number of reported faults of one entry.

_SHOWN = 200
# Maximum characters of foreign text in a message.


@dataclass(frozen=True, slots=True)
class EntryFile:
    """One file of an entry; `path` is decoded, relative to the skill's directory, and always inside it."""

    uri: str
    path: str
    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A skill as another server describes it; it follows every rule that can be checked without its files.

    `path` is the decoded skill path, which ends in the name. `files` are in the order of the entry.
    """

    uri: str
    path: str
    name: str
    description: str
    frontmatter: Mapping[str, JsonValue]
    files: tuple[EntryFile, ...]

    @property
    def root(self) -> str:
        """The URI of the skill's directory, without a trailing `/`."""
        return self.uri.removesuffix(f"/{MAIN_FILE}")

    @property
    def main(self) -> EntryFile:
        """The SKILL.md."""
        return next(file for file in self.files if file.uri == self.uri)

    @property
    def size(self) -> int:
        """The total size of all files in bytes."""
        return sum(file.size for file in self.files)

    @property
    def manifest(self) -> frozenset[tuple[str, str]]:
        """The URI and digest of every file, which an approval is bound to."""
        return frozenset((file.uri, file.digest) for file in self.files)


@dataclass(slots=True)
class _Faults:
    path: str
    found: list[Diagnostic] = field(default_factory=list)

    def add(self, code: Reason, message: str, path: str | None = None) -> None:
        if len(self.found) < _MAX_FAULTS:
            self.found.append(Diagnostic(Severity.ERROR, code, message, path or self.path))
        elif len(self.found) == _MAX_FAULTS:
            self.found.append(Diagnostic(Severity.ERROR, code, "there are more faults", self.path))


def parse_entry(value: object) -> Entry:
    """Parse a JSON value as an entry.

    Raises:
        EntryRefusedError: the entry has faults; the error holds all of them.
    """
    if not isinstance(value, dict):
        fault = Diagnostic(Severity.ERROR, Reason.INVALID_ENTRY, "an entry must be an object", "-")
        raise EntryRefusedError("", "", (fault,))
    uri, front = value.get("uri"), value.get("frontmatter")
    faults = _Faults(shown(uri) if isinstance(uri, str) else "-")
    path = _skill_path(uri, faults)
    _check_frontmatter(front, faults)
    if isinstance(front, dict):
        _check_name(front.get("name"), path, faults)
    files = _files(value.get("resources"), None if path is None else uri, faults)
    if isinstance(uri, str) and isinstance(front, dict) and path is not None and not faults.found:
        return Entry(uri, path, front["name"], front["description"], front, files)
    raise EntryRefusedError(
        uri if isinstance(uri, str) else "",
        name if isinstance(front, dict) and isinstance(name := front.get("name"), str) else "",
        tuple(faults.found),
    )


def shown(text: str) -> str:
    """Return foreign text for a message: on one line, safe for a terminal, and shortened."""
    return one_line(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def path_below(root: str, uri: str) -> str | None:
    """Return the decoded path of `uri` below the directory `root`; None if it is not below it.

    The prefix is compared literally. No segment after it may be empty, `.` or `..`, nor decode to a separator, a
    backslash or NUL.
    """
    if not uri.startswith(f"{root}/") or len(uri) > _MAX_URI or _NO_URI.search(uri):
        return None
    return _decode(uri[len(root) + 1 :])


def _decode(path: str) -> str | None:
    try:
        segments = [unquote_to_bytes(segment).decode("utf-8", "surrogateescape") for segment in path.split("/")]
    except UnicodeEncodeError:  # half a character, which JSON can spell
        return None
    return None if any(map(_is_unusable, segments)) else "/".join(segments)


def _is_unusable(segment: str) -> bool:
    return segment in {"", ".", ".."} or any(char in segment for char in "/\\\0")


def _skill_path(uri: object, faults: _Faults) -> str | None:
    if not isinstance(uri, str):
        faults.add(Reason.INVALID_ENTRY, "uri must be a string: the URI of the SKILL.md")
        return None
    scheme = _SCHEME.match(uri)
    if scheme is None or len(uri) > _MAX_URI or _NO_URI.search(uri):
        faults.add(Reason.INVALID_URI, f"expected a URI of at most {_MAX_URI} characters, without query and fragment")
        return None
    path = _decode(uri[scheme.end() :])
    folder, _, name = (path or "").rpartition("/")
    if path is None or not folder or name != MAIN_FILE or not uri.endswith(f"/{MAIN_FILE}"):
        message = "the URI must be that of a SKILL.md in a folder, without empty, '.' or '..' segments"
        faults.add(Reason.INVALID_URI, message)
        return None
    return folder


def _check_frontmatter(front: object, faults: _Faults) -> None:
    if not isinstance(front, dict):
        faults.add(Reason.INVALID_ENTRY, "frontmatter must be an object")
    elif _is_too_deep(front):
        faults.add(Reason.INVALID_ENTRY, f"frontmatter nests deeper than {MAX_DEPTH} levels")
    elif not isinstance(front.get("description"), str) or not front["description"].strip():
        faults.add(
            Reason.MISSING_DESCRIPTION, "frontmatter.description must be a string that says when to use the skill"
        )


def _is_too_deep(value: object) -> bool:
    """Tell whether collections nest deeper than hosts accept; iterative, because the input could exhaust the stack."""
    level, depth = [value], 0
    while level and depth <= MAX_DEPTH + 1:
        below = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)]
        level, depth = [item for items in below for item in items], depth + 1
    return bool(level)


def _check_name(name: object, path: str | None, faults: _Faults) -> None:
    if not isinstance(name, str) or not name:
        faults.add(Reason.MISSING_NAME, "frontmatter.name must be a string")
        return
    if len(name) > NAME_LIMIT:
        faults.add(Reason.NAME_TOO_LONG, f"the name has {len(name)} characters; the limit is {NAME_LIMIT}")
        return
    fault = name_fault(name)
    if fault is not None:
        faults.add(Reason.INVALID_NAME, f"the name '{shown(name)}' {fault}")
    if path is not None and path.rpartition("/")[2] != name:
        last = shown(path.rpartition("/")[2])
        faults.add(Reason.NAME_MISMATCH, f"the last segment of the skill path is '{last}', the name '{shown(name)}'")


def _files(resources: object, main: str | None, faults: _Faults) -> tuple[EntryFile, ...]:
    """Parse `resources`; `main` is the URI of the SKILL.md, None if it is invalid, so that files cannot be checked."""
    if resources == "dynamic":
        message = "the server generates this skill's files and publishes no digests, so nothing can be verified"
        faults.add(Reason.DYNAMIC_SKILL, message)
    elif not isinstance(resources, list):
        faults.add(Reason.INVALID_ENTRY, "resources must be an array with every file of the skill")
    elif len(resources) > MAX_PUBLISHED_FILES:
        message = f"the skill has {len(resources)} files; the limit is {MAX_PUBLISHED_FILES}"
        faults.add(Reason.TOO_MANY_FILES, message)
    elif main is not None:
        parsed = [_file(resource, main.removesuffix(f"/{MAIN_FILE}"), faults) for resource in resources]
        files = tuple(file for file in parsed if file is not None)
        _check_files(files, main, faults)
        return files
    return ()


def _check_files(files: tuple[EntryFile, ...], main: str, faults: _Faults) -> None:
    seen: set[str] = set()
    for file in files:
        if file.path in seen:
            faults.add(Reason.DUPLICATE_FILE, "the entry lists this file more than once", shown(file.uri))
        seen.add(file.path)
    if all(file.uri != main for file in files):
        faults.add(Reason.MISSING_SKILL_FILE, "the entry does not list its own SKILL.md among the files")
    size = sum(file.size for file in files)
    if size > MAX_PUBLISHED_SIZE:
        faults.add(Reason.TOO_LARGE, f"the skill's files have {size} bytes; the limit is {MAX_PUBLISHED_SIZE}")


def _file(resource: object, root: str, faults: _Faults) -> EntryFile | None:
    if not isinstance(resource, dict) or not isinstance(uri := resource.get("uri"), str):
        faults.add(Reason.INVALID_ENTRY, "each of resources must be an object with uri, digest and size")
        return None
    digest, size, path = resource.get("digest"), _size(resource.get("size")), path_below(root, uri)
    if path is None:
        faults.add(Reason.OUTSIDE_SKILL, "the URI does not name a file within the skill's directory", shown(uri))
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        message = "digest must be 'sha256:' and 64 hexadecimal digits in lower case"
        faults.add(Reason.INVALID_ENTRY, message, shown(uri))
        return None
    if size is None:
        faults.add(Reason.INVALID_ENTRY, "size must be the file's length in bytes", shown(uri))
        return None
    return None if path is None else EntryFile(uri, path, digest, size)


def _size(value: object) -> int | None:
    """Return a length in bytes, None for any other value; JSON has one number type, so 5.0 is 5."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MAX_SIZE:
        return None
    return int(value) if value == int(value) else None


_MAX_FIELDS = 20
# Maximum number of differing fields that are reported one by one.

_MAX_VALUE = 60
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
    return f"'{shown(key)}': {text if len(text) <= _MAX_VALUE else f'{text[:_MAX_VALUE]}…'}"


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
