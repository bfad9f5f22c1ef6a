"""Write files below a root, and never one outside of it.

As in `files`, no link, no `..`, no special file and no race leads out of the root. Writes are atomic: a temporary file
beside the target is renamed to it, so that a link or hard link at the target is replaced and never followed.
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
    """Write the regular file at `location` and create its folders; return whether the file is new.

    An existing file keeps its mode; a new one gets `mode` without the bits of the process's umask.

    Raises:
        FileRefusedError: the path leaves the root, contains a link or something that is not a folder, names something
            that is not a regular file, or cannot be written.
    """
    root, relative = location
    folder, _, name = relative.rpartition("/")
    parts = relative.split("/")
    if any(part in {"", ".", ".."} or "\0" in part for part in parts) or (os.name == "nt" and _is_special(relative)):
        raise FileRefusedError(relative, Reason.UNREADABLE, "this is not a relative path within the folder")
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
    """Yield the folder and those above, the outermost first."""
    parts = folder.split("/") if folder else []
    for count in range(1, len(parts) + 1):
        yield "/".join(parts[:count])


def _make(reader: Reader, folder: Location) -> None:
    """Create a folder unless it exists."""
    above, _, name = folder.relative.rpartition("/")
    with reader.within(Location(folder.root, above)) as (handle, prefix), suppress(FileExistsError):
        # If something else exists there, opening it as a folder fails.
        os.mkdir(prefix + name, dir_fd=handle)


def _replace(handle: int | None, path: str, content: bytes, mode: int) -> bool:
    before = _status(handle, path)
    if before is not None and not stat.S_ISREG(before.st_mode):
        link = stat.S_ISLNK(before.st_mode)
        raise OSError(errno.ELOOP if link else errno.ENXIO, "this is not a regular file")
    # Hidden from scans, and random, so that no other process can create it first.
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
        return FileRefusedError(relative, Reason.SYMLINK, "the path contains a symbolic link; links are not followed")
    if error.errno == errno.ENXIO:
        return FileRefusedError(relative, Reason.SPECIAL_FILE, "this is not a regular file")
    if error.errno == errno.ENOTDIR:
        return FileRefusedError(relative, Reason.UNWRITABLE, "part of the path is not a folder, or is a symbolic link")
    return FileRefusedError(relative, Reason.UNWRITABLE, (error.strerror or "cannot be written").lower())
