"""The boundary for what is written: a file below a root, and never one outside of it.

As `files` does for reading: no link, no `..`, no special file and no race leads out of the root. What is written
appears whole or not at all, beside its place first and then renamed into it, so that a link or another name of the same
file elsewhere is replaced and never followed.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from skills_core.diagnostics import Reason
from skills_core.disk.files import Location, Reader
from skills_core.errors import FileRefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["write_file"]

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0)


def write_file(location: Location, content: bytes, mode: int = 0o666) -> bool:
    """Write the regular file at `location`, with the folders that it needs; tell whether it was not there before.

    A file that was there keeps its mode; a new one gets `mode`, less what the process masks.

    Raises:
        FileRefusedError: the path leaves the root, passes a link or something that is no folder, leads to what is no
            regular file, or cannot be written.
    """
    root, relative = location
    folder, _, name = relative.rpartition("/")
    parts = relative.split("/")
    if any(part in {"", ".", ".."} or "\0" in part for part in parts) or (os.name == "nt" and _is_special(relative)):
        raise FileRefusedError(relative, Reason.UNREADABLE, "this is no relative path within the folder")
    try:
        with Reader() as reader:
            for above in _folders(folder):
                _make(reader, Location(root, above))
            with reader.within(Location(root, folder)) as (handle, prefix):
                return _replace(handle, prefix + name, content, mode)
    except OSError as error:
        raise _refusal(relative, error) from None


def _is_special(relative: str) -> bool:
    return any(char in relative for char in '\\:*?"<>|')


def _folders(folder: str) -> Iterator[str]:
    """Yield each folder on the way, the outermost first."""
    parts = folder.split("/") if folder else []
    for count in range(1, len(parts) + 1):
        yield "/".join(parts[:count])


def _make(reader: Reader, folder: Location) -> None:
    """Make a folder unless it is there."""
    above, _, name = folder.relative.rpartition("/")
    with reader.within(Location(folder.root, above)) as (handle, prefix), suppress(FileExistsError):
        # What is there and is no folder refuses when it is opened.
        os.mkdir(prefix + name, dir_fd=handle)


def _replace(handle: int | None, path: str, content: bytes, mode: int) -> bool:
    before = _status(handle, path)
    if before is not None and not stat.S_ISREG(before.st_mode):
        link = stat.S_ISLNK(before.st_mode)
        raise OSError(errno.ELOOP if link else errno.ENXIO, "this is no regular file")
    # Hidden, and such as nobody guesses: whoever could make it first would not get a byte.
    beside = os.path.join(os.path.dirname(path), f".{secrets.token_hex(8)}.part")  # noqa: PTH118, PTH120 - of a handle
    descriptor = os.open(beside, _CREATE | _FLAGS, mode, dir_fd=handle)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - it is a descriptor
            file.write(content)
            if before is not None and hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode) & 0o777)
        os.replace(beside, path, src_dir_fd=handle, dst_dir_fd=handle)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside, dir_fd=handle)
        raise
    return before is None


def _status(handle: int | None, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=handle, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _refusal(relative: str, error: OSError) -> FileRefusedError:
    if error.errno in {errno.ELOOP, errno.EMLINK}:
        return FileRefusedError(relative, Reason.SYMLINK, "the path passes a symbolic link, and links are not followed")
    if error.errno == errno.ENXIO:
        return FileRefusedError(relative, Reason.SPECIAL_FILE, "this is no regular file")
    if error.errno == errno.ENOTDIR:
        # What refuses to be opened as a folder is a file, or a link where links are not followed.
        return FileRefusedError(relative, Reason.UNWRITABLE, "something on the way is no folder, or a symbolic link")
    return FileRefusedError(relative, Reason.UNWRITABLE, (error.strerror or "cannot be written").lower())
