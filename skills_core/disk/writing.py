"""Write files below a root and never outside of it, lock a file between processes, and keep JSON in files.

As in `files`, no link, no `..`, no special file and no race leads out of the root. Writes are atomic: a temporary file
beside the target is renamed to it, so that a link or hard link at the target is replaced and never followed.

Whoever reads a file, changes it and writes it back needs a lock: two writers may read the same state, and the second
overwrites the change of the first. The systems differ: this uses `flock`, `msvcrt.locking`, or, on disks without locks,
a file that only one process can create.

A JSON file that cannot be read, or holds something else, is never taken for absent: its next writer would overwrite
what is there.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from skills_core.diagnostics import Reason, printable
from skills_core.disk.files import (
    MAX_FILE_SIZE,
    MAX_SETTINGS,
    Location,
    Reader,
    open_folder,
    open_new,
    open_to_change,
    open_to_read,
    read_bounded,
)
from skills_core.errors import FileRefusedError

_SPECIAL_ON_WINDOWS: Final = frozenset('\\:*?"<>|')


def write_file(location: Location, content: bytes, mode: int = 0o666, *, durable: bool = False) -> bool:
    """Write the regular file at `location` and create its folders; return whether the file is new.

    An existing file keeps its mode; a new one gets `mode` without the bits of the process's umask. With `durable`, the
    content is on the disk before the file has its name.

    Raises:
        FileRefusedError: the path leaves the root, contains a link or something that is not a folder, names something
            that is not a regular file, or cannot be written.
    """
    root, relative = location
    folder, _, name = relative.rpartition("/")
    parts = relative.split("/")
    is_special = os.name == "nt" and not _SPECIAL_ON_WINDOWS.isdisjoint(relative)
    if is_special or any(part in {"", ".", ".."} or "\0" in part for part in parts):
        raise FileRefusedError(relative, Reason.UNREADABLE, "this is not a relative path within the folder")
    try:
        with Reader() as reader:
            _make_folders(reader, Location(root, folder))
            with reader.within(Location(root, folder)) as (handle, prefix):
                return _write_regular(handle, prefix, name, content, mode, durable=durable)
    except OSError as error:
        raise _refusal(relative, error) from None


def _make_folders(reader: Reader, folder: Location) -> None:
    """Create a folder and those above it below the root, unless they exist."""
    above = ""
    for name in folder.relative.split("/") if folder.relative else ():
        with reader.within(Location(folder.root, above)) as (handle, prefix), suppress(FileExistsError):
            # If something else exists there, opening it as a folder fails.
            os.mkdir(prefix + name, dir_fd=handle)
        above = f"{above}/{name}" if above else name


def _write_regular(handle: int | None, prefix: str, name: str, content: bytes, mode: int, *, durable: bool) -> bool:
    before = _status(handle, prefix + name)
    if before is not None and not stat.S_ISREG(before.st_mode):
        link = stat.S_ISLNK(before.st_mode)
        raise OSError(errno.ELOOP if link else errno.ENXIO, "this is not a regular file")

    def finish(descriptor: int) -> None:
        if before is not None and hasattr(os, "fchmod"):
            os.fchmod(descriptor, stat.S_IMODE(before.st_mode) & 0o777)

    # Hidden from scans.
    beside = f".{random_name()}.part"
    replace_within(handle, prefix, name, content, beside=beside, mode=mode, finish=finish, durable=durable)
    return before is None


def random_name() -> str:
    """Return a name that no other process can guess, and so create first."""
    return os.urandom(8).hex()


def replace_within(
    handle: int | None,
    prefix: str,
    name: str,
    content: bytes,
    *,
    beside: str,
    mode: int = 0o600,
    finish: Callable[[int], None] = lambda _: None,
    durable: bool = True,
) -> None:
    """Write a file as `beside` in the folder that `Reader.within` opened, and rename it to `name`.

    `finish` gets the open file with its whole content, to set its mode and owner.

    Raises:
        OSError: the file cannot be written; `name` is as it was, and there is no `beside`.
    """
    descriptor = open_new(prefix + beside, mode, dir_fd=handle)
    with _removed_on_failure(handle, prefix + beside):
        with open(descriptor, "wb") as file:  # noqa: PTH123 - it is a descriptor
            file.write(content)
            file.flush()
            finish(file.fileno())
            if durable:
                os.fsync(file.fileno())
        os.replace(prefix + beside, prefix + name, src_dir_fd=handle, dst_dir_fd=handle)


def rename_within(handle: int | None, prefix: str, beside: str, name: str) -> None:
    """Rename `beside` to `name` in a folder that `Reader.within` opened; if that fails, remove it.

    Raises:
        OSError: the folder cannot be written.
    """
    with _removed_on_failure(handle, prefix + beside):
        os.replace(prefix + beside, prefix + name, src_dir_fd=handle, dst_dir_fd=handle)


@contextmanager
def _removed_on_failure(handle: int | None, path: str) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with suppress(OSError):
            os.unlink(path, dir_fd=handle)
        raise


def _status(handle: int | None, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=handle, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _refusal(relative: str, error: OSError) -> FileRefusedError:
    if error.errno in {errno.ELOOP, errno.EMLINK}:
        return FileRefusedError(relative, Reason.SYMLINK, "the path contains a symbolic link; links are not followed")
    if error.errno == errno.ENXIO:
        return FileRefusedError(relative, Reason.SPECIAL_FILE, "this is not a regular file")
    if error.errno == errno.ENOTDIR:
        return FileRefusedError(relative, Reason.UNWRITABLE, "part of the path is not a folder, or is a symbolic link")
    return FileRefusedError(relative, Reason.UNWRITABLE, (error.strerror or "cannot be written").lower())


WAIT_SECONDS: Final = 10.0
"""Maximum wait for another process, which holds the lock for milliseconds."""

_STEP: Final = 0.02
_ABANDONED: Final = 60.0
# Seconds after which the creator of a file used as lock is assumed dead.

_BUSY: Final = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK})

if sys.platform == "win32":
    import msvcrt

    def try_lock(descriptor: int) -> None:
        """Lock an open file until it is closed; `OSError` if another process holds it, or the disk has no locks."""
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def try_lock(descriptor: int) -> None:
        """Lock an open file until it is closed; `OSError` if another process holds it, or the disk has no locks."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def exclusive(path: Path, seconds: float = WAIT_SECONDS) -> Iterator[None]:
    """Hold the lock of the file at `path`; the lock is a file beside it, and is not removed.

    Raises:
        TimeoutError: another process held it for that long.
        OSError: the folder cannot be written.
    """
    lock, end = path.with_name(f"{path.name}.lock"), time.monotonic() + seconds
    descriptor = open_to_change(lock)
    try:
        uses_fallback = not _lock_until(end, descriptor)
        if uses_fallback:
            _create_until(end, _fallback_path(lock))
        try:
            yield
        finally:
            if uses_fallback:
                _fallback_path(lock).unlink(missing_ok=True)
    finally:
        os.close(descriptor)


