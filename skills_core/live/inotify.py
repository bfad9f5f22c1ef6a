"""Watch folders with all that is below them by Linux's inotify.

One thread adds the watches, a slice of folders at a time, and reads the events between the slices: registering
hundreds of thousands of folders stops no other thread, and the system's queue of events does not run over meanwhile.
A folder is listed after its watch was added, so that nothing below it is missed; what is in a new folder is reported.

Ignored folders are not watched, and links are not followed: a link's target has a root of its own, or is below one.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
import threading
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from functools import cache

from skills_core.disk.folders import is_ignored, noting_devices
from skills_core.disk.gitignore import FILE_NAME
from skills_core.sharing import shared

_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF = 0x400, 0x800
_OVERFLOW, _IGNORED = 0x4000, 0x8000
_ONLY_FOLDERS, _NO_LINKS, _IS_FOLDER = 0x1000000, 0x2000000, 0x40000000
_WATCHED = (
    _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
) | _ONLY_FOLDERS

_HEAD = struct.Struct("iIII")
_BUFFER = 1 << 18

_SLICE = 100
# So many folders are added before events are read.

_LINKS_OF_INMOST = 2
# A folder is linked from the one above, from itself, and from each folder in it.

_PASSED_OVER = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP, errno.ENAMETOOLONG})
# The folder vanished, something else took its place, or it cannot be read.


def is_passed_over(name: str) -> bool:
    """Tell whether changes of a name are not reported."""
    # An ignore file is not part of a skill, but decides which files are.
    return is_ignored(name) and name != FILE_NAME


_BLOCK = 256
# Places that are allocated together.


class Places(MutableMapping[int, tuple[int, str]]):
    """The place of each folder by its watch: the watch of the folder above, and the name in it.

    The system numbers watches one after the other and uses no number again. So they are positions in blocks, and a
    folder takes 13 bytes beside its name; in a dictionary, its number and the pair take 120.
    """

    def __init__(self) -> None:
        # A block without folders is removed: what is gone takes nothing.
        self._blocks: dict[int, tuple[array[int], list[str | None]]] = {}
        self._count = 0

    def find(self, watch: int) -> tuple[int, str] | None:
        """Return the place of a folder, None if it has none; several times as fast as what catches an error."""
        block = self._blocks.get(watch // _BLOCK)
        if block is None:
            return None
        at = watch % _BLOCK
        name = block[1][at]
        return None if name is None else (block[0][at], name)

    def __getitem__(self, watch: int) -> tuple[int, str]:
        place = self.find(watch)
        if place is None:
            raise KeyError(watch)
        return place

    def __setitem__(self, watch: int, place: tuple[int, str]) -> None:
        number, at = divmod(watch, _BLOCK)
        if number not in self._blocks:
            self._blocks[number] = array("i", bytes(4 * _BLOCK)), [None] * _BLOCK
        parents, names = self._blocks[number]
        self._count += names[at] is None
        parents[at], names[at] = place

    def __delitem__(self, watch: int) -> None:
        if watch not in self:
            raise KeyError(watch)
        _, names = self._blocks[watch // _BLOCK]
        names[watch % _BLOCK] = None
        self._count -= 1
        if not any(name is not None for name in names):
            del self._blocks[watch // _BLOCK]

    def __iter__(self) -> Iterator[int]:
        for number, (_, names) in self._blocks.items():
            yield from (number * _BLOCK + at for at, name in enumerate(names) if name is not None)

    def __len__(self) -> int:
        return self._count


class FolderEvents:
    """The changes below some folders since they were registered; `close` ends it."""

    def __init__(self, roots: Iterable[str]) -> None:
        """Begin to register all folders.

        Raises:
            OSError: the system does not support it, or has too many watchers.
        """
        self.lost = False
        """Whether the system lost events: anything may have changed, and new folders may not be watched."""
        self._descriptor = _system_call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
        self._end, self._ending = os.pipe()
        # The paths of roots, and of every other folder the watch of its parent and its name, by watch.
        self._roots: dict[int, list[str]] = {}
        self._places = Places()
        self._counting = noting_devices()
        # Folders to add: the watch of the parent and the name, and whether what is in them is new.
        self._waiting: deque[tuple[int, str, bool]] = deque()
        # Watches of folders that were moved: of each it is not known yet whether it is below a root still.
        self._moved: list[int] = []
        self._found: set[str] = set()
        self._error: OSError | None = None
        self._changed = threading.Condition()
        self._is_registered = False
        threading.Thread(target=self._run, args=[tuple(roots)], name="watch", daemon=True).start()

    def close(self) -> None:
        """Let the watch end soon; called once."""
        # With many folders, the system takes seconds to close the descriptor: the thread does.
        os.close(self._ending)

    def begin(self, stop: threading.Event) -> None:
        """Wait until all folders are registered, or until `stop` was set and `wake` called.

        Raises:
            OSError: the system has no watches left.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_registered or self._error or stop.is_set())
            if self._error is not None:
                raise self._error

    def wait(self, seconds: float, stop: threading.Event) -> set[str]:
        """Wait for changes and return their paths; empty after so long, or after `stop` was set and `wake` called.

        Raises:
            OSError: a new folder could not be watched.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._found or self._error or self.lost or stop.is_set(), seconds)
            if self._error is not None:
                raise self._error
            if stop.is_set():
                return set()
            found, self._found = self._found, set()
            return found

    def wake(self) -> None:
        """Let `wait` see that it was stopped."""
        with self._changed:
            self._changed.notify_all()

    def _run(self, roots: tuple[str, ...]) -> None:
        try:
            for root in roots:
                if (watch := self._add(root, _WATCHED)) is not None:
                    self._roots.setdefault(watch, []).append(root)
            for watch, paths in self._roots.items():
                self._list(watch, paths[0], is_new=False)
            self._follow()
        except OSError as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()
        finally:
            os.close(self._descriptor)
            os.close(self._end)

    def _follow(self) -> None:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        poll.register(self._end, select.POLLIN)
        while True:
            if self._moved and not self._waiting:
                self._forget_moved_out()
            if not self._waiting and not self._is_registered:
                with self._changed:
                    self._is_registered = True
                    self._changed.notify_all()
            ready = dict(poll.poll(0 if self._waiting else None))
            if self._end in ready:
                return
            if self._descriptor in ready:
                self._enter(os.read(self._descriptor, _BUFFER))
            for _ in range(min(_SLICE, len(self._waiting))):
                self._register(*self._waiting.popleft())

    def _register(self, parent: int, name: str, is_new: bool) -> None:  # noqa: FBT001 - from a tuple
        """Watch a folder, and let all folders in it be watched."""
        above = self._paths(parent)
        if not above:
            return
        path = f"{above[0]}/{name}"
        watch = self._add(path, _WATCHED | _NO_LINKS)
        if watch is None or self._places.find(watch) == (parent, name):
            return
        self._places[watch] = parent, name
        # A root below another one was listed as a root, unless it was moved here.
        if watch not in self._roots or is_new:
            self._list(watch, path, is_new=is_new)

    def _list(self, watch: int, path: str, *, is_new: bool) -> None:
        names: list[str] = []
        try:
            if not is_new and self._has_no_folders(path):
                return
            with os.scandir(path) as entries:
                for entry in entries:
                    is_folder = entry.is_dir(follow_symlinks=False)
                    if not (is_folder or is_new) or is_passed_over(entry.name):
                        continue
                    names.append(entry.name)
                    if is_folder:
                        self._waiting.append((watch, shared(entry.name), is_new))
        except OSError as error:
            if error.errno not in _PASSED_OVER:
                raise
        if is_new and names:
            self._report(f"{above}/{name}" for above in self._paths(watch) for name in names)

    def _has_no_folders(self, path: str) -> bool:
        """Tell whether there is no folder in one; False if that is not known without listing it."""
        status = os.lstat(path)
        # Most folders are the inmost ones, and listing one takes ten times as long.
        return status.st_nlink == _LINKS_OF_INMOST and status.st_dev in self._counting

    def _enter(self, events: bytes) -> None:
        """Report what some events tell of, forget folders that are gone, and let new ones be watched."""
        # No folder gets another place before all events of a reading are reported.
        paths_of = cache(self._paths)
        found: list[str] = []
        removed: list[int] = []
        for watch, mask, name in _parsed(events):
            if mask & _OVERFLOW:
                self.lost = True
            elif mask & _IGNORED:
                removed.append(watch)
            elif name and not is_passed_over(name):
                found += [f"{above}/{name}" for above in paths_of(watch)]
                if mask & _IS_FOLDER and not mask & (_DELETE | _MOVED_FROM):
                    # It is new, or with other permissions it may be readable now.
                    self._waiting.append((watch, name, True))
            elif not name and (watch in self._roots or not mask & (_DELETE_SELF | _MOVE_SELF)):
                # A folder that is gone is reported by the one above, but nothing above a root is watched.
                found += paths_of(watch)
            if not name and mask & _MOVE_SELF and watch in self._places:
                # The event that tells of its new place below a root, if it has one, came before.
                self._moved.append(watch)
        for watch in removed:
            self._places.pop(watch, None)
            self._roots.pop(watch, None)
        self._report(found)

    def _report(self, paths: Iterable[str]) -> None:
        with self._changed:
            self._found.update(paths)
            if self._found or self.lost:
                self._changed.notify_all()

    def _forget_moved_out(self) -> None:
        """Remove the watches of moved folders that were not registered at another place, and of all below.

        One that was moved within the roots has kept its watches, and what was in it needs no look.
        """
        gone = below = {watch for watch in self._moved if watch in self._places and not self._is_in_place(watch)}
        self._moved.clear()
        while below:
            below = {watch for watch, (above, _) in self._places.items() if above in below}
            gone |= below
        for watch in gone:
            if self._places.pop(watch, None) is not None and watch not in self._roots:
                _library().inotify_rm_watch(self._descriptor, watch)

    def _is_in_place(self, watch: int) -> bool:
        """Tell whether a folder is where it was registered last."""
        parent, name = self._places[watch]
        above = self._paths(parent)
        return bool(above) and self._add(f"{above[0]}/{name}", _WATCHED | _NO_LINKS) == watch

    def _paths(self, watch: int) -> list[str]:
        """Return the paths of a folder, more than one if roots lead to it on several ways; empty if it is unknown."""
        found: list[str] = []
        below = ""
        while True:
            found += [root.rstrip("/") + below for root in self._roots.get(watch, ())]
            place = self._places.find(watch)
            if place is None:
                return found
            watch, name = place
            below = f"/{name}{below}"

    def _add(self, path: str, mask: int) -> int | None:
        """Watch a folder and return its watch; None if it is gone or cannot be read."""
        try:
            return _system_call("inotify_add_watch", self._descriptor, os.fsencode(path), mask)
        except OSError as error:
            if error.errno in _PASSED_OVER:
                return None
            raise


def _parsed(events: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield the watch of each event, its mask, and the name in the folder, empty for the folder itself."""
    place = 0
    while place < len(events):
        watch, mask, _, length = _HEAD.unpack_from(events, place)
        place += _HEAD.size
        yield watch, mask, os.fsdecode(events[place : place + length].rstrip(b"\0"))
        place += length


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _system_call(name: str, *arguments: int | bytes) -> int:
    """Call a function of the C library, while other threads run.

    Raises:
        OSError: it failed.
    """
    function: Callable[..., int] = getattr(_library(), name)
    result = function(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
