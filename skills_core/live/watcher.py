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
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from skills_core.disk.files import Fingerprint
from skills_core.errors import is_absence
from skills_core.live.inotify import FolderEvents, is_passed_over
from skills_core.live.watch_options import WatchMode, WatchOptions

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

_USES_INOTIFY = sys.platform.startswith("linux")
# Elsewhere one watch is enough for a whole tree, and is registered at once.

_STEP_MS = 10
# The notifier collects events for one step before it delivers them.

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
            try:
                async for paths in notifier.bursts(options):
                    yield paths
            finally:
                notifier.close()
        except (OSError, ValueError, WatchfilesRustInternalError) as error:
            # No watches left, or no support.
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
        """Begin to watch.

        Raises:
            OSError: the system does not support it.
        """
        self._roots = frozenset(map(str, roots))
        self._identities = {root: _identity(root) for root in self._roots}
        present = [root for root, found in self._identities.items() if found is not None]
        try:
            self._events = FolderEvents(present) if _USES_INOTIFY else _OtherEvents(present)
        except FileNotFoundError:
            # A root vanished just now: the next check of identities restarts the watch.
            self._identities = dict.fromkeys(self._roots)
            self._events = _OtherEvents([])

    def close(self) -> None:
        """Stop watching."""
        self._events.close()

    async def bursts(self, options: WatchOptions) -> AsyncGenerator[frozenset[Path] | None]:
        """Yield the changed paths of each burst; end when a watched root was replaced, or the system lost changes.

        The first item is None, because changes before the watch began are unknown. It too comes at the end of a burst,
        so that a burst under way at the start is one change, not two.
        """
        await self._stoppable(self._events.begin)
        found = await self._until_quiet(set(), options)
        yield None
        # A recreated root may have the identity of the old one, but then the root itself was reported.
        while found.isdisjoint(self._roots) and not await anyio.to_thread.run_sync(self._outdated):
            found = await self._next(options.poll_interval)
            if found:
                found = await self._until_quiet(found, options)
                # With so many changes the system's queue may have lost some: compare everything.
                yield await anyio.to_thread.run_sync(_paths, found) if len(found) < _MAX_BATCH else None

    async def _until_quiet(self, found: set[str], options: WatchOptions) -> set[str]:
        end = time.monotonic() + options.debounce * _MAX_DELAY
        # The changes found are already one step old.
        quiet = max(options.debounce - _STEP_MS / 1000, 0.001)
        while more := await self._next(quiet):
            found |= more
            if time.monotonic() >= end:
                break
        return found

    async def _next(self, seconds: float) -> set[str]:
        """Wait at most so long for changes; ignored names do not end the wait."""
        return await self._stoppable(partial(self._step, seconds))

    async def _stoppable(self, work: Callable[[threading.Event], _T]) -> _T:
        """Do something in a thread, which is given what a cancellation sets."""
        stop = threading.Event()
        try:
            return await anyio.to_thread.run_sync(work, stop, abandon_on_cancel=True)
        finally:
            # A thread abandoned by a cancellation ends.
            stop.set()
            self._events.wake()

    def _step(self, seconds: float, stop: threading.Event) -> set[str]:
        """Wait for changes, and collect those of one step; blocks."""
        found = self._events.wait(seconds, stop)
        if found and not stop.wait(_STEP_MS / 1000):
            found |= self._events.wait(0, stop)
        return found

    def _outdated(self) -> bool:
        return self._events.lost or any(_identity(root) != found for root, found in self._identities.items())


class _OtherEvents:
    """The changes below some folders where the system is not Linux; like `FolderEvents`."""

    lost = False

    def __init__(self, roots: Sequence[str]) -> None:
        """Begin to watch.

        Raises:
            OSError: the system does not support it, or a root vanished just now.
        """
        from watchfiles._rust_notify import RustNotify  # noqa: PLC0415 - see `watch`

        self._roots = tuple(map(Path, roots))
        self._rust = RustNotify(list(roots), False, False, 0, True, True)

    def close(self) -> None:
        """Stop watching."""
        # The system's watch ends with this object, after the last `wait`.

    def begin(self, stop: threading.Event) -> None:
        """Do nothing: all folders are registered."""

    def wake(self) -> None:
        """Do nothing: `wait` sees soon that it was stopped."""

    def wait(self, seconds: float, stop: threading.Event) -> set[str]:
        """Wait for changes and return their paths; empty after so long, or soon after `stop` was set."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            raw = self._rust.watch(2 * _STEP_MS, _STEP_MS, max(int(left * 1000), 1), stop)
            if isinstance(raw, str):
                return set()
            if found := self._paths(text for _, text in raw):
                return found
        return set()

    def _paths(self, texts: Iterable[str]) -> set[str]:
        """Return the paths that are not ignored, and the real ones where links lead to them; by folders."""
        names: dict[str, list[str]] = {}
        for text in texts:
            folder, name = os.path.split(text)
            names.setdefault(folder, []).append(name)
        found: set[str] = set()
        for folder, inside in names.items():
            # The system watches a folder once: where a link leads to it too, changes may have the path of the link.
            for each in {folder, os.path.realpath(folder)}:
                found.update(path for name in inside if not self._is_ignored(Path(path := f"{each}{os.sep}{name}")))
        return found

    def _is_ignored(self, path: Path) -> bool:
        roots = [root for root in self._roots if path.is_relative_to(root)]
        return bool(roots) and all(any(map(is_passed_over, path.relative_to(root).parts)) for root in roots)


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


def _paths(found: Iterable[str]) -> frozenset[Path]:
    return frozenset(map(Path, found))


def _identity(root: str) -> tuple[int, int] | None:
    """Return what distinguishes a folder from another one at its path."""
    try:
        status = Path(root).stat()
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
