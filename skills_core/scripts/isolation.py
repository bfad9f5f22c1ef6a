"""The isolation of scripts from this machine: a bubblewrap sandbox if it works, else limits at most.

A probe shows once whether it works: kernels, containers and distributions forbid it in many ways. The probe reports the
sandbox as seen from inside, and thereby what it lacks. `run_confined` runs a command of a script or a model in a
sandbox, a control group and a supervisor. Programs that the server itself needs run with `process.run_process`.

Control groups (cgroups) of Linux limit all processes of a script together, and can kill them all. `prlimit` limits each
process alone and does not count shared memory, and the kernel exempts root from its limit on processes. Creating a
group takes a folder of the cgroup file system that this user may write to: as root, or if the service manager delegates
one. In version 2, a group with processes of its own cannot have limited child groups, so a group is created beside this
process's, or further up.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from skills_core.diagnostics import one_line
from skills_core.scripts.process import (
    HAS_SUBREAPER,
    SECCOMP_FILTER,
    Command,
    ProcessEnding,
    ProcessResult,
    pipe_with,
    run_process,
)
from skills_core.scripts.programs import sandbox_program
from skills_core.scripts.sandbox import (
    DEVICES,
    SCRATCH_BYTES,
    SHARED_MEMORY_BYTES,
    WRITABLE,
    in_system_mounts,
    sandbox_arguments,
    seccomp_filter,
    with_read_only_devices,
)

if TYPE_CHECKING:
    from skills_core.scripts.process import ProcessLimits
    from skills_core.scripts.programs import ProgramFinder


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


_PROBE_SECONDS = 10.0

_MEMORY_BYTES = 2 * 1024**3
_FILE_BYTES = 1024**3
_LIMITS = (f"--data={_MEMORY_BYTES}", f"--fsize={_FILE_BYTES}", "--core=0")
# For each process. Control groups limit all of them together.

_PROCESSES = 256
_GROUP_BYTES = _MEMORY_BYTES + SCRATCH_BYTES + SHARED_MEMORY_BYTES
# Files in memory count towards the group that wrote them.

_REPORT = ("cat", "/proc/self/mountinfo", "/proc/self/status")


class IsolationKind(StrEnum):
    """How scripts are isolated from this machine."""

    BUBBLEWRAP = "bubblewrap"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Isolation:
    """The isolation that is available on this machine.

    `sandbox` is bubblewrap, None if it does not work, with the reason in `why`. `limiter` is the program that limits
    memory and files, None if there is none. `unprivileged` is false if root runs this process: the system does not
    limit the number of root's processes. `seccomp_filter` is the filter that the sandbox loads, and `lacks` names the
    missing parts of the sandbox. `before` is a command prefix for bubblewrap that root needs. `cgroups` limit all
    processes of a script together, None if that does not work, with the reason in `no_cgroups_reason`.
    """

    sandbox: Path | None = None
    limiter: Path | None = None
    why: str = ""
    unprivileged: bool = True
    seccomp_filter: bytes = field(default=b"", repr=False)
    lacks: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    cgroups: CgroupFactory | None = None
    no_cgroups_reason: str = ""

    @property
    def kind(self) -> IsolationKind:
        """How scripts are isolated."""
        return IsolationKind.BUBBLEWRAP if self.sandbox else IsolationKind.NONE

    @property
    def fault(self) -> str:
        """Why this is not the documented sandbox; empty if it is."""
        return "; ".join(self.lacks) if self.sandbox else self.why or "there is none"

    @property
    def warning(self) -> str:
        """The warning for runs without a complete sandbox; empty if there is one."""
        if self.sandbox is None:
            return f"no sandbox: it runs with all rights of the user who runs skillserve ({self.why})"
        return f"the sandbox is incomplete: {self.fault}" if self.lacks else ""

    @property
    def counts_processes(self) -> bool:
        """Whether the number of a script's processes in the sandbox is limited."""
        limited_by_user = self.unprivileged and self.limiter is not None
        return limited_by_user or (self.cgroups is not None and self.cgroups.processes is not None)

    def statement(self, *, network: bool = False, workspace: Path | None = None) -> str:
        """Say what a script can access; `network` and `workspace` are additional grants."""
        if self.sandbox is None:
            return f"Scripts run without a sandbox, with all rights of the user who runs this server: {self.why}."
        reach = "the network" if network else "no network"
        places = f"to {workspace}, and " if workspace else "only "
        said = [
            (
                f"Scripts run in a sandbox (bubblewrap), with {reach} and without the user's files. They can write "
                f"{places}to a folder of {SCRATCH_BYTES // 1024**2} MB that is removed afterwards."
            )
        ]
        if self.lacks:
            said.append(f"The sandbox is incomplete: {self.fault}.")
        if self.cgroups is None:
            said.append(f"The memory of all their processes together is not limited: {self.no_cgroups_reason}.")
        if not self.counts_processes:
            why = "there is no prlimit that works" if self.unprivileged else "root runs this server"
            said.append(f"The number of their processes is not limited: {why}.")
        return " ".join(said)


