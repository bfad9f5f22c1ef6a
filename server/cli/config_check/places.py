"""Whether a server could write to a folder, found out without leaving anything behind."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["folder_fault"]

_NO_NAMELESS_FILES: Final = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL})
# What a file system answers that has no files without a name.


def folder_fault(folder: Path, rights_fault: Callable[[os.stat_result], str | None] = lambda _: None) -> str | None:
    """Return why a folder cannot be written to, or created, None if it can; `rights_fault` judges an existing one."""
    try:
        existing = next(each for each in (folder, *folder.parents) if _exists(each))
        found = existing.stat()
    except (OSError, ValueError) as error:
        return f"it cannot be reached: {_reason(error)}"
    if not stat.S_ISDIR(found.st_mode):
        return f"{existing} is not a folder"
    if not os.access(existing, os.W_OK | os.X_OK):
        return f"{existing} cannot be written to"
    try:
        _try_to_write(existing)
    except OSError as error:
        return f"nothing can be created in {existing}: {_reason(error)}"
    return rights_fault(found) if existing == folder else None


def _exists(path: Path) -> bool:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _try_to_write(folder: Path) -> None:
    """Create something in a folder that is gone again at once: rights alone do not tell of file systems like /proc."""
    if sys.platform == "linux":
        try:
            os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o600))
        except OSError as error:
            if error.errno not in _NO_NAMELESS_FILES:
                raise
        else:
            return
    probe = folder / f".skillserve-check-{secrets.token_hex(8)}"
    probe.mkdir(mode=0o700)
    with suppress(OSError):
        probe.rmdir()


def _reason(error: OSError | ValueError) -> str:
    return ((error.strerror if isinstance(error, OSError) else None) or str(error)).lower()
