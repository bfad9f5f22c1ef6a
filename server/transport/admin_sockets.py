"""The Unix socket of the admin endpoint, named after the server's port, or over stdio after its process.

It lies in a folder that only the server's user can enter, so a connection needs no further authentication. Windows has
no such socket.
"""

from __future__ import annotations

import logging
import os
import socket
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from skills_core.errors import SkillsError

logger = logging.getLogger(__name__)


_SUFFIX = ".sock"
_STDIO = "stdio-"

_PATIENCE_SECONDS = 2.0
# A server whose connection queue is full does not answer, but it is running.


class _UnusableError(SkillsError):
    """No socket can be created in a folder; the message says why."""


@contextmanager
def admin_socket(folders: Iterable[Path], name: int | str) -> Iterator[socket.socket | None]:
    """Listen in the first usable folder of `folders`, and remove the socket at the end.

    `name` is the port of the server, or what `stdio_name` returns. Yields None on Windows, and after a warning if no
    socket can be created.
    """
    opened = None if sys.platform == "win32" else _open_first(folders, name)
    if opened is None:
        yield None
        return
    listener, path = opened
    made = _identity(path)
    try:
        with listener:
            yield listener
    finally:
        # The path may belong to another server by now, one that took this server for gone.
        if made is not None and _identity(path) == made:
            with suppress(OSError):
                path.unlink()


def sockets_of(folders: Iterable[Path], port: int) -> list[Path]:
    """Return where the socket of the server at `port` may be: only in folders that no other user can write to."""
    return [_path(folder, port) for folder in folders if _is_private(folder)]


def stdio_name() -> str:
    """Return the name of the socket of this process, which serves over stdio."""
    return f"{_STDIO}{os.getpid()}"


def open_sockets(folders: Iterable[Path]) -> list[Path]:
    """Return the sockets of all servers that run; remove those of servers over stdio that were killed."""
    found: list[Path] = []
    for folder in filter(_is_private, folders):
        for path in sorted(folder.glob(f"*{_SUFFIX}")):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, suppress(OSError):
                probe.settimeout(_PATIENCE_SECONDS)
                try:
                    probe.connect(str(path))
                except ConnectionRefusedError:
                    # Nobody takes the name of such a server again, whose process had it.
                    if path.name.startswith(_STDIO):
                        path.unlink()
                else:
                    found.append(path)
    return found


def _path(folder: Path, name: int | str) -> Path:
    return folder / f"{name}{_SUFFIX}"


def _open_first(folders: Iterable[Path], name: int | str) -> tuple[socket.socket, Path] | None:
    faults: list[str] = []
    for folder in folders:
        path = _path(folder, name)
        try:
            return _open(path), path
        except _UnusableError as error:
            faults.append(str(error))
        except OSError as error:
            faults.append(f"{path}: {(error.strerror or str(error)).lower()}")
    logger.warning("no admin socket, so skillserve reload and watch cannot reach it: %s", "; ".join(faults))
    return None


def _open(path: Path) -> socket.socket:
    """Listen at `path`, and replace the socket of a server that has ended."""
    with suppress(FileExistsError):
        path.parent.mkdir(mode=0o700)
    if not _is_private(path.parent):
        raise _UnusableError(f"{path.parent}: not a folder that only you can enter; remove it")
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
    """Remove the socket of a server that has ended."""
    try:
        is_socket = stat.S_ISSOCK(path.lstat().st_mode)
    except FileNotFoundError:
        return
    if not is_socket:
        raise _UnusableError(f"{path}: not a socket; remove it")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PATIENCE_SECONDS)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except OSError:
            pass
    raise _UnusableError(f"{path}: another server listens there")


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