def find_isolation(programs: ProgramFinder, *, unprivileged: bool = True) -> Isolation:
    """Probe what works on this machine; takes about ten milliseconds."""
    found = programs.find_trusted("prlimit")
    limiter = sandbox_program(found) if found else None
    # prlimit fails if a limit is lower already: it cannot be raised.
    if limiter is not None and _probe((str(limiter), *_LIMITS, "--", "true"))[1]:
        limiter = None
    cgroups, no_cgroups_reason = find_cgroups(_GROUP_BYTES, _PROCESSES)
    plain = Isolation(None, limiter, "", unprivileged, cgroups=cgroups, no_cgroups_reason=no_cgroups_reason)
    sandbox = programs.find_trusted("bwrap")
    if sandbox is None:
        outside = " outside of the workspace, where scripts may change it" if programs.find("bwrap") else ""
        return replace(plain, why=f"bubblewrap (bwrap) is not installed{outside}")
    tried = []
    for works in _sandbox_candidates(replace(plain, sandbox=sandbox), programs):
        report, fault = _probe(sandboxed(works, _REPORT, sandbox_arguments()), works.seccomp_filter)
        if not fault:
            return replace(works, lacks=tuple(_missing_parts(works, report)))
        tried.append(fault)
    return replace(plain, why=f"bubblewrap 0.8 or later has to work for this user, and it says: {tried[-1]}")


def _sandbox_candidates(plain: Isolation, programs: ProgramFinder) -> Iterator[Isolation]:
    """Yield sandboxes to try, the best first, plain bubblewrap last."""
    unshare, mount = programs.find_trusted("unshare"), programs.find_trusted("mount")
    beginnings: list[tuple[str, ...]] = [()]
    if not plain.unprivileged and unshare is not None and mount is not None:
        beginnings = [*with_read_only_devices(unshare, mount), ()]
    for each in dict.fromkeys((seccomp_filter(), b"")):
        for before in beginnings:
            yield replace(plain, seccomp_filter=each, before=before)


