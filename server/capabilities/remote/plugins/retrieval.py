"""Write the files of an archive or a git repository that others made into a folder.

An archive is a zip, tar or tar.gz. Only regular files are written, within limits and never outside of the folder. Links
are left out, as a server does not follow them; devices and the like, paths that lead elsewhere, and archives that are
larger than they say are refused. Headers are read within a limit of their own, because the libraries keep them in
memory.

One commit of a repository is fetched with the git program, and written without a checkout. Nothing of the repository
runs: there is no work tree, so neither filters nor submodules nor hooks take part, and files come from git's objects
byte for byte. Only plain transports are allowed, git asks for nothing, and what it may fetch is limited. The user's own
settings of git stay in force, such as proxies and stored credentials.
"""

from __future__ import annotations

import gzip
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, cast

import anyio
import anyio.to_thread

from server.capabilities.remote.plugins.installed import PluginError
from skills_core.diagnostics import Reason, one_line
from skills_core.disk.files import MAX_FILE_SIZE
from skills_core.disk.folders import MAIN_FILE, MAIN_FILE_LOWERCASE
from skills_core.errors import system_message
from skills_core.remote.installation import disk_faults
from skills_core.scripts.process import Command, ProcessEnding, ProcessLimits, run_process

if TYPE_CHECKING:
    from server.capabilities.remote.plugins.installed import PluginOrigin

MAX_FILES: Final = 20_000
"""Entries of an archive or repository."""

_MAX_HEADERS: Final = 8 * 1024 * 1024
# Bytes of headers before one file of a tar, and of the directory of a zip.

_MAX_DEPTH: Final = 40
_CHUNK: Final = 1024 * 1024
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED: Final = 0x1


class _Member(NamedTuple):
    """A member of an archive: its path, whether it is a link, and its content; None if it is a folder or a link."""

    path: str
    is_link: bool
    content: IO[bytes] | None


