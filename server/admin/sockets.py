"""The socket by which the user of a running server can ask things of it, found by the server's port.

It stands in a folder that only this user can enter, so whoever reaches it needs no further proof. Systems without
such sockets have none of this.
"""

from __future__ import annotations

import logging
import os
import socket
import stat
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

__all__ = ["admin_socket", "sockets_of"]

_PATIENCE_SECONDS = 2.0
# A server whose queue is full is there all the same.

logger = logging.getLogger(__name__)


class _UnusableError(SkillsError):
    """No socket can be made in a folder; the message says why."""


@contextmanager
def admin_socket(folders: Iterable[Path], port: int) -> Iterator[socket.socket | None]:
    """Listen in the first of `folders` that can be used, and take the socket away at the end.

    Yields None where the system has no such sockets, or, after a warning, where none can be made.
    """
    opened = None if sys.platform == "win32" else _open_first(folders, port)
    if opened is None:
        yield None
        return
    listener, path = opened
    made = _identity(path)
    try:
        with listener:
            yield listener
    finally:
        # By now it may be that of another server, which found this one gone.
        if made is not None and _identity(path) == made:
            with suppress(OSError):
                path.unlink()


def sockets_of(folders: Iterable[Path], port: int) -> list[Path]:
    """Return where the socket of the server at `port` may be: only in folders that nobody else can write to."""
    return [_path(folder, port) for folder in folders if _is_private(folder)]


def _path(folder: Path, port: int) -> Path:
    return folder / f"{port}.sock"


def _open_first(folders: Iterable[Path], port: int) -> tuple[socket.socket, Path] | None:
    faults: list[str] = []
    for folder in folders:
        path = _path(folder, port)
        try:
            return _open(path), path
        except _UnusableError as error:
            faults.append(str(error))
        except OSError as error:
            faults.append(f"{path}: {(error.strerror or str(error)).lower()}")
    logger.warning("skillserve reload cannot reach this server by a socket: %s", "; ".join(faults))
    return None


def _open(path: Path) -> socket.socket:
    """Listen at `path`, where a socket may lie that a server left behind.

    Raises:
        OSError: the system says no.
        _UnusableError: the folder is not ours alone, or the place is taken.
    """
    with suppress(FileExistsError):
        path.parent.mkdir(mode=0o700)
    if not _is_private(path.parent):
        raise _UnusableError(f"{path.parent}: this is no folder that you alone can enter; remove it")
    _clear(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


def _clear(path: Path) -> None:
    """Remove the socket of a server that is gone."""
    try:
        is_socket = stat.S_ISSOCK(path.lstat().st_mode)
    except FileNotFoundError:
        return
    if not is_socket:
        raise _UnusableError(f"{path}: this is no socket; remove it")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PATIENCE_SECONDS)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except OSError:
            pass
    raise _UnusableError(f"{path}: another server answers there")


def _is_private(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    if sys.platform == "win32":
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
