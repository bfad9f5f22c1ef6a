"""The workspace, and the tools that read, write, list and search files in it and never outside of it."""

from __future__ import annotations

import os
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Self

import anyio.to_thread

from skills_core.diagnostics import Reason, one_line
from skills_core.disk.files import Location, Reader, read_file
from skills_core.disk.folders import Listing
from skills_core.disk.gitignore import GitIgnore
from skills_core.disk.writing import write_file
from skills_core.errors import FileRefusedError, InvalidPatternError, ToolFailedError
from skills_core.guard.allowed_tools import path_matcher
from skills_core.guard.tool import Effect, Role, Tool
from skills_core.texts import compile_matcher
from skills_core.toolboxes import ToolPurpose

if TYPE_CHECKING:
    from skills_core.format.yaml12 import JsonObject
    from skills_core.guard.tool import CallContext


PATH_DESCRIPTION = "A path within the workspace, relative to its root and separated by /."
"""The description of a path argument in a schema."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folder at `root`, an absolute path, without what is `private` in it: paths relative to the root."""

    root: Path
    private: tuple[str, ...] = ()

    @classmethod
    def without(cls, root: Path, places: Iterable[Path]) -> Self:
        """Return the workspace without those of the absolute paths that lie in it; they need not exist."""
        return cls(root, tuple(inside for place in places for inside in _inside(place, root)))

    def locate(self, path: str) -> Location:
        """Resolve a path of a call; `.` and the empty path are the workspace itself.

        Raises:
            ToolFailedError: the path is absolute, leads out of the workspace, or to what is private.
        """
        if path.startswith(("/", "~")) or "\0" in path:
            raise ToolFailedError(f"{one_line(path)[:200]}: paths are relative to the root of the workspace")
        parts = [part for part in path.split("/") if part not in {"", "."}]
        if ".." in parts:
            raise ToolFailedError(
                f"{one_line(path)[:200]}: the path may lead out of the workspace; write it without .."
            )
        relative = "/".join(parts)
        if self.hides(relative):
            raise ToolFailedError(f"{one_line(path)[:200]}: the state and the settings of this program are private")
        return Location(self.root, relative)

    def hides(self, relative: str) -> bool:
        """Tell whether a path relative to the root is private, in any spelling that some file system accepts."""
        if not self.private:
            return False
        parts = [part for part in relative.split("/") if part]
        for private in self.private:
            wanted = private.split("/")
            begin = parts[: len(wanted)]
            if [*map(_folded, begin)] == [*map(_folded, wanted)]:
                return True
            if len(begin) == len(wanted) and _is_same(self.root.joinpath(*begin), self.root / private):
                return True
        return False


def _inside(place: Path, root: Path) -> Iterator[str]:
    """Yield the path of a place relative to `root` if it lies in it, however its path is spelt."""
    for folder in place.parents:
        if _is_same(folder, root):
            yield place.relative_to(folder).as_posix()
            return


def _is_same(one: Path, other: Path) -> bool:
    try:
        return os.path.samestat(one.lstat(), other.lstat())
    except (OSError, ValueError):
        return False


def _folded(part: str) -> str:
    return unicodedata.normalize("NFKC", part).casefold().rstrip(". ")


def require_writable(location: Location) -> Location:
    """Return the location unless it is in a `.git` folder, whose content makes git run programs.

    Raises:
        ToolFailedError: it is within a `.git`, in any spelling that some file system treats as that.
    """
    for part in location.relative.split("/"):
        folded = part.rstrip(". ").casefold()
        # As git's own rules do, cover the short name on Windows, and characters that macOS ignores.
        plain = "".join(char for char in folded if char.isascii())
        if plain == ".git" or plain.startswith("git~"):
            raise ToolFailedError(f"{one_line(location.relative)[:200]}: files within .git are not written")
    return location


def text_argument(arguments: object, name: str) -> str:
    """Return an argument that the schema declares a string; empty if it is absent."""
    value = arguments.get(name, "") if isinstance(arguments, dict) else ""
    return value if isinstance(value, str) else ""


MAX_ENTRIES = 50_000
"""Most entries that one call reads."""

_MAX_DEPTH = 50
_SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv"})
# Folders that a search of a project never means.

_REFUSED = {Reason.SYMLINK: "a link, not followed", Reason.SPECIAL_FILE: "not a regular file"}


