"""The isolation of scripts from this machine: a bubblewrap sandbox if it works, else limits at most.

A probe shows once whether it works: kernels, containers and distributions forbid it in many ways. The probe reports the
sandbox as seen from inside, and thereby what it lacks. `run_confined` runs a command of a script or a model in a
sandbox, a control group and a supervisor. Programs that the server itself needs run with `process.run_process`.
"""

from __future__ import annotations

import logging
import os
import subprocess
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from skills_core.diagnostics import one_line
from skills_core.scripts.cgroups import find_cgroups
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
    from collections.abc import AsyncGenerator, Callable, Iterator, Sequence

    from skills_core.scripts.cgroups import Cgroup, CgroupFactory
    from skills_core.scripts.process import ProcessLimits
    from skills_core.scripts.programs import ProgramFinder

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
