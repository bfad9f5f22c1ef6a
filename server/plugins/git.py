"""Fetch one commit of a git repository with the git program, and write its skills' files without a checkout.

Nothing of the repository runs: there is no work tree, so neither filters nor submodules nor hooks take part, and files
come from git's objects byte for byte. Only plain transports are allowed, git asks for nothing, and what it may fetch is
limited. The user's own settings of git stay in force, such as proxies and stored credentials.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio
import anyio.to_thread

from server.plugins.archives import MAX_FILES, safe_path, write_new
from server.plugins.record import PluginError
from skills_core.diagnostics import Reason, one_line
from skills_core.disk.files import MAX_FILE_SIZE
from skills_core.disk.folders import MAIN_FILE, MAIN_FILE_LOWERCASE
from skills_core.run.scripts.process import Command, ProcessEnding, ProcessLimits, run_process

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from server.plugins.origins import Origin

__all__ = ["Exported", "export_skills"]

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


@dataclass(frozen=True, slots=True)
class Exported:
    """The commit whose files were written, and the paths of links and submodules that were left out."""

    commit: str
    left_out: tuple[str, ...]


class _Blob(NamedTuple):
    path: str
    identifier: str
    size: int


async def export_skills(origin: Origin, scratch: Path, target: Path, limit: int) -> Exported:
    """Fetch the commit that `origin` names, and write the folders of its skills below the new folder `target`.

    `scratch` is a new folder for git's objects. At most `limit` bytes are fetched, and written.

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
    return Exported(commit, left_out)


@dataclass(frozen=True, slots=True)
class _Git:
    program: str
    folder: Path
    origin: Origin

    async def fetch(self, limit: int) -> None:
        """Fetch the commit alone.

        Raises:
            PluginError: git refuses, or fetches more than `limit` bytes.
        """
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
        """Run git, and return what it prints.

        Raises:
            PluginError: it fails.
        """
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
    """Return the environment of git: that of this process, without what leads git elsewhere or lets it ask.

    The programs that connect by ssh are the user's choice.
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


def _entries_of(listing: bytes) -> tuple[list[_Blob], tuple[str, ...]]:
    """Return the files of a commit, and the paths of its links and submodules.

    Raises:
        PluginError: it has too many entries, or one with a path that leads elsewhere.
    """
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
    return blobs, tuple(left_out)


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
    """Write files from what `git cat-file --batch` printed.

    Raises:
        PluginError: it is not what was listed.
    """
    at = 0
    for blob in batch:
        end = content.find(b"\n", at)
        if content[at:end] != f"{blob.identifier} blob {blob.size}".encode():
            raise PluginError(Reason.UNREADABLE, f"git cannot read the file {one_line(blob.path[:200])}")
        with write_new(target, blob.path) as file:
            file.write(content[end + 1 : end + 1 + blob.size])
        at = end + 1 + blob.size + 1