@contextmanager
def exclusive_folder(path: Path, seconds: float = WAIT_SECONDS) -> Iterator[None]:
    """Hold the lock of a folder, which leaves no file behind; nothing is locked where folders have no locks.

    Raises:
        TimeoutError: another process held it for that long.
        OSError: there is no such folder.
    """
    if os.name == "nt":
        yield
        return
    descriptor = open_folder(path, follows_links=True)
    try:
        _lock_until(time.monotonic() + seconds, descriptor)
        yield
    finally:
        os.close(descriptor)


def _lock_until(end: float, descriptor: int) -> bool:
    """Wait for the lock; return False if the disk has no locks."""
    while True:
        try:
            try_lock(descriptor)
        except OSError as error:
            if error.errno not in _BUSY:
                return False
        else:
            return True
        _wait(end)


def _fallback_path(lock: Path) -> Path:
    return lock.with_name(f"{lock.name}.held")


def _create_until(end: float, path: Path) -> None:
    while True:
        try:
            os.close(open_new(path))
        except FileExistsError:
            with suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > _ABANDONED:
                    path.unlink()
        else:
            return
        _wait(end)


def _wait(end: float) -> None:
    if time.monotonic() >= end:
        raise TimeoutError(errno.ETIMEDOUT, "another process holds the lock of this file")
    time.sleep(_STEP)


PRIVATE: Final = 0o600
"""The mode of a new file that only its user may read."""


