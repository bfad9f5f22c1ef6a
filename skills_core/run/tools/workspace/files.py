"""The tools `read_file`, `write_file` and `list_directory`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio.to_thread

from skills_core.diagnostics import one_line
from skills_core.disk.files import Location, read_file
from skills_core.disk.writing import write_file
from skills_core.errors import FileRefusedError, ToolFailedError
from skills_core.guard.allowed_tools import path_matcher
from skills_core.guard.tool import Effect, Role, Tool
from skills_core.run.tools.workspace.paths import PATH_DESCRIPTION, require_writable, text_argument
from skills_core.run.tools.workspace.walk import walk
from skills_core.toolboxes import Capability

if TYPE_CHECKING:
    from skills_core.format.yaml12 import JsonObject
    from skills_core.guard.tool import CallContext
    from skills_core.run.tools.workspace.paths import Workspace

__all__ = ["list_directory_tool", "read_file_tool", "select_lines", "write_file_tool"]

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
        Role(frozenset({Capability.READ_FILE}), path="path"),
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
        Role(frozenset({Capability.WRITE_FILE, Capability.EDIT_FILE}), path="path"),
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
        Role(frozenset({Capability.LIST_FOLDER, Capability.FIND_FILES}), path="path", recursive=True),
    )


def _list(workspace: Workspace, location: Location, pattern: str) -> str:
    has_pattern = path_matcher(pattern) if pattern else None
    if pattern and has_pattern is None:
        raise ToolFailedError(f"{one_line(pattern)[:200]}: a pattern is a path within the folder, with *, ** and ?")
    found = walk(workspace, location, deep=has_pattern is not None)
    shown: list[str] = []
    for path in found:
        if has_pattern is None or (not path.endswith("/") and has_pattern(path)):
            shown.append(one_line(path))
        if len(shown) > MAX_LISTED:
            return "\n".join([*shown[:MAX_LISTED], f"[only the first {MAX_LISTED} entries are listed]"])
    return "\n".join(shown) or "Nothing is there."
