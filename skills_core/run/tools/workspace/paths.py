"""Resolves a path argument to a location within the workspace, and refuses what must not be written."""

from __future__ import annotations

import os
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from skills_core.diagnostics import one_line
from skills_core.disk.files import Location
from skills_core.errors import ToolFailedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

__all__ = ["PATH_DESCRIPTION", "Workspace", "require_writable", "text_argument"]

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
