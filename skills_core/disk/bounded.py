"""Read one small file that others may have written: only a regular file of bounded size, and without blocking.

Repositories, other users and programs can write where settings, lists and ignore rules are kept. A device may have no
end, a FIFO blocks until another process writes to it, and opening some devices has effects. So the type is checked
before the file is opened, the file is opened without blocking, and the type of the open file is checked again.

Links are followed, because users link to settings kept elsewhere. `files` reads what must stay within a folder.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Final

from skills_core.diagnostics import Reason, printable
from skills_core.disk.files import read_regular
from skills_core.disk.opening import open_to_read
from skills_core.errors import FileRefusedError, FileUnavailableError
from skills_core.system_faults import Fault, fault_of, system_message

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["MAX_SETTINGS", "read_bounded"]

MAX_SETTINGS: Final = 1024 * 1024
"""Maximum size of a settings file in bytes; usual ones have a few thousand."""


def read_bounded(
    path: Path, limit: int = MAX_SETTINGS, check: Callable[[os.stat_result], None] | None = None
) -> bytes | None:
    """Return the bytes of the regular file at `path`, None if nothing has this name.

    A broken link is refused rather than taken for absence. `check` is called with the status of the open file, and may
    raise an error: another file may have the name a moment later.

    Raises:
        FileRefusedError: it is not a regular file, has more than `limit` bytes, or cannot be read.
        FileUnavailableError: the system cannot read it now.
    """
    shown = printable(str(path))
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise _special(shown)
        handle = open_to_read(path, follows_links=True)
        try:
            if check is not None:
                check(os.fstat(handle))
            return read_regular(handle, shown, limit)[0]
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ENOTDIR} and not _is_link(path):
            return None
        raise _refusal(shown, error) from None
    except ValueError:
        raise FileRefusedError(shown, Reason.UNREADABLE, "this is not a valid path") from None


def _is_link(path: Path) -> bool:
    try:
        return stat.S_ISLNK(path.lstat().st_mode)
    except OSError:
        return False


def _special(shown: str) -> FileRefusedError:
    return FileRefusedError(shown, Reason.SPECIAL_FILE, "this is not a regular file, so it is not opened")


def _refusal(shown: str, error: OSError) -> FileRefusedError:
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        return FileRefusedError(shown, Reason.UNREADABLE, "this link is broken")
    if error.errno == errno.ELOOP:
        return FileRefusedError(shown, Reason.UNREADABLE, "this link is circular")
    if error.errno == errno.ENXIO:
        return _special(shown)
    fault, message = fault_of(error), f"cannot be read: {system_message(error)}"
    if fault is Fault.TRANSIENT:
        return FileUnavailableError(shown, Reason.UNREADABLE, message)
    reason = Reason.PERMISSION_DENIED if fault is Fault.DENIED else Reason.UNREADABLE
    return FileRefusedError(shown, reason, message, fault)