def limited(isolation: Isolation, argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command line that runs `argv` with limits on memory, files and, in a sandbox, processes.

    The system counts processes by user: outside a sandbox, those of the user's other programs would count too.
    """
    if isolation.limiter is None or (isolation.sandbox and not in_system_mounts(isolation.limiter)):
        return argv
    processes = (f"--nproc={_PROCESSES}",) if isolation.sandbox else ()
    return (str(isolation.limiter), *_LIMITS, *processes, "--", *argv)


def sandboxed(isolation: Isolation, argv: tuple[str, ...], mounts: Sequence[str]) -> tuple[str, ...]:
    """Return a command line that runs `argv` in the sandbox with `mounts`, with limits."""
    loaded = ("--seccomp", SECCOMP_FILTER) if isolation.seccomp_filter else ()
    return (*isolation.before, str(isolation.sandbox), *loaded, *mounts, "--", *limited(isolation, argv))


def _missing_parts(isolation: Isolation, report: str) -> Iterator[str]:
    """Yield what a sandbox lacks, from the report of a process inside."""
    mounts = [line.split(" ") for line in report.splitlines() if " - " in line]
    # Devices belong to root, so only root could change them.
    allowed = WRITABLE | set(DEVICES) if isolation.unprivileged else WRITABLE
    writable = {fields[4] for fields in mounts if "rw" in fields[5].split(",")} - allowed
    if writable or not mounts:
        yield f"writable: {', '.join(sorted(writable)) or 'unknown'}"
    status = dict(line.split(":\t", 1) for line in report.splitlines() if ":\t" in line)
    if any(int(status.get(name, "1"), 16) for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")):
        yield "processes have capabilities"
    if status.get("NoNewPrivs") != "1":
        yield "setuid programs work"
    if status.get("Seccomp") != "2" or not isolation.seccomp_filter:
        yield "no system call is refused, as there is no seccomp filter for this machine or kernel"
    if limited(isolation, ()) == ():
        yield "there are no limits on memory and files, as prlimit is missing or does not work"


def _probe(command: tuple[str, ...], seccomp: bytes = b"") -> tuple[str, str]:
    """Run a command; return its output, and why it failed, empty if it did not."""
    inherited = [pipe_with(seccomp)] if seccomp else []
    try:
        done = subprocess.run(  # noqa: S603 - all arguments come from this package
            [str(inherited[0]) if word == SECCOMP_FILTER else word for word in command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=False,
            env={"PATH": "/usr/bin:/bin"},
            cwd="/",
            pass_fds=inherited,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", one_line(str(error))[:200] or "it cannot be started"
    finally:
        for descriptor in inherited:
            os.close(descriptor)
    out, said = (each.decode(errors="replace") for each in (done.stdout, done.stderr))
    return out, "" if done.returncode == 0 else one_line(said.strip())[:200] or f"exit code {done.returncode}"


logger = logging.getLogger(__name__)

_KILL_SECONDS = 6.0
# Most time that the supervisor takes to kill the descendants of its program.

_SUBREAPER = Path(__file__).with_name("subreaper.py")
_SUPERVISE = "import sys; exec(open(sys.argv[1], encoding='utf-8').read()); sys.exit(main(sys.argv[2:]))"


async def run_confined(
    isolation: Isolation,
    command: Command,
    limits: ProcessLimits,
    stdin: bytes = b"",
    *,
    mounts: Sequence[str] = (),
    python: Path | None = None,
    watch: Callable[[bytes], bool] | None = None,
) -> ProcessResult:
    """Run a command like `run_process`, confined as `isolation` allows.

    `mounts` are the arguments of the sandbox, if there is one. Otherwise `python` runs the supervisor; without it, or
    on another system than Linux, processes that leave the session of the command outlive it.
    """
    try:
        async with _group(isolation) as group:
            if isolation.sandbox is not None:
                command = replace(
                    command,
                    argv=sandboxed(isolation, command.argv, mounts),
                    directory=Path("/"),
                    seccomp_filter=isolation.seccomp_filter,
                )
            else:
                command = _supervised(replace(command, argv=limited(isolation, command.argv)), python)
            if group is not None:
                command = replace(command, argv=group.joining_command(command.argv))
            return await run_process(command, limits, stdin, watch)
    except _NoGroupError as error:
        return ProcessResult(ProcessEnding.NOT_STARTED, fault=f"its control group cannot be made: {error}")


class _NoGroupError(Exception):
    """The system refuses a control group, although the probe succeeded."""


@asynccontextmanager
async def _group(isolation: Isolation) -> AsyncGenerator[Cgroup | None]:
    if isolation.cgroups is None:
        yield None
        return
    try:
        group = await anyio.to_thread.run_sync(isolation.cgroups.make)
    except OSError as error:
        raise _NoGroupError(str(error)) from error
    try:
        yield group
    finally:
        with anyio.CancelScope(shield=True):
            if not await anyio.to_thread.run_sync(group.remove):
                logger.warning("a control group of a script cannot be removed: %s", ", ".join(map(str, group.folders)))


def _supervised(command: Command, python: Path | None) -> Command:
    if python is None or not HAS_SUBREAPER:
        return command
    start = (str(python), "-I", "-S", "-c", _SUPERVISE, str(_SUBREAPER))
    argv = (*start, str(os.getpid()), str(command.grace_seconds), *command.argv)
    return replace(command, argv=argv, grace_seconds=command.grace_seconds + _KILL_SECONDS)