def walk(workspace: Workspace, location: Location, *, deep: bool) -> Iterator[str]:
    """Yield the entries of a folder, as relative paths sorted by name; folders end with `/`.

    `deep` yields only files, of all subfolders too, without those that git ignores, `.git` and similar folders. Links
    and special files are yielded with a note if not `deep`, and left out otherwise. What is private in the workspace is
    left out.

    Raises:
        ToolFailedError: the folder cannot be listed, or has too many entries.
    """
    with ExitStack() as stack:
        reader = stack.enter_context(Reader())
        ignoring = GitIgnore(location.root, reader, lambda folder: Location(location.root, folder)) if deep else None
        seen = 0
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            try:
                place = _within(location, folder)
                listing = _without_private(workspace, place, _list_folder(reader, place))
                if ignoring is not None:
                    listing = ignoring.without_ignored(place.relative, listing)
            except OSError as error:
                if not folder:
                    where = one_line(location.relative) or "the workspace"
                    raise ToolFailedError(f"{where}: {(error.strerror or 'cannot be listed').lower()}") from None
                continue
            seen += len(listing.file_names) + len(listing.folders)
            if seen > MAX_ENTRIES:
                raise ToolFailedError(f"there are more than {MAX_ENTRIES} files and folders; choose a subfolder")
            if ignoring is None:
                yield from _entries_with_notes(listing)
                return
            yield from (f"{folder}{name}" for name in listing.file_names)
            if folder.count("/") < _MAX_DEPTH:
                waiting += [f"{folder}{name}/" for name in reversed(listing.folders) if name not in _SKIPPED]


def _within(location: Location, folder: str) -> Location:
    return Location(location.root, "/".join(part for part in (location.relative, folder.rstrip("/")) if part))


def _list_folder(reader: Reader, location: Location) -> Listing:
    files: list[tuple[str, None]] = []
    folders: list[str] = []
    refused: list[tuple[str, Reason]] = []
    with reader.entries(location) as entries:
        for entry in entries:
            if len(files) + len(folders) > MAX_ENTRIES:
                break
            if _is_plain(entry) and entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            elif _is_plain(entry) and entry.is_file(follow_symlinks=False):
                files.append((entry.name, None))
            else:
                refused.append((entry.name, Reason.SPECIAL_FILE if _is_plain(entry) else Reason.SYMLINK))
    return Listing.of(sorted(files, key=itemgetter(0)), sorted(folders), sorted(refused))


def _without_private(workspace: Workspace, location: Location, listing: Listing) -> Listing:
    if not workspace.private:
        return listing

    def is_shown(name: str) -> bool:
        return not workspace.hides(_within(location, name).relative)

    return Listing.of(
        (each for each in listing.files if is_shown(each[0])),
        filter(is_shown, listing.folders),
        (each for each in listing.refused if is_shown(each[0])),
    )


def _is_plain(entry: os.DirEntry[str]) -> bool:
    junction = getattr(entry, "is_junction", None)
    return not entry.is_symlink() and not (junction is not None and junction())


def _entries_with_notes(listing: Listing) -> Iterator[str]:
    yield from (f"{name}/" for name in listing.folders)
    yield from (name for name in listing.file_names)
    yield from (f"{name} ({_REFUSED[reason]})" for name, reason in listing.refused)


MAX_WRITTEN = 4 * 1024 * 1024
"""Largest file that is written, in bytes."""

MAX_LISTED = 1000
"""Entries that one listing shows."""

DEFAULT_LINES = 2000
"""Lines of a file that are shown by default."""


def read_file_tool(workspace: Workspace) -> Tool:
    """Return the tool that reads text files of the workspace."""

    async def perform(arguments: JsonObject, _context: CallContext) -> str:
        location = workspace.locate(text_argument(arguments, "path"))
        raw = await anyio.to_thread.run_sync(_read_bytes, location)
        return select_lines(location.relative, raw, arguments)

    return Tool(
        "read_file",
        f"Read a text file of the workspace, up to {DEFAULT_LINES} lines of it at a time.",
        {
            "type": "object",
            "properties": {"path": {"type": "string", "description": PATH_DESCRIPTION}, **LINE_ARGUMENTS},
            "required": ["path"],
            "additionalProperties": False,
        },
        Effect.READS,
        "workspace",
        perform,
        Role(frozenset({ToolPurpose.READ_FILE}), path="path"),
    )


LINE_ARGUMENTS: JsonObject = {
    "first_line": {"type": "integer", "minimum": 1, "description": "Number of the first line to show; 1 by default."},
    "lines": {"type": "integer", "minimum": 1, "description": f"How many lines to show; {DEFAULT_LINES} by default."},
}
"""The arguments of `select_lines` in a schema."""


