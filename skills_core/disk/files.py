"""The boundary: read a file below a root, and never one outside of it.

Invariant: no symbolic link, no `..`, no special file and no race between check and open leads out of the root.
Where the system can open relative to a directory handle, each component is opened from the one above it
without following links, so that a swapped parent fails instead of leading elsewhere. Elsewhere each component
is checked before, and the open file is compared with what was checked.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from skills_core.diagnostics import Reason
from skills_core.errors import FileRefusedError, FileUnavailableError
from skills_core.system_faults import Fault, fault_of, words_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

__all__ = [
    "MAX_FILE_SIZE",
    "OPEN_TO_READ",
    "UNKNOWN_FINGERPRINT",
    "Fingerprint",
    "Location",
    "Reader",
    "read_file",
    "read_regular",
]

MAX_FILE_SIZE = 16 * 1024 * 1024
"""Largest file that is served, in bytes: the Skills extension allows no larger skill, let alone a file."""

_HANDLES = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW") and hasattr(os, "O_DIRECTORY")
OPEN_TO_READ: Final = (
    os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0)
)
# A FIFO opened without O_NONBLOCK would block the request until somebody writes to it.
_READ_FILE = OPEN_TO_READ | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_READ_FOLDER = OPEN_TO_READ | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_DIRECTORY", 0)

_MAX_HANDLES = 64
# Folders that one reader keeps open; a process may have few descriptors.


class Fingerprint(NamedTuple):
    """What a file's metadata says about its content: equal fingerprints, most likely equal bytes."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Fingerprint:
        """Take the fingerprint from the result of a stat call."""
        if os.name == "nt":
            # A folder's listing has no more there, and the time of creation tells nothing.
            return cls(status.st_size, status.st_mtime_ns, 0, 0)
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


UNKNOWN_FINGERPRINT = Fingerprint(-1, -1, -1, -1)
"""Stands for metadata that could not be looked at: it equals that of no file, so that the file is read."""


class Location(NamedTuple):
    """Where bytes are: a path, separated by `/`, below a root that it never leaves.

    The root is trusted: links above it and the root itself are not looked at.
    """

    root: Path
    relative: str

    @property
    def path(self) -> Path:
        """The absolute path, for those that only look."""
        return self.root / self.relative

    def lstat(self) -> os.stat_result:
        """Look at what is there, without following a link.

        Raises:
            OSError: nothing is there, or it cannot be looked at.
        """
        # Every read from memory looks, and to make a `Path` first takes as long again.
        return os.lstat(f"{self.root}/{self.relative}")


def read_file(location: Location, limit: int = MAX_FILE_SIZE) -> tuple[bytes, Fingerprint]:
    """Return the bytes of one regular file, and its fingerprint; see `Reader.read`."""
    with Reader() as reader:
        return reader.read(location, limit)


