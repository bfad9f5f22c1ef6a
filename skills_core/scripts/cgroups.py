"""Control groups (cgroups) of Linux: limits on all processes of a script together, and a way to kill them all.

`prlimit` limits each process alone and does not count shared memory, and the kernel exempts root from its limit on
processes. A control group limits what all of them use together, including files in memory. Creating one takes a folder
of the cgroup file system that this user may write to: as root, or if the service manager delegates one.

In version 2, a group with processes of its own cannot have limited child groups, so a group is created beside this
process's, or further up.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


_REMOVE_SECONDS = 5.0
# Killed processes leave their group when the kernel has freed their memory.

_PREFIX = "skillserve-"

_JOIN = (
    'while [ "$1" != -- ]; do echo 0 > "$1/cgroup.procs" || exit 126; shift; done; shift; exec "$@"',
    "join-cgroup",
)
# Runs before the script's first process can fork. Folders and arguments are parameters, so the shell never parses them.


@dataclass(frozen=True, slots=True)
class _CgroupFolder:
    """A folder of the cgroup file system in which groups can be created, and the cgroup version."""

    folder: Path
    controllers: frozenset[str]
    version: int


@dataclass(frozen=True, slots=True)
class CgroupFactory:
    """Creates groups with limits; None for `memory_bytes` or `processes` means no limit."""

    places: tuple[_CgroupFolder, ...]
    memory_bytes: int | None
    processes: int | None

    def make(self) -> Cgroup:
        """Create an empty group.

        Raises:
            OSError: the system refuses it.
        """
        name = f"{_PREFIX}{os.getpid()}-{secrets.token_hex(8)}"
        group = Cgroup(tuple(place.folder / name for place in self.places))
        try:
            for place, folder in zip(self.places, group.folders, strict=True):
                folder.mkdir()
                for file, value, needed in self._bounds(place):
                    try:
                        (folder / file).write_text(f"{value}\n")
                    except OSError:
                        if needed:
                            raise
        except OSError:
            group.remove()
            raise
        return group

    def _bounds(self, place: _CgroupFolder) -> Iterator[tuple[str, int, bool]]:
        """Yield the control files of a group, their values, and whether the limit depends on them."""
        if self.memory_bytes is not None and "memory" in place.controllers:
            # Kernels without swap accounting lack the second file.
            if place.version == 1:
                yield "memory.limit_in_bytes", self.memory_bytes, True
                yield "memory.memsw.limit_in_bytes", self.memory_bytes, False
            else:
                yield "memory.max", self.memory_bytes, True
                yield "memory.swap.max", 0, False
                yield "memory.oom.group", 1, False
        if self.processes is not None and "pids" in place.controllers:
            yield "pids.max", self.processes, True


@dataclass(frozen=True, slots=True)
class Cgroup:
    """A created group: one folder for each hierarchy with a limit."""

    folders: tuple[Path, ...]

    def joining_command(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Return a command line that joins the group and then runs `argv`."""
        return ("/bin/sh", "-c", *_JOIN, *map(str, self.folders), "--", *argv)

    def remove(self) -> bool:
        """Kill all processes in the group and remove it; return whether it is gone."""
        deadline = time.monotonic() + _REMOVE_SECONDS
        left = [folder for folder in self.folders if folder.exists()]
        while left:
            for folder in left:
                _kill(folder)
                with suppress(OSError):
                    folder.rmdir()
            left = [folder for folder in left if folder.exists()]
            if left and time.monotonic() > deadline:
                return False
            if left:
                time.sleep(0.005)
        return True


def _kill(folder: Path) -> None:
    with suppress(OSError):
        (folder / "cgroup.kill").write_text("1\n")
        return
    with suppress(OSError):  # version 1, or a kernel before 5.14
        for number in (folder / "cgroup.procs").read_text().split():
            with suppress(OSError):
                # 0 stands for a process of another namespace.
                if number != "0":
                    os.kill(int(number), signal.SIGKILL)


