"""Watch sources, and report the changed paths after each burst of changes.

A burst ends when nothing changed for the debounce time, so that a checkout of a thousand files is one burst. Roots may
be deleted and recreated: their identity is checked at an interval, and a replaced root is watched anew and reported as
a whole. Where system notifications do not work (network file systems, no watches left), polling reports at an interval
that anything may have changed, and the library compares. The interval grows with the time that this takes, so that
polling takes at most a twentieth of one core.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
import threading
import time
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import anyio
import anyio.to_thread

from skills_core.disk.files import Fingerprint
from skills_core.disk.folders import is_ignored
from skills_core.disk.gitignore import FILE_NAME
from skills_core.errors import is_absence
from skills_core.live.watch_options import WatchMode, WatchOptions

logger = logging.getLogger(__name__)

_STEP_MS = 10
# The notifier collects events for one step, and delivers them when the next step has none.

_MAX_DELAY = 10
# An endless burst is reported after this many debounce times.

_MAX_BATCH = 8000
# Linux queues 16,384 events, and one path may have several.

_REST = 19
# The rest after each comparison of polling, in times that it took.

_LIMIT = Path("/proc/sys/fs/inotify/max_user_watches")
# Linux has one watch for each folder, and a limit for each user.

_NETWORK_FILE_SYSTEMS = frozenset(
    {"9p", "afs", "ceph", "cifs", "drvfs", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "smb", "smb3", "smbfs"}
    | {"fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "vboxsf", "virtiofs"}
)


async def watch(roots: Sequence[Path], options: WatchOptions) -> AsyncGenerator[frozenset[Path] | None]:
    """Yield the paths of each burst of changes below `roots`; None means that anything may have changed.

    The first item is None and comes when watching has begun, so that no change between the load of the library and the
    watch is missed. Yields nothing if the mode is off.
    """
    if options.mode is WatchMode.OFF:
        return
    # A server answers its first requests before it watches.
    from watchfiles._rust_notify import WatchfilesRustInternalError  # noqa: PLC0415

    polling = options.mode is WatchMode.POLL
    if options.mode is WatchMode.AUTO:
        remote = await anyio.to_thread.run_sync(lambda: [str(root) for root in roots if is_remote(root)])
        if remote:
            logger.info("polling every %g s, because a network file system may hold %s", options.poll_interval, remote)
        polling = bool(remote)
    while not polling:
        try:
            notifier = await anyio.to_thread.run_sync(_Notifier, roots)
            async for paths in notifier.bursts(options):
                yield paths
        except (OSError, ValueError, WatchfilesRustInternalError) as error:
            # No watches left, no support, or a name that is not UTF-8.
            polling = True
            message = (
                "the system cannot watch all folders (%s); polling every %g s instead, or less often if it takes long"
            )
            logger.warning(message, error, options.poll_interval)
            if getattr(error, "errno", None) == errno.ENOSPC and (
                advice := await anyio.to_thread.run_sync(_advice, roots)
            ):
                logger.warning("%s", advice)
    told = options.poll_interval
    while True:
        begin = time.monotonic()
        yield None
        interval = max(options.poll_interval, _REST * (time.monotonic() - begin))
        if interval > 2 * told:
            logger.info("polling every %.0f s from now on, because comparing all files takes long", interval)
            told = interval
        await anyio.sleep(interval)


async def watch_files(files: Sequence[Path], options: WatchOptions) -> AsyncGenerator[None]:
    """Yield whenever one of a few files changed, appeared or vanished; see `watch` for the options.

    The files are polled: notifications would require a watch on their whole folders.
    """
    known = await anyio.to_thread.run_sync(_fingerprints, files)
    while files and options.mode is not WatchMode.OFF:
        await anyio.sleep(options.poll_interval)
        found = await anyio.to_thread.run_sync(_fingerprints, files)
        if found != known:
            known = found
            yield


def _fingerprints(files: Sequence[Path]) -> list[Fingerprint | None]:
    found: list[Fingerprint | None] = []
    for file in files:
        try:
            found.append(Fingerprint.of(file.stat()))
        except OSError:
            found.append(None)
    return found


class _Notifier:
    """The system's change notifications for the roots that exist now."""

    def __init__(self, roots: Sequence[Path]) -> None:
        """Begin to watch; blocks while the folders are registered.

        Raises:
            OSError: the system has no watches left, or does not support them.
        """
        from watchfiles._rust_notify import RustNotify  # noqa: PLC0415 - see `watch`

        self._roots = tuple(roots)
        self._identities = [_identity(root) for root in roots]
        present = [str(root) for root, found in zip(roots, self._identities, strict=True) if found is not None]
        try:
            self._rust = RustNotify(present, False, False, 0, True, True)
        except FileNotFoundError:
            # A root vanished just now: the next check of identities restarts the watch.
            self._identities = [None for _ in roots]
            self._rust = RustNotify([], False, False, 0, True, True)
            return
        # With folders that may not be read, it also ignores that the system has no watches left: then one more
        # folder gets none either.
        for root in present[:1]:
            try:
                RustNotify([root], False, False, 0, False, False)
            except PermissionError:
                pass
            except OSError as error:
                raise OSError(errno.ENOSPC, "no watches are left") from error

    async def bursts(self, options: WatchOptions) -> AsyncGenerator[frozenset[Path] | None]:
        """Yield the changed paths of each burst; end when a watched root was replaced.

        The first item is None, because changes before the watch began are unknown. It too comes at the end of a burst,
        so that a burst under way at the start is one change, not two.
        """
        found = await self._until_quiet(frozenset(), options)
        yield None
        # A recreated root may have the identity of the old one, but then the root itself was reported.
        while found.isdisjoint(self._roots) and not await anyio.to_thread.run_sync(self._outdated):
            found = await self._next(options.poll_interval)
            if found:
                found = await self._until_quiet(found, options)
                # With so many changes the system's queue may have lost some: compare everything.
                yield found if len(found) < _MAX_BATCH else None

    async def _until_quiet(self, found: frozenset[Path], options: WatchOptions) -> frozenset[Path]:
        end = time.monotonic() + options.debounce * _MAX_DELAY
        # The changes found are already one step old.
        quiet = max(options.debounce - _STEP_MS / 1000, 0.001)
        while (more := await self._next(quiet)) and time.monotonic() < end:
            found |= more
        return found | more

    async def _next(self, seconds: float) -> frozenset[Path]:
        """Wait at most so long for changes; ignored names do not end the wait."""
        end = time.monotonic() + seconds
        stop = threading.Event()
        try:
            while (left := end - time.monotonic()) > 0:
                timeout = max(int(left * 1000), 1)
                if paths := await anyio.to_thread.run_sync(self._step, timeout, stop, abandon_on_cancel=True):
                    return paths
        finally:
            # A thread abandoned by a cancellation ends within one step.
            stop.set()
        return frozenset()

    def _step(self, timeout: int, stop: threading.Event) -> frozenset[Path]:
        """Wait for one step's changes; blocks."""
        raw = self._rust.watch(2 * _STEP_MS, _STEP_MS, timeout, stop)
        if isinstance(raw, str):
            return frozenset()
        parents: dict[str, str] = {}
        found: list[Path] = []
        for _, text in raw:
            path = Path(text)
            parent = str(path.parent)
            if parent not in parents:
                parents[parent] = os.path.realpath(parent)
            found.append(path)
            # The system watches a folder once: where a link leads to it too, changes may have the path of the link.
            if parents[parent] != parent:
                found.append(Path(parents[parent], path.name))
        return frozenset(path for path in found if not self._is_ignored(path))

    def _is_ignored(self, path: Path) -> bool:
        roots = [root for root in self._roots if path.is_relative_to(root)]
        return bool(roots) and all(any(map(_is_ignored, path.relative_to(root).parts)) for root in roots)

    def _outdated(self) -> bool:
        return [_identity(root) for root in self._roots] != self._identities


