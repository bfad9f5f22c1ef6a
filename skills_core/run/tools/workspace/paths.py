"""Resolves a path argument to a location within the workspace, and refuses what must not be written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.diagnostics import one_line
from skills_core.disk.files import Location
from skills_core.errors import ToolFailedError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["PATH_DESCRIPTION", "require_writable", "resolve_path", "text_argument"]

PATH_DESCRIPTION = "A path within the workspace, relative to its root and separated by /."
"""The description of a path argument in a schema."""


def resolve_path(root: Path, path: str) -> Location:
    """Resolve a path of a call in the workspace; `.` and the empty path are the workspace itself.

    Raises:
        ToolFailedError: the path is absolute, or leads out of the workspace.
    """
    if path.startswith(("/", "~")) or "\0" in path:
        raise ToolFailedError(f"{one_line(path)[:200]}: paths are relative to the root of the workspace")
    parts = [part for part in path.split("/") if part not in {"", "."}]
    if ".." in parts:
        raise ToolFailedError(f"{one_line(path)[:200]}: the path may lead out of the workspace; write it without ..")
    return Location(root, "/".join(parts))


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
