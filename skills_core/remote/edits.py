"""Compare a folder with the digests recorded when it was written, to find what its user edited."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from skills_core.diagnostics import shortened
from skills_core.disk.files import Location, Reader
from skills_core.errors import FileRefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["edited_files", "kind_of", "named_files"]

_LEFTOVERS = frozenset({"__pycache__", ".DS_Store", "Thumbs.db", "desktop.ini"})
# Files that systems and interpreters create; they are not edits.

_MAX_SHOWN_FILES = 5
_MAX_SHOWN = 200
# Maximum number of files that an error names, and of characters of each.


def edited_files(folder: Path, files: Mapping[str, str], *, record: str) -> list[str]:
    """Return the files of a folder that differ from `files`, digests by path, including added and removed ones.

    `record` is the path of the file that holds the digests.
    """
    found = {
        path
        for path in _files_below(folder)
        if path in files or (path != record and _LEFTOVERS.isdisjoint(path.split("/")))
    }
    differing = found.symmetric_difference(files)
    with Reader() as reader:
        for path in found.intersection(files):
            try:
                raw, _ = reader.read(Location(folder, path))
            except FileRefusedError:
                differing.add(path)
            else:
                if "sha256:" + hashlib.sha256(raw).hexdigest() != files[path]:
                    differing.add(path)
    return sorted(differing)


def _files_below(folder: Path) -> Iterator[str]:
    """Yield the relative path of every file and link below a folder."""
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        with os.scandir(folder / prefix) as entries:
            for entry in entries:
                if kind_of(Path(entry.path)) == stat.S_IFDIR:
                    waiting.append(f"{prefix}{entry.name}/")
                else:
                    yield prefix + entry.name


def kind_of(path: Path) -> int | None:
    """Return the file type at `path`, without following links; None if nothing is there. A junction is a link."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    reparse_point = getattr(status, "st_file_attributes", 0) & getattr(stat, "FILE_ATTRIBUTE_REPARSE_POINT", 0)
    return stat.S_IFLNK if reparse_point else stat.S_IFMT(status.st_mode)


def named_files(paths: Sequence[str]) -> str:
    """Return the first of some paths for a message, and how many more there are."""
    names = ", ".join(shortened(path, _MAX_SHOWN) for path in paths[:_MAX_SHOWN_FILES])
    return f"{names} and {len(paths) - _MAX_SHOWN_FILES} more" if len(paths) > _MAX_SHOWN_FILES else names
