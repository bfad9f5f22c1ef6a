"""Open files without following links.

Others may write the folders where files lie: a link in the place of a file would lead elsewhere, and a FIFO would
block. So no other module builds its own flags for `os.open`. Child processes never inherit a handle, and no system
changes line ends. Where the system cannot refuse links, callers check before and after.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_COMMON: Final = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOINHERIT", 0) | getattr(os, "O_BINARY", 0)
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
# Without O_NONBLOCK, opening a FIFO blocks until another process writes to it.
_NO_WAIT: Final = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_FOLDER: Final = os.O_RDONLY | _COMMON | getattr(os, "O_DIRECTORY", 0)

PATH_ONLY: Final = getattr(os, "O_PATH", None)
"""The flag that opens what may not be read; None on most systems."""


def open_to_read(path: str | Path, *, dir_fd: int | None = None, follows_links: bool = False) -> int:
    """Open a file to read it, without blocking; the caller checks that it is a regular one."""
    return os.open(path, os.O_RDONLY | _COMMON | _NO_WAIT | (0 if follows_links else _NO_LINK), dir_fd=dir_fd)


def open_folder(
    path: str | Path, *, dir_fd: int | None = None, follows_links: bool = False, more_flags: int = 0
) -> int:
    """Open a folder, to name its entries relative to the handle."""
    return os.open(path, _FOLDER | (0 if follows_links else _NO_LINK) | more_flags, dir_fd=dir_fd)


def open_new(path: str | Path, mode: int = 0o600, *, dir_fd: int | None = None, appends: bool = False) -> int:
    """Create a file to write it; with `appends`, every write goes to its end.

    Raises:
        FileExistsError: the name is taken, be it by a link.
        OSError: the folder cannot be written.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _COMMON | _NO_LINK | (os.O_APPEND if appends else 0)
    return os.open(path, flags, mode, dir_fd=dir_fd)


def open_to_change(path: str | Path, mode: int = 0o600, *, creates: bool = True, appends: bool = False) -> int:
    """Open a file to read and write it; with `creates`, a missing one is created."""
    flags = os.O_RDWR | _COMMON | _NO_LINK | _NO_WAIT
    return os.open(path, flags | (os.O_CREAT if creates else 0) | (os.O_APPEND if appends else 0), mode)
