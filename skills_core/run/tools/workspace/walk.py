"""Walks a folder of the workspace within the boundary. Links are reported, never followed."""

from __future__ import annotations

from contextlib import ExitStack
from operator import itemgetter
from typing import TYPE_CHECKING

from skills_core.diagnostics import Reason, one_line
from skills_core.disk.files import Location, Reader
from skills_core.disk.folders import Listing
from skills_core.disk.gitignore import GitIgnore
from skills_core.errors import ToolFailedError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from skills_core.run.tools.workspace.paths import Workspace

__all__ = ["walk"]

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
