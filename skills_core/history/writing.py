"""Write a state to disk: replace what differs, entry by entry, and nothing that is not recorded.

Every step names an entry of a folder that was opened without following links, so that no link leads a write out of the
source. A file is written beside its place and renamed, so that its bytes and its mode change in one step.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from skills_core.disk.files import Location, Reader
from skills_core.disk.writing import random_name, rename_within, replace_within
from skills_core.history.entries import TEMPORARY, Entry, Kind
from skills_core.history.reading import entry_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from skills_core.history.entries import State

__all__ = ["is_same", "make_folder", "remove_entry", "write_state"]

_OWNER = 0o700
_HAS_MODES = hasattr(os, "fchmod") and os.chmod in os.supports_dir_fd


def write_state(root: Path, before: State, after: State, read: Callable[[str], bytes]) -> None:
    """Change the entries on disk that `before` and `after` have from one to the other.

    An entry that is neither as before nor as after was changed by another program, and stays as it is.

    Raises:
        OSError: an entry cannot be written. Those written so far stay.
    """
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    _open_folders(root, before, changed)
    for path in _deepest_first(changed):
        now = entry_at(root, path)
        wanted = after.get(path)
        is_folder = now is not None and now.kind is Kind.FOLDER
        if now is None or not is_same(now, before.get(path)):
            continue
        if wanted is not None and (wanted.kind is Kind.FOLDER) == is_folder:
            continue
        with suppress(FileNotFoundError):
            remove_entry(root, path, is_folder=is_folder)
    for path in sorted(changed & after.keys(), key=lambda each: each.count("/")):
        now, wanted = entry_at(root, path), after[path]
        if now == wanted or (now is not None and not is_same(now, before.get(path))):
            continue
        if wanted.kind is Kind.FOLDER:
            make_folder(root, path)
        else:
            _put(root, path, wanted, read(wanted.blob))
    for path in _deepest_first(path for path, entry in after.items() if entry.kind is Kind.FOLDER):
        _set_mode(root, path, after[path].mode)


def is_same(one: Entry | None, other: Entry | None) -> bool:
    """Tell whether two entries have the same content; the modes of folders do not count."""
    if one is None or other is None:
        return one is other
    return one == other or one.kind is other.kind is Kind.FOLDER


def remove_entry(root: Path, path: str, *, is_folder: bool) -> None:
    """Remove a file, a link or an empty folder; a folder with content stays.

    Raises:
        OSError: it cannot be removed.
    """
    folder, _, name = path.rpartition("/")
    with Reader() as reader, reader.within(Location(root, folder)) as (handle, prefix):
        if not is_folder:
            os.unlink(prefix + name, dir_fd=handle)
            return
        try:
            os.rmdir(prefix + name, dir_fd=handle)
        except OSError as error:
            if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
                raise


def _deepest_first(paths: Iterable[str]) -> list[str]:
    return sorted(paths, key=lambda path: (path.count("/"), path), reverse=True)


def _open_folders(root: Path, before: State, changed: set[str]) -> None:
    """Let this user write in folders that are to change, whatever their modes were."""
    for path in sorted({path.rpartition("/")[0] for path in changed} & before.keys()):
        entry = before[path]
        if entry.kind is Kind.FOLDER and entry.mode & _OWNER != _OWNER and entry_at(root, path) == entry:
            _set_mode(root, path, entry.mode | _OWNER)


def make_folder(root: Path, path: str, mode: int = 0o700) -> None:
    """Create a folder unless it exists; the folder above it does.

    Raises:
        OSError: it cannot be created, or the path contains a link.
    """
    folder, _, name = path.rpartition("/")
    with Reader() as reader, reader.within(Location(root, folder)) as (handle, prefix), suppress(FileExistsError):
        os.mkdir(prefix + name, mode, dir_fd=handle)


def _set_mode(root: Path, path: str, mode: int) -> None:
    if not _HAS_MODES:
        return
    with suppress(FileNotFoundError), Reader() as reader, reader.within(Location(root, path)) as (handle, _):
        if handle is not None and os.fstat(handle).st_mode & 0o777 != mode:
            os.fchmod(handle, mode)


def _put(root: Path, path: str, entry: Entry, content: bytes) -> None:
    folder, _, name = path.rpartition("/")
    beside = f"{TEMPORARY}{random_name()}"
    with Reader() as reader, reader.within(Location(root, folder)) as (handle, prefix):
        if entry.kind is Kind.LINK:
            os.symlink(os.fsdecode(content), prefix + beside, dir_fd=handle)
            rename_within(handle, prefix, beside, name)
            return

        def finish(descriptor: int) -> None:
            if _HAS_MODES:
                os.fchmod(descriptor, entry.mode)

        replace_within(handle, prefix, name, content, beside=beside, finish=finish)