def _advice(roots: Sequence[Path]) -> str:
    """Return how to raise the limit of watches if it is too low for the folders below `roots`; empty if it is not."""
    try:
        limit = int(_LIMIT.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return ""
    folders = sum(1 for root in roots for _ in os.walk(root))
    # Other programs of the user need some too, and the library may grow.
    enough = max(2 * folders, limit + folders)
    return (
        f"there are {folders} folders, and fs.inotify.max_user_watches is {limit} for all programs of a user. To watch "
        f"instead of polling, run: sudo sysctl fs.inotify.max_user_watches={enough} and restart the server"
    )


def _is_ignored(name: str) -> bool:
    # An ignore file is not part of a skill, but decides which files are.
    return is_ignored(name) and name != FILE_NAME


def _identity(root: Path) -> tuple[int, int] | None:
    """Return what distinguishes a folder from another one at its path."""
    try:
        status = root.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def is_remote(root: Path) -> bool:
    """Tell whether a network file system holds `root`, or may hold it because the mounts cannot be read.

    Checked on Linux only; notifications work on other systems.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError as error:
        # Polling notices changes on any file system, notifications do not.
        return not is_absence(error)
    kinds = {folder.replace("\\040", " "): kind for _, folder, kind, *_ in (line.split(" ") for line in mounts)}
    holder = next((str(path) for path in (root, *root.parents) if str(path) in kinds), "")
    return kinds.get(holder, "") in _NETWORK_FILE_SYSTEMS
