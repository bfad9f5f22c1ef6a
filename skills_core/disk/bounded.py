"""Read one small file that a stranger may have put there: a regular file, of a bounded size, without ever waiting.

Settings, lists and rules lie in places that a repository, another user or a program can write to. A link to a device
has no end, a FIFO blocks until another process writes to it, and to open some devices is to use them. So the type is
looked at before the file is opened, it is opened without blocking, and the type counts that the open file has.

Links are followed: users keep their settings elsewhere and link to them. What must not leave a folder `files` reads.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Final

from skills_core.diagnostics import Reason, printable
from skills_core.disk.files import OPEN_TO_READ, read_regular
from skills_core.errors import FileRefusedError, FileUnavailableError
from skills_core.system_faults import Fault, fault_of, words_of

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["MAX_SETTINGS", "read_bounded"]

MAX_SETTINGS: Final = 1024 * 1024
"""Most bytes of a file of settings; people write a few thousand."""

_FLAGS: Final = OPEN_TO_READ | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


def read_bounded(path: Path, limit: int = MAX_SETTINGS) -> bytes | None:
    """Return the bytes of the regular file at `path`, None where there is nothing of this name.

    A link that leads nowhere is something: it is refused, as is all else that cannot be read.

    Raises:
        FileRefusedError: it is no regular file, has more than `limit` bytes, or cannot be read; its text tells which
            file, what is wrong, and what was expected.
        FileUnavailableError: the system cannot read it now.
    """
    shown = printable(str(path))
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise _special(shown)
        handle = os.open(path, _FLAGS)
        try:
            return read_regular(handle, shown, limit)[0]
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ENOTDIR} and not _is_link(path):
            return None
        raise _refusal(shown, error) from None
    except ValueError:
        raise FileRefusedError(shown, Reason.UNREADABLE, "this is no path") from None


def _is_link(path: Path) -> bool:
    try:
        return stat.S_ISLNK(path.lstat().st_mode)
    except OSError:
        return False


def _special(shown: str) -> FileRefusedError:
    return FileRefusedError(shown, Reason.SPECIAL_FILE, "this is no regular file, so it is not opened")


def _refusal(shown: str, error: OSError) -> FileRefusedError:
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        return FileRefusedError(shown, Reason.UNREADABLE, "this link leads nowhere")
    if error.errno == errno.ELOOP:
        return FileRefusedError(shown, Reason.UNREADABLE, "this link leads in a circle")
    if error.errno == errno.ENXIO:
        return _special(shown)
    fault, message = fault_of(error), f"cannot be read: {words_of(error)}"
    if fault is Fault.PASSING:
        return FileUnavailableError(shown, Reason.UNREADABLE, message)
    reason = Reason.PERMISSION_DENIED if fault is Fault.DENIED else Reason.UNREADABLE
    return FileRefusedError(shown, reason, message, fault)
