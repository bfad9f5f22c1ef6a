"""Remove a folder, whatever strangers made of it: any depth, any modes, links to anywhere.

The tree is flattened while it is removed: what is in a folder is unlinked, and the folders in it are moved up next to
it and wait their turn. So there is no recursion, no path longer than two names, and no more than two open folders,
however deep the tree is. Links are unlinked and never followed. Where the system has handles of folders, every step
names an entry of an open folder, so that a process that is still running cannot swap a link in.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from pathlib import Path

__all__ = ["remove_tree"]

_HANDLES = (
    {os.open, os.stat, os.unlink, os.rmdir, os.rename} <= os.supports_dir_fd
    and os.scandir in os.supports_fd
    and hasattr(os, "O_NOFOLLOW")
    and hasattr(os, "O_DIRECTORY")
)
_FOLDER = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_PATH_ONLY = getattr(os, "O_PATH", None)


def remove_tree(root: Path) -> str:
    """Remove a folder and all that is in it; return why something of it is left, nothing where all is gone.

    A folder that is not there is removed already. Mount points and files that the system protects stay.
    """
    if not os.path.lexists(root):
        return ""
    faults: list[str] = []
    try:
        _open_up(root, None)
        with _opened(root, None) as top:
            _empty(root, top, faults)
        root.rmdir()
    except OSError as error:
        faults.append(_told(error))
    return "; ".join(dict.fromkeys(faults[:5]))


def _empty(root: Path, top: int | None, faults: list[str]) -> None:
    """Remove what is in the folder at `root`, which is open as `top` where there are handles."""
    waiting = _remove_files(root, top, _names(root, top), faults)
    names = itertools.count()
    while waiting:
        folder = waiting.pop()
        try:
            waiting += _flatten(root, top, folder, names, faults)
        except OSError as error:
            faults.append(_told(error))


def _flatten(root: Path, top: int | None, folder: str, names: Iterable[int], faults: list[str]) -> list[str]:
    """Remove a folder of the root, after moving the folders in it to the root; return the names that these have there.

    Raises:
        OSError: it cannot be opened, or is not empty.
    """
    place = root / folder
    _open_up(place, top)
    moved = []
    with _opened(place, top) as handle:
        for name in _remove_files(place, handle, _names(place, handle), faults):
            _open_up(place / name, handle)
            for number in names:
                # The new name may be that of a folder which still waits.
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
    """Unlink what is no folder, and return what is one."""
    folders = []
    for name in names:
        try:
            if _is_folder(place / name, handle):
                folders.append(name)
            else:
                _unlink(place / name, handle)
        except OSError as error:
            faults.append(_told(error))
    return folders


def _names(place: Path, handle: int | None) -> list[str]:
    return os.listdir(place if handle is None else handle)  # noqa: PTH208 - a `Path` has no handle


@contextmanager
def _opened(place: Path, above: int | None) -> Generator[int | None]:
    """Open a folder that is no link, by its name in the folder `above` if that is open."""
    if not _HANDLES:
        if _is_link(place):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(place))
        yield None
        return
    handle = os.open(place if above is None else place.name, _FOLDER, dir_fd=above)
    try:
        yield handle
    finally:
        os.close(handle)


def _open_up(place: Path, above: int | None) -> None:
    """Let this user list and change a folder; who owns it may do so whatever its mode is."""
    name = place if above is None else place.name
    with suppress(OSError):
        if _PATH_ONLY is not None and _HANDLES:
            # A folder without any mode can be opened like this alone, and by /proc it is changed without a race.
            handle = os.open(name, _FOLDER | _PATH_ONLY, dir_fd=above)
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
    """Tell whether this is a link or, on Windows, a junction, which is one by another name."""
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
        # On Windows, a file that cannot be written to cannot be removed either, and a junction is removed as a folder.
        if _is_link(place):
            place.rmdir()
        else:
            place.chmod(stat.S_IRWXU)
            place.unlink()


def _told(error: OSError) -> str:
    return f"{error.filename or 'a file'}: {error.strerror or error}"
