"""Unpack an archive that others made: zip, tar or tar.gz, within limits and never outside of its folder.

Only regular files are written. Links are left out, as a server does not follow them; devices and the like, paths that
lead elsewhere, and archives that are larger than they say are refused. Headers are read within a limit of their own,
because the libraries keep them in memory.
"""

from __future__ import annotations

import gzip
import os
import stat
import tarfile
import zipfile
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from server.plugins.record import PluginError
from skills_core.diagnostics import Reason, one_line
from skills_core.remote.installation import disk_faults
from skills_core.system_faults import system_message

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path
    from typing import IO

__all__ = ["MAX_FILES", "Unpacked", "safe_path", "unpack", "write_new"]

MAX_FILES: Final = 20_000
"""Entries of an archive or repository."""

_MAX_HEADERS: Final = 8 * 1024 * 1024
# Bytes of headers before one file of a tar, and of the directory of a zip.

_MAX_DEPTH: Final = 40
_CHUNK: Final = 1024 * 1024
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED: Final = 0x1


class Unpacked(NamedTuple):
    """What was written in bytes, and the paths of links that were left out."""

    size: int
    links: tuple[str, ...]


class _Member(NamedTuple):
    """A member of an archive: its path, whether it is a link, and its content; None if it is a folder or a link."""

    path: str
    is_link: bool
    content: IO[bytes] | None


def unpack(archive: Path, target: Path, limit: int) -> Unpacked:
    """Write the files of an archive below the new folder `target`, at most `limit` bytes.

    Raises:
        PluginError: the file is no archive of a known form, is damaged, or is refused.
        OSError: a file cannot be written.
    """
    target.mkdir()
    left, links, count = limit, list[str](), 0
    try:
        opened = archive.open("rb")
    except OSError as error:
        raise _refused(archive, Reason.UNREADABLE, f"it cannot be read: {system_message(error)}") from None
    with _refusing(archive), opened as raw:
        if not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
            raise _refused(archive, Reason.UNREADABLE, "this is not a regular file")
        for entry in _entries(archive, raw, limit):
            count += 1
            if count > MAX_FILES:
                raise _refused(archive, Reason.TOO_LARGE, f"it has more than {MAX_FILES:,} entries")
            path = safe_path(entry.path)
            if path is None:
                continue
            if entry.is_link:
                links.append(path)
            elif entry.content is not None:
                left -= _copy(entry.content, target, path, left)
    return Unpacked(limit - left, tuple(links))


def safe_path(name: str) -> str | None:
    """Return the path of an entry below its folder; None for git's own files and for the folder itself.

    Raises:
        PluginError: the path leads elsewhere, or this system cannot have it.
    """
    parts = [part for part in name.rstrip("/").split("/") if part != "."]
    if not parts or ".git" in (part.lower() for part in parts):
        return None
    path = "/".join(parts)
    faults = disk_faults([path])
    drive = os.name == "nt" and ":" in parts[0]
    if faults or drive or len(parts) > _MAX_DEPTH:
        why = faults[0].message if faults else "the path is absolute or too deep"
        raise PluginError(Reason.UNSUPPORTED_NAME, f"the entry '{one_line(name[:200])}' cannot be unpacked: {why}")
    return path


def write_new(target: Path, path: str) -> IO[bytes]:
    """Open a new file below a folder that has no links.

    Raises:
        PluginError: there is something of this name already.
        OSError: it cannot be written.
    """
    file = target.joinpath(*path.split("/"))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return file.open("xb")
    except (FileExistsError, NotADirectoryError):
        message = f"the entry '{one_line(path[:200])}' is there twice, or both as a file and as a folder"
        raise PluginError(Reason.NAME_COLLISION, message) from None


def _copy(content: IO[bytes], target: Path, path: str, left: int) -> int:
    """Write a file, and return its size.

    Raises:
        PluginError: it has more than `left` bytes.
    """
    size = 0
    with write_new(target, path) as file:
        while piece := content.read(_CHUNK):
            size += len(piece)
            if size > left:
                raise PluginError(Reason.TOO_LARGE, "its files have more bytes than a plugin may have")
            file.write(piece)
    return size


def _entries(archive: Path, raw: IO[bytes], limit: int) -> Iterator[_Member]:
    magic = raw.read(4)
    raw.seek(0)
    if magic.startswith((b"PK\3\4", b"PK\5\6")):
        yield from _of_zip(archive, raw)
    elif magic.startswith(b"\x1f\x8b"):
        with gzip.GzipFile(fileobj=raw) as plain:
            yield from _of_tar(archive, cast("IO[bytes]", plain), limit)
    else:
        yield from _of_tar(archive, raw, limit)


