"""Lock a file between processes while one reads, changes and writes it back.

Without a lock, two writers may read the same state, and the second overwrites the change of the first. The systems
differ: this uses `flock`, `msvcrt.locking`, or, on disks without locks, a file that only one process can create.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from skills_core.disk.opening import open_new, open_to_change

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["WAIT_SECONDS", "exclusive", "try_lock"]

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
