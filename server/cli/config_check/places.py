"""What is wrong with files and folders: a server cannot use them, or other users can."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from server.cli.config_check.finding import ConfigFinding, Level

_READABLE: Final = 0o044
_WRITABLE: Final = 0o022

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


def unreadable(folder: str | Path) -> str | None:
    """Return why skills cannot be read from a folder, None if they can."""
    path = Path(folder)
    if not path.is_dir():
        return "this is not a folder" if os.path.lexists(path) else "there is no such folder"
    return None if os.access(path, os.R_OK | os.X_OK) else "this folder cannot be read"


def exposed(file: Path, secrets: str, *, changes: bool) -> Iterator[ConfigFinding]:
    """Yield whether other users of this machine can read the `secrets` in a file, or change it where that matters."""
    if sys.platform == "win32":
        return
    try:
        mode = file.stat().st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode):
        return
    if secrets and mode & _READABLE:
        message = f"other users of this machine can read the secrets in it: {secrets}"
        yield ConfigFinding(Level.WARNING, str(file), None, message, f"run: chmod 600 {file}")
    if changes and mode & _WRITABLE:
        message = "other users of this machine can change it, and so what the server does"
        yield ConfigFinding(Level.WARNING, str(file), None, message, f"run: chmod go-w {file}")