def select_lines(path: str, raw: bytes, arguments: JsonObject) -> str:
    """Return the requested lines of a text file, with a note about the rest.

    Raises:
        ToolFailedError: the file is not UTF-8 text, or has fewer lines.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise ToolFailedError(f"{one_line(path)}: not UTF-8 text, but {len(raw)} bytes of other data")
    first, count = arguments.get("first_line", 1), arguments.get("lines", DEFAULT_LINES)
    lines = text.splitlines(keepends=True)
    if not isinstance(first, (int, float)) or not isinstance(count, (int, float)):
        raise ToolFailedError("first_line and lines must be whole numbers")
    start = int(first) - 1
    if start and start >= len(lines):
        raise ToolFailedError(f"{one_line(path)}: the file has {len(lines)} lines")
    end = min(start + int(count), len(lines))
    if start == 0 and end == len(lines):
        return text
    rest = f"; go on with first_line {end + 1}" if end < len(lines) else ""
    return f"{''.join(lines[start:end])}\n[lines {start + 1} to {end} of {len(lines)}{rest}]"


def _read_bytes(location: Location) -> bytes:
    try:
        return read_file(location)[0]
    except FileRefusedError as error:
        raise ToolFailedError(str(error)) from None


def write_file_tool(workspace: Workspace) -> Tool:
    """Return the tool that writes a file of the workspace, or changes one place in it."""

    async def perform(arguments: JsonObject, _context: CallContext) -> str:
        location = require_writable(workspace.locate(text_argument(arguments, "path")))
        content = text_argument(arguments, "content")
        return await anyio.to_thread.run_sync(_write, location, content, arguments.get("replace"))

    return Tool(
        "write_file",
        "Write a text file of the workspace, with the folders that it needs. With replace, change one place in a file "
        "that is there: the text replace, which must stand in it exactly once, becomes content.",
        {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": PATH_DESCRIPTION},
                "content": {"type": "string", "description": "The whole new content, or what replaces a text."},
                "replace": {"type": "string", "minLength": 1, "description": "The text in the file that is replaced."},
            },
            "required": ["path", "content"],
            "additionalProperties": False,
        },
        Effect.WRITES,
        "workspace",
        perform,
        Role(frozenset({ToolPurpose.WRITE_FILE, ToolPurpose.EDIT_FILE}), path="path"),
    )


def _write(location: Location, content: str, replace: object) -> str:
    if isinstance(replace, str):
        content = _replace_once(location, content, replace)
    try:
        raw = content.encode("utf-8")
    except UnicodeEncodeError:
        raise ToolFailedError(
            "content holds half of a character (a lone surrogate), which UTF-8 cannot encode"
        ) from None
    if len(raw) > MAX_WRITTEN:
        raise ToolFailedError(f"content has {len(raw)} bytes; at most {MAX_WRITTEN} are written")
    try:
        created = write_file(location, raw)
    except FileRefusedError as error:
        raise ToolFailedError(str(error)) from None
    return f"{'Created' if created else 'Wrote'} {one_line(location.relative)}, {len(raw)} bytes."


def _replace_once(location: Location, content: str, replace: str) -> str:
    try:
        text = _read_bytes(location).decode("utf-8")
    except UnicodeDecodeError:
        raise ToolFailedError(f"{one_line(location.relative)}: not UTF-8 text") from None
    count = text.count(replace)
    if count != 1:
        raise ToolFailedError(f"{one_line(location.relative)}: the text to replace occurs {count} times, not once")
    return text.replace(replace, content)


def list_directory_tool(workspace: Workspace) -> Tool:
    """Return the tool that lists a folder of the workspace, or finds files in it."""

    async def perform(arguments: JsonObject, _context: CallContext) -> str:
        location = workspace.locate(text_argument(arguments, "path"))
        return await anyio.to_thread.run_sync(_list, workspace, location, text_argument(arguments, "pattern"))

    return Tool(
        "list_directory",
        "List a folder of the workspace; folders end with /. With pattern, list the files below it that have the "
        "pattern, without those that git ignores.",
        {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": f"{PATH_DESCRIPTION} The root by default."},
                "pattern": {"type": "string", "minLength": 1, "description": "As in .gitignore: **/*.py, docs/*.md."},
            },
            "additionalProperties": False,
        },
        Effect.READS,
        "workspace",
        perform,
        Role(frozenset({ToolPurpose.LIST_FOLDER, ToolPurpose.FIND_FILES}), path="path", recursive=True),
    )


def _matcher(pattern: str) -> Callable[[str], bool] | None:
    """Return the test for a path pattern, None for an empty one."""
    matcher = path_matcher(pattern) if pattern else None
    if pattern and matcher is None:
        raise ToolFailedError(f"{one_line(pattern)[:200]}: a pattern is a path within the folder, with *, ** and ?")
    return matcher


def _list(workspace: Workspace, location: Location, pattern: str) -> str:
    has_pattern = _matcher(pattern)
    found = walk(workspace, location, deep=has_pattern is not None)
    shown: list[str] = []
    for path in found:
        if has_pattern is None or (not path.endswith("/") and has_pattern(path)):
            shown.append(one_line(path))
        if len(shown) > MAX_LISTED:
            return "\n".join([*shown[:MAX_LISTED], f"[only the first {MAX_LISTED} entries are listed]"])
    return "\n".join(shown) or "Nothing is there."


MAX_MATCHES = 300
"""Most lines in the result of one search."""

MAX_FILE = 4 * 1024 * 1024
"""Largest file that is searched, in bytes."""

MAX_BYTES = 128 * 1024 * 1024
"""Most bytes that one search reads."""

_MAX_LINE = 400


@dataclass
class _Search:
    """The state of one search: its pattern, and how much it has read."""

    matches: Callable[[str], bool]
    stopped: threading.Event
    read: int = 0
    unread: int = 0
    ended: str = ""


def grep_tool(workspace: Workspace) -> Tool:
    """Return the tool."""

    async def perform(arguments: JsonObject, _context: CallContext) -> str:
        location = workspace.locate(text_argument(arguments, "path"))
        stopped = threading.Event()
        try:
            # A thread cannot be cancelled; it checks the event.
            return await anyio.to_thread.run_sync(
                _search, workspace, location, arguments, stopped, abandon_on_cancel=True
            )
        finally:
            stopped.set()

    return Tool(
        "grep",
        "Find lines in the text files of the workspace by a regular expression (RE2: no lookaround, no backreferences)."
        " Files that git ignores, binary and very large ones are left out.",
        {
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "minLength": 1, "description": "The expression; (?i) ignores the case."},
                "path": {
                    "type": "string",
                    "description": f"{PATH_DESCRIPTION} A folder or a file; the root by default.",
                },
                "files": {"type": "string", "minLength": 1, "description": "Only files with this pattern: **/*.py."},
            },
            "required": ["pattern"],
            "additionalProperties": False,
        },
        Effect.READS,
        "workspace",
        perform,
        Role(frozenset({ToolPurpose.SEARCH_TEXT}), path="path", recursive=True),
    )


def _search(workspace: Workspace, location: Location, arguments: JsonObject, stopped: threading.Event) -> str:
    try:
        search = _Search(compile_matcher(text_argument(arguments, "pattern")), stopped)
    except InvalidPatternError as error:
        raise ToolFailedError(str(error)) from None
    has_pattern = _matcher(text_argument(arguments, "files"))
    shown: list[str] = []
    for line in _lines(search, workspace, location, has_pattern):
        if len(shown) == MAX_MATCHES:
            search.ended = f"only the first {MAX_MATCHES} lines are shown"
            break
        shown.append(line)
    notes = [search.ended] if search.ended else []
    notes += [f"{search.unread} files were not searched: binary, too large or unreadable"] if search.unread else []
    return "\n".join([*(shown or ["No line matches the pattern."]), *(f"[{note}]" for note in notes)])


def _lines(
    search: _Search, workspace: Workspace, location: Location, has_pattern: Callable[[str], bool] | None
) -> Iterator[str]:
    with Reader() as reader:
        for path in _files(workspace, location):
            if search.stopped.is_set():
                return
            if has_pattern is not None and path and not has_pattern(path):
                continue
            where = "/".join(part for part in (location.relative, path) if part)
            try:
                raw, _ = reader.read(Location(location.root, where), MAX_FILE)
            except FileRefusedError as error:
                if not path:
                    raise ToolFailedError(str(error)) from None
                search.unread += 1
                continue
            search.read += len(raw)
            if search.read > MAX_BYTES:
                search.ended = f"the search ended after {MAX_BYTES} bytes, before {one_line(where)}"
                return
            yield from _matching_lines(search, one_line(where), raw)


def _files(workspace: Workspace, location: Location) -> Iterable[str]:
    """Return the files to search: those of a folder, or the file at the path itself."""
    try:
        plain = location.path.is_file() if location.relative else False
    except OSError:
        plain = False
    # Opening the file within the boundary decides whether it may be read.
    return [""] if plain else walk(workspace, location, deep=True)


def _matching_lines(search: _Search, where: str, raw: bytes) -> Iterator[str]:
    if b"\0" in raw[:8192]:
        search.unread += 1
        return
    for number, line in enumerate(raw.decode("utf-8", "replace").split("\n"), 1):
        if search.matches(line):
            text = one_line(line.rstrip("\r"))
            yield f"{where}:{number}: {text if len(text) <= _MAX_LINE else text[:_MAX_LINE] + '…'}"