def _of_zip(archive: Path, raw: IO[bytes]) -> Iterator[_Member]:
    bounded = _Bounded(raw, os.fstat(raw.fileno()).st_size)
    bounded.allow(2 * _MAX_HEADERS)
    with zipfile.ZipFile(bounded) as opened:
        for info in opened.infolist():
            mode = info.external_attr >> 16
            if info.flag_bits & _ENCRYPTED or info.compress_type not in _METHODS:
                message = f"'{one_line(info.filename[:200])}' is encrypted or compressed in a way that is not read"
                raise _refused(archive, Reason.UNREADABLE, message)
            if stat.S_IFMT(mode) not in {0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK}:
                raise _refused(archive, Reason.UNREADABLE, f"'{one_line(info.filename[:200])}' is a special file")
            if info.is_dir() or stat.S_ISLNK(mode):
                yield _Member(info.filename, stat.S_ISLNK(mode), None)
                continue
            bounded.allow(info.compress_size + _CHUNK)
            with opened.open(info) as content:
                yield _Member(info.filename, False, content)


def _of_tar(archive: Path, plain: IO[bytes], limit: int) -> Iterator[_Member]:
    bounded = _Bounded(plain, limit + MAX_FILES * 2 * tarfile.BLOCKSIZE + _MAX_HEADERS)
    bounded.allow(_MAX_HEADERS)
    with tarfile.open(fileobj=cast("IO[bytes]", bounded), mode="r:") as opened:
        while (member := opened.next()) is not None:
            name = member.name
            if not (member.isreg() or member.isdir() or member.issym() or member.islnk()) or member.issparse():
                raise _refused(archive, Reason.UNREADABLE, f"'{one_line(name[:200])}' is a special file")
            if member.isreg():
                bounded.allow(member.size + _CHUNK)
                yield _Member(name, False, opened.extractfile(member))
            else:
                yield _Member(name, not member.isdir(), None)
            cast("Any", opened).members.clear()  # It keeps the headers of all members otherwise.
            bounded.allow(_MAX_HEADERS)
        # The library takes a damaged header for the end, which is a block of zeros.
        if bounded.last != bytes(tarfile.BLOCKSIZE):
            raise _refused(archive, Reason.UNREADABLE, "it is damaged: it ends too early, or a header cannot be read")
        bounded.allow(_CHUNK)
        bounded.read(_CHUNK)  # At its end, gzip compares the sum.


class _Bounded:
    """A file of which no more is read than was allowed last, and nothing beyond `end`."""

    def __init__(self, raw: IO[bytes], end: int) -> None:
        self._raw = raw
        self._end = end
        self._left = 0
        self.last = b""

    def allow(self, count: int) -> None:
        """Allow to read `count` bytes from now on."""
        self._left = count

    def read(self, count: int = -1) -> bytes:
        """Return bytes.

        Raises:
            PluginError: they are more than allowed.
        """
        data = self._raw.read(min(count, self._left + 1) if count >= 0 else self._left + 1)
        self._left -= len(data)
        self.last = data
        if self._left < 0:
            raise PluginError(Reason.TOO_LARGE, "its headers or its files are larger than they may be")
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move; decompressed data that is skipped counts as read."""
        if whence == os.SEEK_SET and offset > self._end:
            raise PluginError(Reason.TOO_LARGE, "its files have more bytes than a plugin may have")
        return self._raw.seek(offset, whence)

    def tell(self) -> int:
        """Return the position."""
        return self._raw.tell()

    def seekable(self) -> bool:
        """Yes: for reading forward."""
        return True


@contextmanager
def _refusing(archive: Path) -> Generator[None]:
    """Make errors of the libraries refusals, and name the archive in them."""
    try:
        yield
    except PluginError as error:
        if error.message.startswith(str(archive)):
            raise
        raise _refused(archive, error.reason, error.message) from None
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, gzip.BadGzipFile) as error:
        said = one_line(str(error))[:200] or "it ends too early"
        message = f"this is not a zip, tar or tar.gz archive, or it is damaged: {said}"
        raise _refused(archive, Reason.UNREADABLE, message) from None
    except (ValueError, NotImplementedError, RuntimeError, LookupError) as error:
        message = f"it cannot be read: {one_line(str(error))[:200]}"
        raise _refused(archive, Reason.UNREADABLE, message) from None


def _refused(archive: Path, reason: Reason, message: str) -> PluginError:
    return PluginError(reason, f"{archive}: {message}")