class InvalidJsonError(FileRefusedError):
    """A file can be read, and does not hold JSON."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(path, Reason.UNREADABLE, message)


def json_bytes(value: object) -> bytes:
    """Return the content of a JSON file. A lone surrogate, as in the name of a file that is not UTF-8, is escaped.

    Raises:
        ValueError: the value is not JSON.
    """
    text = json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    return text.encode("utf-8", "backslashreplace")


def parse_json(raw: bytes, shown: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value in the bytes of a file; errors name it as `shown`.

    Raises:
        InvalidJsonError: they are not JSON.
    """
    try:
        return json.loads(raw.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidJsonError(shown, f"this is not JSON: {error}") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")


@dataclass(frozen=True, slots=True)
class JsonFile:
    """A file with one JSON value of at most `limit` bytes; a new one gets `mode`.

    Users may link the file to one that they keep elsewhere: then that one is read and written, and the link stays.
    """

    path: Path
    limit: int = MAX_SETTINGS
    mode: int = PRIVATE

    def read(self, check: Callable[[os.stat_result], None] | None = None) -> Any:  # noqa: ANN401 - any JSON value
        """Return the value; None if there is no file. `check` is as in `read_bounded`.

        Raises:
            InvalidJsonError: the file does not hold JSON.
            FileRefusedError: the file exists and cannot be read.
        """
        raw = read_bounded(self.path, self.limit, check)
        return None if raw is None else parse_json(raw, printable(str(self.path)))

    def write(self, value: object, *, durable: bool = False) -> None:
        """Replace the file as a whole, and create its folder; `durable` is as in `write_file`.

        Raises:
            FileRefusedError: the file cannot be written.
            OSError: the folder cannot be created.
            ValueError: the value is not JSON.
        """
        content = json_bytes(value)
        place = self.path.resolve() if self.path.is_symlink() else self.path
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(Location(place.parent, place.name), content, self.mode, durable=durable)

    def locked(self, seconds: float = WAIT_SECONDS) -> AbstractContextManager[None]:
        """Hold the lock of the file, to read it, change the value and write it back; see `exclusive`."""
        return exclusive(self.path, seconds)


def lines_of(file: BinaryIO, limit: int) -> Iterator[tuple[bytes, bool]]:
    """Yield the lines of an open file without their ends, and whether each is complete: the last one may be torn.

    A process that was killed leaves a torn line. A line of more than `limit` bytes is cut, so that memory is bounded.
    """
    while line := file.readline(limit):
        complete = line.endswith(b"\n")
        kept = line.removesuffix(b"\n")
        while not complete and (rest := file.readline(limit)):
            complete = rest.endswith(b"\n")
        yield kept, complete


def json_lines(path: Path) -> Iterator[Any]:
    """Yield the values of a file of JSON lines; none if there is no file. Lines that are not whole are left out.

    Raises:
        OSError: the file exists and cannot be read.
    """
    try:
        descriptor = open_to_read(path)
    except FileNotFoundError:
        return
    with open(descriptor, "rb") as file:  # noqa: PTH123 - it is a descriptor
        for line, _ in lines_of(file, MAX_FILE_SIZE):
            # The end of the last line may be all that is missing.
            with suppress(ValueError, RecursionError):
                yield json.loads(line.decode("utf-8", "replace"))


class LineWriter:
    """Appends lines to an open file, each as a whole or not at all; `size` counts the bytes of its whole lines."""

    def __init__(self, descriptor: int, size: int = 0) -> None:
        """Write to `descriptor`, which was opened to append and has `size` bytes."""
        self.descriptor = descriptor
        self.size = size
        self.fault: OSError | None = None

    def append(self, lines: Sequence[bytes]) -> int:
        """Write lines with their ends, and wait until the disk has them; return how many the file has now.

        If it has fewer than were given, or the disk does not confirm them, `fault` says why. What another process may
        have read as a line is never taken back.
        """
        content = b"".join(lines)
        written = self._write(content)
        kept, end = 0, 0
        while kept < len(lines) and end + len(lines[kept]) <= written:
            end += len(lines[kept])
            kept += 1
        self.size += end
        if written < len(content):
            # Part of a line may be there; a full disk lets a file become shorter.
            with suppress(OSError):
                os.ftruncate(self.descriptor, self.size)
        try:
            os.fsync(self.descriptor)
        except OSError as error:
            self.fault = self.fault or error
        return kept

    def append_all(self, lines: Sequence[bytes]) -> None:
        """Write lines with their ends.

        Raises:
            OSError: the file does not have all of them.
        """
        if self.append(lines) < len(lines):
            raise self.fault or OSError("the file cannot be written")

    def _write(self, content: bytes) -> int:
        self.fault, written = None, 0
        try:
            while written < len(content):
                written += os.write(self.descriptor, memoryview(content)[written:])
        except OSError as error:
            self.fault = error
        return written


def append_line(path: Path, value: object) -> None:
    """Append a JSON value as a line to a file, and create the file; a torn line of a killed process is ended first.

    Its caller holds a lock, so that no other process appends.

    Raises:
        OSError: the file cannot be written.
    """
    line = json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace") + b"\n"
    descriptor = open_to_change(path, 0o666, appends=True)
    try:
        size = os.fstat(descriptor).st_size
        os.lseek(descriptor, max(size - 1, 0), os.SEEK_SET)
        is_torn = size > 0 and os.read(descriptor, 1) != b"\n"
        LineWriter(descriptor, size).append_all([b"\n" * is_torn + line])
    finally:
        os.close(descriptor)
