"""Read the files of another tool: bounded, and only below the folder that the user named."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from skills_core.disk.files import Location, Reader
from skills_core.disk.folders import list_folder
from skills_core.errors import FileRefusedError, SkillsError
from skills_core.evals.importing.found import MAX_BYTES, MAX_FILES, Found
from skills_core.format.yaml12 import YamlError, load_mapping

_MAX_FILE: Final = 4 * 1024 * 1024
_MAX_LISTED: Final = 5000
_MAX_DEPTH: Final = 8

_ENTRIES: Final = "entries"
"""The key under which the list of a file without a mapping is found."""

_LIST: Final = re.compile(r"(?:[^\S\n]*(?:#.*)?\n)*(?:---[ \t]*(?:#.*)?\n(?:[^\S\n]*(?:#.*)?\n)*)?(?=-[ \n])")
# Blank ends of lines take no line ends, so each line is read in one way.


class ForeignFileError(SkillsError):
    """A file of another tool cannot be read; the message names it."""


class Sources:
    """The files below a folder. Paths are relative to it, with slashes."""

    def __init__(self, root: Path, reader: Reader) -> None:
        self.root = root
        self._reader = reader
        self._left_files = MAX_FILES
        self._left_bytes = MAX_BYTES

    def read(self, path: str) -> bytes:
        """Return the bytes of a file.

        Raises:
            ForeignFileError: there is none, it is a link or too large, or it lies elsewhere.
        """
        if not is_inside(path):
            raise ForeignFileError(f"{path}: lies outside of {self.root}")
        try:
            return self._reader.read(Location(self.root, path), _MAX_FILE)[0]
        except FileRefusedError as error:
            raise ForeignFileError(f"{path}: {error.message}") from None

    def text(self, path: str) -> str:
        """Return the text of a file; see `read`."""
        try:
            return self.read(path).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ForeignFileError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from None

    def document(self, path: str) -> Mapping[str, Any]:
        """Return the mapping in a YAML or JSON file; that of a list has it under `entries`.

        Raises:
            ForeignFileError: the file cannot be read, or has another form.
        """
        return parsed(self.text(path), path)

    def names(self, folder: str = "") -> tuple[Sequence[str], Sequence[str]]:
        """Return the names of the files and of the folders in a folder; none if it cannot be listed."""
        try:
            with self._reader.entries(Location(self.root, folder)) as entries:
                listing = list_folder(entries, fingerprints=False)
        except (OSError, FileRefusedError):
            return (), ()
        return sorted(listing.file_names), sorted(listing.folders)

    def below(self, folder: str = "") -> list[str]:
        """Return the paths of the files below a folder, at most some thousand."""
        found: list[str] = []
        waiting = [(folder, 0)]
        while waiting and len(found) < _MAX_LISTED:
            place, depth = waiting.pop()
            files, folders = self.names(place)
            found += [joined(place, name) for name in files]
            waiting += [(joined(place, name), depth + 1) for name in folders if depth < _MAX_DEPTH]
        return sorted(found[:_MAX_LISTED])

    def matching(self, pattern: str, base: str = "") -> list[str]:
        """Return the paths of the files that a pattern names, relative to the folder `base`."""
        wanted = joined(base, pattern.removeprefix("./"))
        if not any(mark in wanted for mark in "*?["):
            return [wanted]
        either = {wanted, wanted.replace("**/", "")}
        return [path for path in self.below(base) if any(_matches(path, each) for each in either)]

    def input_file(self, found: Found, path: str, place: str) -> bytes | None:
        """Return the bytes of an input file; None if it cannot be carried over, which is noted."""
        try:
            raw = self.read(path)
        except ForeignFileError as error:
            found.lose(f"input files that cannot be read ({error})", place)
            return None
        return self.keep(found, raw, place)

    def keep(self, found: Found, raw: bytes, place: str) -> bytes | None:
        """Return the bytes of an input file if they do not exceed what one import may hold."""
        if self._left_files <= 0 or len(raw) > self._left_bytes:
            found.lose(f"input files beyond {MAX_FILES} files or {MAX_BYTES // 2**20} MiB", place)
            return None
        self._left_files -= 1
        self._left_bytes -= len(raw)
        return raw

    def nearest(self, path: str, base: str = "") -> str | None:
        """Return the file or folder below `base` that a path means.

        A path that leads out of the folder, as one from the root of a repository, is found by its longest end that is
        there.
        """
        parts = [part for part in path.replace("\\", "/").split("/") if part not in {"", ".", ".."}]
        leads_out = ".." in path.split("/") or path.startswith("/")
        for start in range(len(parts) if leads_out else min(1, len(parts))):
            candidate = joined(base, "/".join(parts[start:]))
            parent, _, name = candidate.rpartition("/")
            files, folders = self.names(parent)
            if name in files or name in folders:
                return candidate
        return None


def parsed(text: str, where: str) -> Mapping[str, Any]:
    """Return the mapping in a text of YAML or JSON; that of a list has it under `entries`.

    Raises:
        ForeignFileError: the text has another form.
    """
    if where.endswith(".json"):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ForeignFileError(f"{where}: this is not JSON that can be read: {error}") from None
        if not isinstance(value, (dict, list)):
            raise ForeignFileError(f"{where}: expected an object or a list")
        return value if isinstance(value, dict) else {_ENTRIES: value}
    text = text.replace("\r\n", "\n")
    if start := _LIST.match(text):
        text = f"{_ENTRIES}:\n{text[start.end() :]}"
    try:
        return load_mapping(text).value
    except YamlError as error:
        raise ForeignFileError(f"{where}: this is not YAML that can be read: {error}") from None


def is_inside(path: str) -> bool:
    """Tell whether a relative path stays in its folder."""
    return bool(path) and not path.startswith("/") and "\\" not in path and ".." not in path.split("/")


def joined(folder: str, path: str) -> str:
    """Return a path in a folder; an empty one is that of the files."""
    return "/".join(part for part in f"{folder}/{path}".split("/") if part not in {"", "."})


def _matches(path: str, pattern: str) -> bool:
    parts, wanted = path.split("/"), pattern.split("/")
    if "**" in pattern:
        return fnmatch.fnmatchcase(path, pattern)
    return len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))


def mappings(value: object) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the mappings of a list with their numbers, from 0."""
    for number, each in enumerate(value if isinstance(value, list) else []):
        if isinstance(each, Mapping):
            yield number, each


def mapping(value: object) -> Mapping[str, Any]:
    """Return a value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def texts(value: object) -> list[str]:
    """Return the texts of a list, or a single text."""
    listed = value if isinstance(value, list) else [value]
    return [each for each in listed if isinstance(each, str)]


def text(value: object) -> str:
    """Return a text, or a number as text; empty for anything else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else ""