def find_cgroups(
    memory_bytes: int, processes: int, proc: Path = Path("/proc/self")
) -> tuple[CgroupFactory | None, str]:
    """Return a factory for groups with limited memory, or None and the reason why there is none."""
    if sys.platform != "linux":
        return None, "this system has no control groups"
    try:
        places = tuple(_usable_folders(proc))
    except OSError as error:
        return None, f"its control groups cannot be read ({error.strerror or error})"
    bounded = frozenset(each for place in places for each in place.controllers)
    if "memory" not in bounded:
        return None, "there is no control group that this user may write to"
    cgroups = CgroupFactory(places, memory_bytes, processes if "pids" in bounded else None)
    for place in places:
        _remove_stale(place.folder)
    try:
        removed = cgroups.make().remove()
    except OSError as error:
        return None, f"the control group cannot be made ({error.strerror or error})"
    return (cgroups, "") if removed else (None, "the control group cannot be removed")


def _remove_stale(folder: Path) -> None:
    """Remove the groups of killed servers; they are empty, because their processes ended with the server."""
    for group in folder.glob(f"{_PREFIX}*-*"):
        with suppress(OSError, ValueError):
            try:
                os.kill(int(group.name.split("-")[1]), 0)
            except ProcessLookupError:
                group.rmdir()


def _usable_folders(proc: Path) -> Iterator[_CgroupFolder]:
    """Yield the usable folder nearest to this process's group, for each hierarchy with a needed controller."""
    needed = {"memory", "pids"}
    for mount in _mounts(proc / "mountinfo"):
        found = _nearest_folder(mount, proc / "cgroup")
        if found is not None and needed & found.controllers:
            useful = replace(found, controllers=frozenset(needed & found.controllers))
            needed -= useful.controllers
            yield useful


@dataclass(frozen=True, slots=True)
class _Mount:
    root: str
    point: Path
    version: int
    controllers: frozenset[str]


def _mounts(mountinfo: Path) -> Iterator[_Mount]:
    for line in mountinfo.read_text(encoding="utf-8", errors="replace").splitlines():
        before, _, after = line.partition(" - ")
        fields, (kind, _, options) = before.split(" "), after.split(" ", 2)
        if kind == "cgroup2":
            yield _Mount(fields[3], Path(fields[4]), 2, frozenset())
        elif kind == "cgroup":
            yield _Mount(fields[3], Path(fields[4]), 1, frozenset(options.split(",")))


def _nearest_folder(mount: _Mount, cgroup: Path) -> _CgroupFolder | None:
    for line in cgroup.read_text(encoding="utf-8", errors="replace").splitlines():
        number, named, path = line.split(":", 2)
        own = number == "0" and not named if mount.version == 2 else bool(mount.controllers & set(named.split(",")))  # noqa: PLR2004
        inside = os.path.relpath(path, mount.root)
        if not own or inside.startswith(".."):
            continue
        folder = mount.point / inside
        if mount.version == 1:
            return _CgroupFolder(folder, mount.controllers, 1) if _writable(folder) else None
        for each in (folder, *folder.parents):
            if not each.is_relative_to(mount.point):
                break
            if _writable(each) and (controllers := _enabled_controllers(each)):
                return _CgroupFolder(each, controllers, 2)
    return None


def _enabled_controllers(folder: Path) -> frozenset[str]:
    """Return the controllers for child groups of a version 2 folder, after enabling what can be enabled."""
    control = folder / "cgroup.subtree_control"
    there = set((folder / "cgroup.controllers").read_text().split())
    on = set(control.read_text().split())
    for name in sorted({"memory", "pids"} & there - on):
        # Refused if the folder's own group has processes.
        with suppress(OSError):
            control.write_text(f"+{name}\n")
            on.add(name)
    return frozenset({"memory", "pids"} & on) if "memory" in on else frozenset()


def _writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK | os.X_OK) and os.access(folder / "cgroup.procs", os.W_OK)