class Reader:
    """Reads files, keeping the folders open that it came through; use it as a context manager."""

    def __init__(self) -> None:
        self._folders: dict[Location, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def read(self, location: Location, limit: int = MAX_FILE_SIZE) -> tuple[bytes, Fingerprint]:
        """Return the bytes of the regular file at `location`, and its fingerprint.

        Raises:
            FileRefusedError: the path leaves the root, passes a link, is no regular file, is larger than `limit`
                bytes, is not there, or may not be read.
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
        """Give what reaches into the folder at `location`: an open handle and `""`, or None and a prefix for paths.

        Without handles for folders nothing but the look beforehand tells that no link is on the way.

        Raises:
            OSError: there is no such folder, or the way to it passes a link.
        """
        root, relative = location
        if _HANDLES:
            yield self._handle(root, relative), ""
            return
        for path in _components(root, relative.split("/") if relative else []):
            _plain_status(path)
        yield None, f"{location.path}{os.sep}"

    @contextmanager
    def entries(self, location: Location) -> Generator[Iterator[os.DirEntry[str]]]:
        """List the folder at `location`; the entries can be asked for their metadata within the block.

        Raises:
            OSError: there is no such folder, the way to it passes a link, or it cannot be read.
        """
        root, relative = location
        if _HANDLES and os.scandir in os.supports_fd:
            with os.scandir(self._handle(root, relative)) as entries:
                yield entries
            return
        components = list(_components(root, relative.split("/") if relative else []))
        checked = [_plain_status(path) for path in components]
        with os.scandir(location.path) as entries:
            # Where folders have no handles, nothing of a listing counts that was not of this folder all the time.
            listed = list(entries)
            _require_same(checked, [_plain_status(path) for path in components])
            yield iter(listed)

    def _open(self, root: Path, folder: str, name: str) -> int:
        if not _HANDLES:
            return _open_checked(root, [*folder.split("/"), name] if folder else [name])
        _require_name(name)
        return os.open(name, _READ_FILE, dir_fd=self._handle(root, folder))

    def _handle(self, root: Path, folder: str) -> int:
        place = Location(root, folder)
        handle = self._folders.get(place)
        if handle is not None:
            return handle
        if len(self._folders) >= _MAX_HANDLES:
            self._close()
        if folder:
            above, _, name = folder.rpartition("/")
            _require_name(name)
            handle = os.open(name, _READ_FOLDER, dir_fd=self._handle(root, above))
        else:
            handle = os.open(root, OPEN_TO_READ | os.O_DIRECTORY)
        self._folders[place] = handle
        return handle

    def _close(self) -> None:
        while self._folders:
            os.close(self._folders.popitem()[1])


def _require_name(name: str) -> None:
    """Refuse what is no plain name: `..`, a hidden separator, or a drive of Windows."""
    if name in {"", ".", ".."} or "\0" in name or (os.name == "nt" and any(char in name for char in "\\:")):
        raise OSError(errno.EINVAL, "this is no relative path within the folder")


def _open_checked(root: Path, parts: list[str]) -> int:
    """Open without directory handles: check every component, open, and check that it is still the same file."""
    for part in parts:
        _require_name(part)
    checked = [_plain_status(path) for path in _components(root, parts)]
    handle = os.open(root.joinpath(*parts), _READ_FILE)
    try:
        again = [_plain_status(path) for path in _components(root, parts)]
        _require_same([*checked, checked[-1]], [*again, os.fstat(handle)])
    except BaseException:
        os.close(handle)
        raise
    return handle


def _require_same(before: list[os.stat_result], after: list[os.stat_result]) -> None:
    if not all(os.path.samestat(old, new) for old, new in zip(before, after, strict=True)):
        raise OSError(errno.ESTALE, "the file was replaced while it was opened")


def _components(root: Path, parts: list[str]) -> Iterator[Path]:
    path = root
    for part in parts:
        path = path / part
        yield path


def _plain_status(path: Path) -> os.stat_result:
    status = path.lstat()
    reparse_point = getattr(status, "st_file_attributes", 0) & getattr(stat, "FILE_ATTRIBUTE_REPARSE_POINT", 0)
    if stat.S_ISLNK(status.st_mode) or reparse_point:
        raise OSError(errno.ELOOP, "the path passes a symbolic link")
    return status


def read_regular(handle: int, shown: str, limit: int) -> tuple[bytes, Fingerprint]:
    """Return the bytes of an open file, and its fingerprint; errors name it as `shown`.

    Raises:
        FileRefusedError: it is no regular file, or larger than `limit` bytes.
        OSError: it cannot be read.
    """
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        raise FileRefusedError(shown, Reason.SPECIAL_FILE, "this is no regular file")
    if status.st_size > limit:
        raise _too_large(shown, status.st_size, limit)
    raw = os.read(handle, status.st_size + 1)
    while len(raw) > status.st_size:
        # The file grows while it is read: go on to what is its end now.
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
        return FileRefusedError(relative, Reason.SYMLINK, "the path passes a symbolic link, and links are not followed")
    if error.errno == errno.ENXIO:
        return FileRefusedError(relative, Reason.SPECIAL_FILE, "this is no regular file")
    fault = fault_of(error)
    if fault is Fault.PASSING:
        return FileUnavailableError(relative, Reason.UNREADABLE, words_of(error))
    reason = Reason.PERMISSION_DENIED if fault is Fault.DENIED else Reason.UNREADABLE
    return FileRefusedError(relative, reason, words_of(error), fault)
