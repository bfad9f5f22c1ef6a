"""The workspace: resolve paths in it, and list its folders, never outside of it."""

from __future__ import annotations

import os
import unicodedata
from contextlib import ExitStack
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Self

from skills_core.diagnostics import Reason, one_line
from skills_core.disk.files import Location, Reader
from skills_core.disk.folders import Listing
from skills_core.disk.gitignore import GitIgnore
from skills_core.errors import ToolFailedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

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
            seen += len(listing.files) + len(listing.folders)
            if seen > MAX_ENTRIES:
                raise ToolFailedError(f"there are more than {MAX_ENTRIES} files and folders; choose a subfolder")
            if ignoring is None:
                yield from _entries_with_notes(listing)
                return
            yield from (f"{folder}{name}" for name, _ in listing.files)
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
    return Listing(tuple(sorted(files, key=itemgetter(0))), tuple(sorted(folders)), tuple(sorted(refused)))


def _without_private(workspace: Workspace, location: Location, listing: Listing) -> Listing:
    if not workspace.private:
        return listing

    def is_shown(name: str) -> bool:
        return not workspace.hides(_within(location, name).relative)

    return Listing(
        tuple(each for each in listing.files if is_shown(each[0])),
        tuple(filter(is_shown, listing.folders)),
        tuple(each for each in listing.refused if is_shown(each[0])),
    )


def _is_plain(entry: os.DirEntry[str]) -> bool:
    junction = getattr(entry, "is_junction", None)
    return not entry.is_symlink() and not (junction is not None and junction())


def _entries_with_notes(listing: Listing) -> Iterator[str]:
    yield from (f"{name}/" for name in listing.folders)
    yield from (name for name, _ in listing.files)
    yield from (f"{name} ({_REFUSED[reason]})" for name, reason in listing.refused)
