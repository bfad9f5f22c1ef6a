"""Replace a folder by another one of the same disk.

A folder with content cannot be renamed over another. Linux and macOS can exchange two folders in one step, so that one
of the two is there at every moment; elsewhere it takes two renames.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["exchange_within", "replace_folder"]

_AT_FDCWD = -2 if sys.platform == "darwin" else -100
_EXCHANGE = 2
# RENAME_EXCHANGE of Linux, and RENAME_SWAP of macOS.


def replace_folder(new: Path, target: Path, aside: Path) -> Path:
    """Move the folder `new` to `target`; return where the folder that was at `target` is now.

    That is `new` where the system can exchange folders, otherwise `aside`, which must not exist.

    Raises:
        OSError: the system refuses; `target` is unchanged then.
    """
    if _exchanged(new, target):
        return new
    target.rename(aside)
    try:
        new.rename(target)
    except BaseException:
        aside.rename(target)
        raise
    return aside


def exchange_within(handle: int, one: str, other: str) -> bool:
    """Exchange two entries of an open folder in one step; return False if the system or the disk cannot."""
    exchange = _system_exchange()
    if exchange is None:
        return False
    return exchange(handle, os.fsencode(one), handle, os.fsencode(other), _EXCHANGE) == 0


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two folders; return False if the system or the disk cannot."""
    exchange = _system_exchange()
    if exchange is None:
        return False
    return exchange(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE) == 0


@functools.cache
def _system_exchange() -> Callable[[int, bytes, int, bytes, int], int] | None:
    """Return the system's function that renames with flags; None if it has none."""
    name = {"linux": "renameat2", "darwin": "renameatx_np"}.get(sys.platform)
    function = getattr(ctypes.CDLL(None), name, None) if name else None
    if function is None:
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    function.restype = ctypes.c_int
    return function  # type: ignore[no-any-return]
