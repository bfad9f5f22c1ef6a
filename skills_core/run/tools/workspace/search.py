"""The tool `grep`: finds lines in the workspace's text files that match a pattern."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio.to_thread

from skills_core.diagnostics import one_line
from skills_core.disk.files import Location, Reader
from skills_core.errors import FileRefusedError, InvalidPatternError, ToolFailedError
from skills_core.guard.allowed_tools import path_matcher
from skills_core.guard.tool import Effect, Role, Tool
from skills_core.patterns import compile_matcher
from skills_core.run.tools.workspace.paths import PATH_DESCRIPTION, text_argument
from skills_core.run.tools.workspace.walk import walk
from skills_core.toolboxes import Capability

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from skills_core.format.yaml12 import JsonObject
    from skills_core.guard.tool import CallContext
    from skills_core.run.tools.workspace.paths import Workspace

__all__ = ["grep_tool"]

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
        Role(frozenset({Capability.SEARCH_TEXT}), path="path", recursive=True),
    )


def _search(workspace: Workspace, location: Location, arguments: JsonObject, stopped: threading.Event) -> str:
    try:
        search = _Search(compile_matcher(text_argument(arguments, "pattern")), stopped)
    except InvalidPatternError as error:
        raise ToolFailedError(str(error)) from None
    files = text_argument(arguments, "files")
    has_pattern = path_matcher(files) if files else None
    if files and has_pattern is None:
        raise ToolFailedError(f"{one_line(files)[:200]}: a pattern is a path within the folder, with *, ** and ?")
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
