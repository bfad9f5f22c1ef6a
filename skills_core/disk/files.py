"""Open and read files that others may write: below a root and never outside of it, or one file at a path.

Invariant of `Reader`: no symbolic link, no `..`, no special file and no race between check and open leads out of the
root. Where the system can open relative to a directory handle, each component is opened from the one above without
following links, so that a parent replaced meanwhile fails. On other systems each component is checked first, and then
the open file is compared with the one that was checked.

`read_bounded` reads one small file, such as settings, which users link to one kept elsewhere: links are followed. A
device may have no end, a FIFO blocks until another process writes to it, and opening some devices has effects. So the
type is checked before the file is opened, the file is opened without blocking, and the type of the open file is checked
again.

No other module builds flags for `os.open`: a link in the place of a file would lead elsewhere, and a FIFO would block.
Child processes never inherit a handle, and no system changes line ends.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Final, NamedTuple, Self

from skills_core.diagnostics import Reason, printable
from skills_core.errors import Fault, FileRefusedError, FileUnavailableError, fault_of, system_message

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


def is_private(path: Path) -> bool:
    """Tell whether there is a file that only this user can have written.

    Raises:
        PermissionError: the file or its folder belongs to another user, or others may access it.
        OSError: the system cannot tell.
    """
    try:
        folder, file = path.parent.stat(), path.lstat()
    except FileNotFoundError:
        return False
    if not (stat.S_ISREG(file.st_mode) and stat.S_ISDIR(folder.st_mode)):
        raise PermissionError(f"{path} is not a regular file")
    if hasattr(os, "geteuid"):
        if {folder.st_uid, file.st_uid} != {os.geteuid()}:
            raise PermissionError(f"{path} or its folder belongs to another user")
        if file.st_mode & 0o077 or folder.st_mode & 0o022:
            raise PermissionError(f"other users may access {path} or write its folder")
    return True


def make_private(path: Path) -> None:
    """Make sure that there is a file that only this user can have written, and its folder.

    Raises:
        PermissionError: as in `is_private`.
        OSError: the file cannot be made.
    """
    if not is_private(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(open_to_change(path))
        is_private(path)


MAX_FILE_SIZE = 16 * 1024 * 1024
"""Maximum size of a served file in bytes; the Skills extension allows no larger skill."""

_HANDLES = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW") and hasattr(os, "O_DIRECTORY")

_MAX_HANDLES = 64
# Folders that one reader keeps open; descriptors are limited.


_FINGERPRINT: Final = struct.Struct("<qqqQ")

FINGERPRINT_SIZE: Final = _FINGERPRINT.size
"""The bytes of a fingerprint."""

_RACY_NS: Final = 2_000_000_000
# Two writes within the resolution of a file system's timestamps (2 s on FAT) may have the same time, so what was seen
# sooner after a write may change without a new fingerprint.

_LAST: Final = 2**63 - 1
# Nanoseconds until the year 2262; some file systems have later times.


class Fingerprint(bytes):
    """A file's metadata, to detect changes: equal fingerprints most likely mean equal bytes.

    These are the size, the times of the last write and the last change of metadata in ns, and the inode. A library has
    a fingerprint of each file: packed, one takes 88 bytes, as a tuple of numbers 210.
    """

    __slots__ = ()

    @classmethod
    def of(cls, status: os.stat_result) -> Fingerprint:
        """Return the fingerprint in the result of a stat call."""
        return cls(packed_fingerprint(status))

    @property
    def size(self) -> int:
        """The size in bytes."""
        return int(_FINGERPRINT.unpack(self)[0])

    @property
    def mtime_ns(self) -> int:
        """When the file was last written, in ns since 1970."""
        return int(_FINGERPRINT.unpack(self)[1])

    @property
    def changed_ns(self) -> int:
        """When the file was last written or its metadata last changed, in ns since 1970; on Windows when written."""
        return int(max(_FINGERPRINT.unpack(self)[1:3]))

    def is_settled(self, now: int) -> bool:
        """Tell whether any change after `now`, in ns since 1970, gives another fingerprint."""
        return self.changed_ns < now - _RACY_NS


def packed_fingerprint(status: os.stat_result) -> bytes:
    """Return the bytes of a fingerprint; a start compares hundreds of thousands, and makes no object of each."""
    if os.name == "nt":
        # On Windows a directory entry has nothing else, and ctime is the time of creation.
        return _FINGERPRINT.pack(status.st_size, min(status.st_mtime_ns, _LAST), 0, 0)
    try:
        return _FINGERPRINT.pack(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    except struct.error:
        times = (max(-_LAST, min(each, _LAST)) for each in (status.st_mtime_ns, status.st_ctime_ns))
        return _FINGERPRINT.pack(status.st_size, *times, status.st_ino)


UNKNOWN_FINGERPRINT = Fingerprint(_FINGERPRINT.pack(-1, -1, -1, 0))
"""The fingerprint of a file with unreadable metadata; it equals no other, so that the file is read."""


class Location(NamedTuple):
    """A path relative to a root, separated by `/`, that must not leave the root.

    The root is trusted: neither it nor the folders above are checked for links.
    """

    root: Path
    relative: str

    @property
    def path(self) -> Path:
        """The absolute path, for callers that need no protection against links."""
        return self.root / self.relative

    def lstat(self) -> os.stat_result:
        """Return the metadata of what is there, without following a link.

        Raises:
            OSError: nothing is there, or its metadata cannot be read.
        """
        # Every read from memory checks this; building a `Path` would double the time.
        return os.lstat(f"{self.root}/{self.relative}")


def read_file(location: Location, limit: int = MAX_FILE_SIZE) -> tuple[bytes, Fingerprint]:
    """Return the bytes and the fingerprint of one regular file; see `Reader.read`."""
    with Reader() as reader:
        return reader.read(location, limit)


def read_at_once(location: Location, fingerprint: Fingerprint) -> bytes | None:
    """Return the bytes of a file that was read before, if it has the same fingerprint and the system has it in memory.

    None means that it has changed, that reading would wait for the disk, or that the system cannot tell. No component
    of the path is checked: what has the same fingerprint is the file that was found without following a link.
    """
    if not hasattr(os, "preadv") or not hasattr(os, "RWF_NOWAIT"):
        return None
    try:
        handle = open_to_read(f"{location.root}/{location.relative}")
    except OSError:
        return None
    try:
        if Fingerprint.of(os.fstat(handle)) != fingerprint:
            return None
        content = bytearray(fingerprint.size + 1)
        read = os.preadv(handle, [content], 0, os.RWF_NOWAIT)
        return bytes(content[:read]) if read == fingerprint.size else None
    except OSError:
        return None
    finally:
        os.close(handle)


class Reader:
    """Reads files, and keeps the folders on the way open for the next reads; a context manager."""

    def __init__(self) -> None:
        # By root and path: the hash of a `Path` costs more than that of its text.
        self._folders: dict[tuple[str, str], int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def read(self, location: Location, limit: int = MAX_FILE_SIZE) -> tuple[bytes, Fingerprint]:
        """Return the bytes and the fingerprint of the regular file at `location`.

        Raises:
            FileRefusedError: the path leaves the root or contains a link, or the file is not a regular file, is larger
                than `limit` bytes, does not exist, or may not be read.
            FileUnavailableError: the system cannot read it now.
        """
        root, relative = location
        folder, _, name = relative.rpartition("/")
        try:
            handle = self._open(root, folder, name)
        except OSError as error:
            raise _refusal(relative, error) from None
        try:
            return read_regular(handle, relative, limit)
        except OSError as error:
            raise _refusal(relative, error) from None
        finally:
            os.close(handle)

    @contextmanager
    def within(self, location: Location) -> Generator[tuple[int | None, str]]:
        """Open the folder at `location`: yield a directory handle and `""`, or None and a prefix for paths.

        Where folders have no handles, only a check beforehand makes sure that the path contains no link.

        Raises:
            OSError: there is no such folder, or the path contains a link.
        """
        root, relative = location
        if _HANDLES:
            yield self._handle(root, relative), ""
            return
        for path in _components(root, relative.split("/") if relative else []):
            _plain_status(path)
        yield None, f"{location.path}{os.sep}"

    def entries(self, location: Location) -> AbstractContextManager[Iterator[os.DirEntry[str]]]:
        """List the folder at `location`; entries can be queried for metadata only within the block.

        Raises:
            OSError: there is no such folder, the path contains a link, or the folder cannot be read.
        """
        root, relative = location
        if _HANDLES and os.scandir in os.supports_fd:
            return os.scandir(self._handle(root, relative))
        components = list(_components(root, relative.split("/") if relative else []))
        checked = [_plain_status(path) for path in components]
        with os.scandir(location.path) as entries:
            # Without handles, a listing is used only if the folder was the same before and after.
            listed = list(entries)
            _require_same(checked, [_plain_status(path) for path in components])
        return nullcontext(iter(listed))

    def folder_status(self, location: Location) -> os.stat_result:
        """Return the metadata of the folder at `location`, before it is listed.

        Raises:
            OSError: there is no such folder, or the path contains a link.
        """
        return os.fstat(self._handle(*location)) if _HANDLES else _plain_status(location.path)

    def _open(self, root: Path, folder: str, name: str) -> int:
        if not _HANDLES:
            return _open_checked(root, [*folder.split("/"), name] if folder else [name])
        _require_name(name)
        return open_to_read(name, dir_fd=self._handle(root, folder))

    def _handle(self, root: Path, folder: str) -> int:
        place = (str(root), folder)
        handle = self._folders.get(place)
        if handle is not None:
            return handle
        if len(self._folders) >= _MAX_HANDLES:
            self._close()
        if folder:
            above, _, name = folder.rpartition("/")
            _require_name(name)
            handle = open_folder(name, dir_fd=self._handle(root, above))
        else:
            handle = open_folder(root, follows_links=True)
        self._folders[place] = handle
        return handle

    def _close(self) -> None:
        while self._folders:
            os.close(self._folders.popitem()[1])


def _require_name(name: str) -> None:
    """Refuse anything but a plain name: `..`, separators and Windows drives."""
    if name in {"", ".", ".."} or "\0" in name or (os.name == "nt" and any(char in name for char in "\\:")):
        raise OSError(errno.EINVAL, "this is not a relative path within the folder")


def _open_checked(root: Path, parts: list[str]) -> int:
    """Open without directory handles: check every component, open the file, and check that all are still the same."""
    for part in parts:
        _require_name(part)
    checked = [_plain_status(path) for path in _components(root, parts)]
    handle = open_to_read(root.joinpath(*parts))
    try:
        again = [_plain_status(path) for path in _components(root, parts)]
        _require_same([*checked, checked[-1]], [*again, os.fstat(handle)])
    except BaseException:
        os.close(handle)
        raise
    return handle


def _require_same(before: list[os.stat_result], after: list[os.stat_result]) -> None:
    if not all(os.path.samestat(old, new) for old, new in zip(before, after, strict=True)):
        raise OSError(errno.ESTALE, "the file was replaced while it was being opened")


def _components(root: Path, parts: list[str]) -> Iterator[Path]:
    path = root
    for part in parts:
        path = path / part
        yield path


def _plain_status(path: Path) -> os.stat_result:
    status = path.lstat()
    reparse_point = getattr(status, "st_file_attributes", 0) & getattr(stat, "FILE_ATTRIBUTE_REPARSE_POINT", 0)
    if stat.S_ISLNK(status.st_mode) or reparse_point:
        raise OSError(errno.ELOOP, "the path contains a symbolic link")
    return status


def read_regular(handle: int, shown: str, limit: int) -> tuple[bytes, Fingerprint]:
    """Return the bytes and the fingerprint of an open file; errors name it as `shown`.

    Raises:
        FileRefusedError: it is not a regular file, or is larger than `limit` bytes.
        OSError: it cannot be read.
    """
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        raise FileRefusedError(shown, Reason.SPECIAL_FILE, "this is not a regular file")
    if status.st_size > limit:
        raise _too_large(shown, status.st_size, limit)
    raw = os.read(handle, status.st_size + 1)
    while len(raw) > status.st_size:
        # The file grew while it was read: read on to its new end.
        more = os.read(handle, limit + 1 - len(raw))
        raw += more
        if len(raw) > limit:
            raise _too_large(shown, len(raw), limit)
        if not more:
            break
    return raw, Fingerprint.of(status)


def _too_large(relative: str, size: int, limit: int) -> FileRefusedError:
    return FileRefusedError(relative, Reason.TOO_LARGE, f"the file has {size} bytes; the limit is {limit}")


def _refusal(relative: str, error: OSError) -> FileRefusedError:
    if error.errno in {errno.ELOOP, errno.EMLINK}:
        return FileRefusedError(relative, Reason.SYMLINK, "the path contains a symbolic link; links are not followed")
    if error.errno == errno.ENXIO:
        return FileRefusedError(relative, Reason.SPECIAL_FILE, "this is not a regular file")
    return _refusal_by_fault(relative, error, system_message(error))


def _refusal_by_fault(shown: str, error: OSError, message: str) -> FileRefusedError:
    fault = fault_of(error)
    if fault is Fault.TRANSIENT:
        return FileUnavailableError(shown, Reason.UNREADABLE, message)
    reason = Reason.PERMISSION_DENIED if fault is Fault.DENIED else Reason.UNREADABLE
    return FileRefusedError(shown, reason, message, fault)


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
        raise _refusal_of_path(shown, error) from None
    except ValueError:
        raise FileRefusedError(shown, Reason.UNREADABLE, "this is not a valid path") from None


def _is_link(path: Path) -> bool:
    try:
        return stat.S_ISLNK(path.lstat().st_mode)
    except OSError:
        return False


def _special(shown: str) -> FileRefusedError:
    return FileRefusedError(shown, Reason.SPECIAL_FILE, "this is not a regular file, so it is not opened")


def _refusal_of_path(shown: str, error: OSError) -> FileRefusedError:
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        return FileRefusedError(shown, Reason.UNREADABLE, "this link is broken")
    if error.errno == errno.ELOOP:
        return FileRefusedError(shown, Reason.UNREADABLE, "this link is circular")
    if error.errno == errno.ENXIO:
        return _special(shown)
    return _refusal_by_fault(shown, error, f"cannot be read: {system_message(error)}")