def unpack(archive: Path, target: Path, limit: int) -> list[str]:
    """Write the files of an archive below the new folder `target`, at most `limit` bytes; return the links left out.

    Raises:
        PluginError: the file is not an archive of a known form, is damaged, or is refused.
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
    return links


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
    """Write a file of at most `left` bytes, and return its size."""
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
    bounded = _BoundedFile(raw, os.fstat(raw.fileno()).st_size)
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
    bounded = _BoundedFile(plain, limit + MAX_FILES * 2 * tarfile.BLOCKSIZE + _MAX_HEADERS)
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


class _BoundedFile:
    """A file that limits reading to what `allow` allowed last, and seeking to what precedes `end`."""

    def __init__(self, raw: IO[bytes], end: int) -> None:
        self._raw = raw
        self._end = end
        self._left = 0
        self.last = b""

    def allow(self, count: int) -> None:
        self._left = count

    def read(self, count: int = -1) -> bytes:
        data = self._raw.read(min(count, self._left + 1) if count >= 0 else self._left + 1)
        self._left -= len(data)
        self.last = data
        if self._left < 0:
            raise PluginError(Reason.TOO_LARGE, "its headers or its files are larger than they may be")
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        # Decompressed data that is skipped counts as read.
        if whence == os.SEEK_SET and offset > self._end:
            raise PluginError(Reason.TOO_LARGE, "its files have more bytes than a plugin may have")
        return self._raw.seek(offset, whence)

    def tell(self) -> int:
        return self._raw.tell()

    def seekable(self) -> bool:
        return True


@contextmanager
def _refusing(archive: Path) -> Generator[None]:
    """Turn errors of the libraries into `PluginError`s that name the archive."""
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


_FETCH_SECONDS: Final = 600.0
_READ_SECONDS: Final = 120.0
_MAX_LISTING: Final = 16 * 1024 * 1024
_BATCH: Final = 32 * 1024 * 1024
# Bytes of files that are read from git at once.

_LOOK_SECONDS: Final = 0.25
_SETTINGS: Final = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.askPass": "",
    "credential.interactive": "false",
    "fetch.recurseSubmodules": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    **{f"protocol.{name}.allow": "always" for name in ("https", "http", "ssh", "git", "file")},
}
_LINK: Final = "120000"
_MODULE: Final = "160000"


class _Blob(NamedTuple):
    path: str
    identifier: str
    size: int


async def export_skills(origin: PluginOrigin, scratch: Path, target: Path, limit: int) -> tuple[str, list[str]]:
    """Fetch the commit that `origin` names, and write the folders of its skills below the new folder `target`.

    Return the commit, and the paths of links and submodules that were left out. `scratch` is a new folder for git's
    objects. At most `limit` bytes are fetched, and written.

    Raises:
        PluginError: git is not there, the repository cannot be fetched, or an entry of it is refused.
        OSError: a file cannot be written.
    """
    program = shutil.which("git")
    if program is None:
        message = "git is not installed; install it, or download the repository as an archive and install that"
        raise PluginError(Reason.UNREACHABLE, message)
    await anyio.to_thread.run_sync(scratch.mkdir)
    git = _Git(program, scratch, origin)
    await git.run("init", "--quiet", "--bare", "--template=", ".")
    await git.fetch(limit)
    commit = (await git.run("rev-parse", "--verify", "--quiet", "FETCH_HEAD^{commit}")).decode().strip()
    listing = await git.run("ls-tree", "-r", "-z", "--long", "--full-tree", commit, output=_MAX_LISTING)
    blobs, left_out = _entries_of(listing)
    wanted = _of_skills(blobs)
    if large := next((blob for blob in wanted if blob.size > MAX_FILE_SIZE), None):
        # Compressed, it may have been small.
        message = f"{one_line(large.path[:200])} has {large.size} bytes; the limit of a file is {MAX_FILE_SIZE}"
        raise PluginError(Reason.TOO_LARGE, f"{origin.shown}: {message}")
    if sum(blob.size for blob in wanted) > limit:
        raise PluginError(Reason.TOO_LARGE, f"{origin.shown}: the skills have more than {limit} bytes")
    await anyio.to_thread.run_sync(target.mkdir)
    for batch in _batches(wanted):
        asked = "".join(f"{blob.identifier}\n" for blob in batch).encode()
        most = sum(blob.size + len(blob.identifier) + 64 for blob in batch)
        content = await git.run("cat-file", "--batch", stdin=asked, output=most + _MAX_LISTING)
        await anyio.to_thread.run_sync(_write, content, batch, target)
    return commit, left_out


@dataclass(frozen=True, slots=True)
class _Git:
    program: str
    folder: Path
    origin: PluginOrigin

    async def fetch(self, limit: int) -> None:
        """Fetch the commit without its history; fail if that takes more than `limit` bytes."""
        too_large = False

        async def look(scope: anyio.CancelScope) -> None:
            nonlocal too_large
            while not too_large:
                await anyio.sleep(_LOOK_SECONDS)
                too_large = await anyio.to_thread.run_sync(_size_of, self.folder) > limit
            scope.cancel()

        words = ("fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--")
        fault: PluginError | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(look, group.cancel_scope)
            try:
                await self.run(*words, self.origin.url, self.origin.ref or "HEAD", seconds=_FETCH_SECONDS)
            except PluginError as error:  # raised below, where no task group wraps it
                fault = error
            group.cancel_scope.cancel()
        if fault is not None:
            raise fault
        if too_large or await anyio.to_thread.run_sync(_size_of, self.folder) > limit:
            raise PluginError(Reason.TOO_LARGE, f"{self.origin.shown}: the repository has more than {limit} bytes")

    async def run(
        self, *words: str, stdin: bytes = b"", output: int = 1_000_000, seconds: float = _READ_SECONDS
    ) -> bytes:
        """Run git, and return what it prints."""
        command = Command((self.program, *words), self.folder, _environment(os.environ, self.origin.headers))
        done = await run_process(command, ProcessLimits(seconds, output), stdin)
        if done.ending is ProcessEnding.EXITED and done.exit_code == 0:
            return done.stdout
        why = {
            ProcessEnding.TIMED_OUT: f"git took longer than {seconds:.0f} seconds",
            ProcessEnding.TOO_MUCH_OUTPUT: "the repository has too many files, or files of another size than it says",
            ProcessEnding.NOT_STARTED: f"git cannot be started: {done.fault}",
        }.get(done.ending) or _said(done.stderr)
        reason = Reason.TOO_LARGE if done.ending is ProcessEnding.TOO_MUCH_OUTPUT else Reason.UNREACHABLE
        raise PluginError(reason, f"{self.origin.shown}: {why}")


def _said(stderr: bytes) -> str:
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    return "git refuses: " + one_line(" ".join(lines)[-400:] or "it says nothing")


def _environment(host: Mapping[str, str], headers: Sequence[str]) -> dict[str, str]:
    """Return the environment of git: that of this process, without variables that redirect git or let it prompt.

    The variables that choose the ssh program are kept.
    """
    kept = {name: value for name, value in host.items() if not name.startswith("GIT_") or name.startswith("GIT_SSH")}
    settings = [*_SETTINGS.items(), *(("http.extraHeader", header) for header in headers)]
    # A redirect must not take the credentials to another host.
    settings += [("http.followRedirects", "false")] if headers else []
    numbered = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings):
        numbered |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    quiet = {
        "GIT_ALLOW_PROTOCOL": "https:http:ssh:git:file",
        "GIT_ASKPASS": "",
        "GIT_TERMINAL_PROMPT": "0",
        "GCM_INTERACTIVE": "never",
        "SSH_ASKPASS": "",
        "SSH_ASKPASS_REQUIRE": "never",
        "LC_ALL": "C",
    }
    return {**kept, **numbered, **quiet}


def _size_of(folder: Path) -> int:
    total = 0
    for above, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(above, name).lstat().st_size
            except OSError:
                continue  # git removes its temporary files
    return total


def _entries_of(listing: bytes) -> tuple[list[_Blob], list[str]]:
    """Return the files of a commit, and the paths of its links and submodules."""
    blobs: list[_Blob] = []
    left_out: list[str] = []
    lines = listing.split(b"\0")[:-1]
    if len(lines) > MAX_FILES:
        raise PluginError(Reason.TOO_LARGE, f"the repository has more than {MAX_FILES:,} entries")
    for line in lines:
        about, _, name = line.partition(b"\t")
        mode, _, identifier, size = about.decode("ascii").split()
        path = safe_path(name.decode("utf-8", "surrogateescape"))
        if path is None:
            continue
        if mode in {_LINK, _MODULE}:
            left_out.append(path)
        else:
            blobs.append(_Blob(path, identifier, int(size)))
    return blobs, left_out


def _of_skills(blobs: Sequence[_Blob]) -> list[_Blob]:
    """Return the files in folders of skills."""
    names = {MAIN_FILE, MAIN_FILE_LOWERCASE}
    folders = {blob.path.rpartition("/")[0] for blob in blobs if blob.path.rpartition("/")[2] in names}
    return [blob for blob in blobs if not folders.isdisjoint(_above(blob.path))]


def _above(path: str) -> Iterator[str]:
    yield ""
    yield from (path[:at] for at, char in enumerate(path) if char == "/")


def _batches(blobs: Sequence[_Blob]) -> Iterator[list[_Blob]]:
    batch: list[_Blob] = []
    size = 0
    for blob in blobs:
        if batch and size + blob.size > _BATCH:
            yield batch
            batch, size = [], 0
        batch.append(blob)
        size += blob.size
    if batch:
        yield batch


def _write(content: bytes, batch: Sequence[_Blob], target: Path) -> None:
    """Write the files that `git cat-file --batch` printed."""
    at = 0
    for blob in batch:
        end = content.find(b"\n", at)
        if content[at:end] != f"{blob.identifier} blob {blob.size}".encode():
            raise PluginError(Reason.UNREADABLE, f"git cannot read the file {one_line(blob.path[:200])}")
        with write_new(target, blob.path) as file:
            file.write(content[end + 1 : end + 1 + blob.size])
        at = end + 1 + blob.size + 1
