"""Replace and remove folders as a whole.

A folder with content cannot be renamed over another. Linux and macOS can exchange two folders in one step, so that one
of the two is there at every moment; elsewhere it takes two renames.

Content that is removed is untrusted: any depth, any modes, any links. The tree is flattened while it is removed: the
files of a folder are unlinked, and its subfolders are moved up beside it to be removed later. So there is no recursion,
no path longer than two names, and no more than two open folders, however deep the tree is. Links are unlinked and never
followed. Where the system has directory handles, every step names an entry of an open folder, so that a process that is
still running cannot put a link in its place.
"""

from __future__ import annotations

import errno
import functools
import itertools
import os
import stat
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path

from skills_core.disk.files import PATH_ONLY, open_folder

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
    import ctypes  # noqa: PLC0415 - most processes replace no folder

    name = {"linux": "renameat2", "darwin": "renameatx_np"}.get(sys.platform)
    function = getattr(ctypes.CDLL(None), name, None) if name else None
    if function is None:
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    function.restype = ctypes.c_int
    return function  # type: ignore[no-any-return]


_HANDLES = (
    {os.open, os.stat, os.unlink, os.rmdir, os.rename} <= os.supports_dir_fd
    and os.scandir in os.supports_fd
    and hasattr(os, "O_NOFOLLOW")
    and hasattr(os, "O_DIRECTORY")
)


def remove_tree(root: Path) -> str:
    """Remove a folder with its content; return why something is left, or `""` if all is removed.

    A folder that does not exist counts as removed. Mount points and files that the system protects are left.
    """
    if not os.path.lexists(root):
        return ""
    faults: list[str] = []
    try:
        _make_accessible(root, None)
        with _opened(root, None) as top:
            _empty(root, top, faults)
        root.rmdir()
    except OSError as error:
        faults.append(_message(error))
    return "; ".join(dict.fromkeys(faults[:5]))


def _empty(root: Path, top: int | None, faults: list[str]) -> None:
    """Remove the content of the folder at `root`; `top` is its handle, if the system has directory handles."""
    waiting = _remove_files(root, top, _names(root, top), faults)
    names = itertools.count()
    while waiting:
        folder = waiting.pop()
        try:
            waiting += _flatten(root, top, folder, names, faults)
        except OSError as error:
            faults.append(_message(error))


def _flatten(root: Path, top: int | None, folder: str, names: Iterable[int], faults: list[str]) -> list[str]:
    """Remove a folder of the root after moving its subfolders to the root; return their new names.

    Raises:
        OSError: the folder cannot be opened, or is not empty.
    """
    place = root / folder
    _make_accessible(place, top)
    moved = []
    with _opened(place, top) as handle:
        for name in _remove_files(place, handle, _names(place, handle), faults):
            _make_accessible(place / name, handle)
            for number in names:
                # Another folder that is still to be removed may have the new name.
                free = f".removed-{number}"
                if not _exists(root / free, top):
                    _rename(place / name, handle, root / free, top)
                    moved.append(free)
                    break
    if top is None:
        place.rmdir()
    else:
        os.rmdir(folder, dir_fd=top)
    return moved


def _remove_files(place: Path, handle: int | None, names: list[str], faults: list[str]) -> list[str]:
    """Unlink everything but folders, and return the folders."""
    folders = []
    for name in names:
        try:
            if _is_folder(place / name, handle):
                folders.append(name)
            else:
                _unlink(place / name, handle)
        except OSError as error:
            faults.append(_message(error))
    return folders


def _names(place: Path, handle: int | None) -> list[str]:
    return os.listdir(place if handle is None else handle)  # noqa: PTH208 - a `Path` has no handle


@contextmanager
def _opened(place: Path, above: int | None) -> Generator[int | None]:
    """Open a folder that is not a link, by its name in the open folder `above` if there is one."""
    if not _HANDLES:
        if _is_link(place):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(place))
        yield None
        return
    handle = open_folder(place if above is None else place.name, dir_fd=above)
    try:
        yield handle
    finally:
        os.close(handle)


def _make_accessible(place: Path, above: int | None) -> None:
    """Give this user access to a folder; its owner may change the mode whatever it is."""
    name = place if above is None else place.name
    with suppress(OSError):
        if PATH_ONLY is not None and _HANDLES:
            # Only O_PATH opens a folder without permissions, and chmod by /proc has no race.
            handle = open_folder(name, dir_fd=above, more_flags=PATH_ONLY)
            try:
                os.chmod(f"/proc/self/fd/{handle}", stat.S_IRWXU)  # noqa: PTH101 - likewise
            finally:
                os.close(handle)
        elif os.chmod in os.supports_follow_symlinks:
            os.chmod(name, stat.S_IRWXU, dir_fd=above, follow_symlinks=False)
        elif not _is_link(place):
            place.chmod(stat.S_IRWXU)


def _is_folder(place: Path, handle: int | None) -> bool:
    if handle is None:
        return not _is_link(place) and stat.S_ISDIR(place.lstat().st_mode)
    return stat.S_ISDIR(os.stat(place.name, dir_fd=handle, follow_symlinks=False).st_mode)


def _is_link(place: Path) -> bool:
    """Tell whether this is a link or a Windows junction."""
    status = place.lstat()
    reparse_point = getattr(status, "st_file_attributes", 0) & getattr(stat, "FILE_ATTRIBUTE_REPARSE_POINT", 0)
    return stat.S_ISLNK(status.st_mode) or bool(reparse_point)


def _exists(place: Path, handle: int | None) -> bool:
    try:
        os.stat(place if handle is None else place.name, dir_fd=handle, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _rename(place: Path, handle: int | None, target: Path, top: int | None) -> None:
    if handle is None or top is None:
        place.rename(target)
    else:
        os.rename(place.name, target.name, src_dir_fd=handle, dst_dir_fd=top)


def _unlink(place: Path, handle: int | None) -> None:
    if handle is not None:
        os.unlink(place.name, dir_fd=handle)
        return
    try:
        place.unlink()
    except PermissionError:
        # On Windows a read-only file cannot be removed, and a junction is removed like a folder.
        if _is_link(place):
            place.rmdir()
        else:
            place.chmod(stat.S_IRWXU)
            place.unlink()


def _message(error: OSError) -> str:
    return f"{error.filename or 'a file'}: {error.strerror or error}"
