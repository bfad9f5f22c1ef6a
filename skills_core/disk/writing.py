"""Write files below a root, and never one outside of it; and lock a file between processes.

As in `files`, no link, no `..`, no special file and no race leads out of the root. Writes are atomic: a temporary file
beside the target is renamed to it, so that a link or hard link at the target is replaced and never followed.

Whoever reads a file, changes it and writes it back needs a lock: two writers may read the same state, and the second
overwrites the change of the first. The systems differ: this uses `flock`, `msvcrt.locking`, or, on disks without locks,
a file that only one process can create.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from skills_core.diagnostics import Reason
from skills_core.disk.files import Location, Reader
from skills_core.disk.opening import open_new, open_to_change
from skills_core.errors import FileRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def write_file(location: Location, content: bytes, mode: int = 0o666, *, durable: bool = False) -> bool:
    """Write the regular file at `location` and create its folders; return whether the file is new.

    An existing file keeps its mode; a new one gets `mode` without the bits of the process's umask. With `durable`, the
    content is on the disk before the file has its name.

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
                return _write_regular(handle, prefix, name, content, mode, durable=durable)
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


def _write_regular(handle: int | None, prefix: str, name: str, content: bytes, mode: int, *, durable: bool) -> bool:
    before = _status(handle, prefix + name)
    if before is not None and not stat.S_ISREG(before.st_mode):
        link = stat.S_ISLNK(before.st_mode)
        raise OSError(errno.ELOOP if link else errno.ENXIO, "this is not a regular file")

    def finish(descriptor: int) -> None:
        if before is not None and hasattr(os, "fchmod"):
            os.fchmod(descriptor, stat.S_IMODE(before.st_mode) & 0o777)

    # Hidden from scans.
    beside = f".{random_name()}.part"
    replace_within(handle, prefix, name, content, beside=beside, mode=mode, finish=finish, durable=durable)
    return before is None


def random_name() -> str:
    """Return a name that no other process can guess, and so create first."""
    return os.urandom(8).hex()


def replace_within(
    handle: int | None,
    prefix: str,
    name: str,
    content: bytes,
    *,
    beside: str,
    mode: int = 0o600,
    finish: Callable[[int], None] = lambda _: None,
    durable: bool = True,
) -> None:
    """Write a file as `beside` in the folder that `Reader.within` opened, and rename it to `name`.

    `finish` gets the open file with its whole content, to set its mode and owner.

    Raises:
        OSError: the file cannot be written; `name` is as it was, and there is no `beside`.
    """
    descriptor = open_new(prefix + beside, mode, dir_fd=handle)
    with _removed_on_failure(handle, prefix + beside):
        with open(descriptor, "wb") as file:  # noqa: PTH123 - it is a descriptor
            file.write(content)
            file.flush()
            finish(file.fileno())
            if durable:
                os.fsync(file.fileno())
        os.replace(prefix + beside, prefix + name, src_dir_fd=handle, dst_dir_fd=handle)


def rename_within(handle: int | None, prefix: str, beside: str, name: str) -> None:
    """Rename `beside` to `name` in a folder that `Reader.within` opened; if that fails, remove it.

    Raises:
        OSError: the folder cannot be written.
    """
    with _removed_on_failure(handle, prefix + beside):
        os.replace(prefix + beside, prefix + name, src_dir_fd=handle, dst_dir_fd=handle)


@contextmanager
def _removed_on_failure(handle: int | None, path: str) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with suppress(OSError):
            os.unlink(path, dir_fd=handle)
        raise


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


WAIT_SECONDS: Final = 10.0
"""Maximum wait for another process, which holds the lock for milliseconds."""

_STEP: Final = 0.02
_ABANDONED: Final = 60.0
# Seconds after which the creator of a file used as lock is assumed dead.

_BUSY: Final = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK})

if sys.platform == "win32":
    import msvcrt

    def try_lock(descriptor: int) -> None:
        """Lock an open file until it is closed; `OSError` if another process holds it, or the disk has no locks."""
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def try_lock(descriptor: int) -> None:
        """Lock an open file until it is closed; `OSError` if another process holds it, or the disk has no locks."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def exclusive(path: Path, seconds: float = WAIT_SECONDS) -> Iterator[None]:
    """Hold the lock of the file at `path`; the lock is a file beside it, and is not removed.

    Raises:
        TimeoutError: another process held it for that long.
        OSError: the folder cannot be written.
    """
    lock, end = path.with_name(f"{path.name}.lock"), time.monotonic() + seconds
    descriptor = open_to_change(lock)
    try:
        uses_fallback = not _lock_until(end, descriptor)
        if uses_fallback:
            _create_until(end, _fallback_path(lock))
        try:
            yield
        finally:
            if uses_fallback:
                _fallback_path(lock).unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _lock_until(end: float, descriptor: int) -> bool:
    """Wait for the lock; return False if the disk has no locks."""
    while True:
        try:
            try_lock(descriptor)
        except OSError as error:
            if error.errno not in _BUSY:
                return False
        else:
            return True
        _wait(end)


def _fallback_path(lock: Path) -> Path:
    return lock.with_name(f"{lock.name}.held")


def _create_until(end: float, path: Path) -> None:
    while True:
        try:
            os.close(open_new(path))
        except FileExistsError:
            with suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > _ABANDONED:
                    path.unlink()
        else:
            return
        _wait(end)


def _wait(end: float) -> None:
    if time.monotonic() >= end:
        raise TimeoutError(errno.ETIMEDOUT, "another process holds the lock of this file")
    time.sleep(_STEP)
