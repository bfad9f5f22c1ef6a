"""What a path of a call means: a place within the workspace, and what of it may be touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skills_core.diagnostics import one_line
from skills_core.disk.files import Location
from skills_core.errors import ToolFailedError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["PATH_DESCRIPTION", "require_writable", "resolve_path", "text_argument"]

PATH_DESCRIPTION = "A path within the workspace, relative to its root and separated by /."
"""What a schema says of such an argument."""


def resolve_path(root: Path, path: str) -> Location:
    """Return where in the workspace a path of a call leads; `.` and nothing are the workspace itself.

    Raises:
        ToolFailedError: it is absolute, or leads out.
    """
    if path.startswith(("/", "~")) or "\0" in path:
        raise ToolFailedError(f"{one_line(path)[:200]}: paths are relative to the root of the workspace")
    parts = [part for part in path.split("/") if part not in {"", "."}]
    if ".." in parts:
        raise ToolFailedError(
            f"{one_line(path)[:200]}: the path leads out of the workspace, or may; write it without .."
        )
    return Location(root, "/".join(parts))


def require_writable(location: Location) -> Location:
    """Return the location, unless it is where programs look for what they run.

    Raises:
        ToolFailedError: it is within a `.git`, by any spelling that some system takes for it.
    """
    for part in location.relative.split("/"):
        folded = part.rstrip(". ").casefold()
        # Git's own rules know both: the short name of Windows, and letters that macOS does not see.
        plain = "".join(char for char in folded if char.isascii())
        if plain == ".git" or plain.startswith("git~"):
            raise ToolFailedError(f"{one_line(location.relative)[:200]}: what is within .git is not written")
    return location


def text_argument(arguments: object, name: str) -> str:
    """Return an argument that the schema says is a string; empty where it is absent."""
    value = arguments.get(name, "") if isinstance(arguments, dict) else ""
    return value if isinstance(value, str) else ""
