"""What stands between a script and this machine: a sandbox by bubblewrap where it works, else limits at most.

Whether it works is found out by starting something in it: kernels, containers and distributions forbid it in many ways.
The program that is started reports how the sandbox looks from inside, and what that lacks is known from then on.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from skills_core.diagnostics import one_line
from skills_core.run.scripts.cgroups import find_cgroups
from skills_core.run.scripts.mounts import (
    DEVICES,
    SCRATCH_BYTES,
    SHARED_MEMORY_BYTES,
    WRITABLE,
    in_system_mounts,
    sandbox_arguments,
    with_read_only_devices,
)
from skills_core.run.scripts.platform_processes import pipe_with
from skills_core.run.scripts.process import SECCOMP_FILTER
from skills_core.run.scripts.program_files import sandbox_program
from skills_core.run.scripts.seccomp import seccomp_filter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from skills_core.run.scripts.cgroups import CgroupFactory
    from skills_core.run.scripts.interpreters import ProgramFinder

__all__ = ["Isolation", "IsolationKind", "find_isolation", "limited", "sandboxed"]

_PROBE_SECONDS = 10.0

_MEMORY_BYTES = 2 * 1024**3
_FILE_BYTES = 1024**3
_LIMITS = (f"--data={_MEMORY_BYTES}", f"--fsize={_FILE_BYTES}", "--core=0")
# Of each process. Control groups bound all of them together.

_PROCESSES = 256
_GROUP_BYTES = _MEMORY_BYTES + SCRATCH_BYTES + SHARED_MEMORY_BYTES
# Files in memory count for the group that wrote them.

_REPORT = ("cat", "/proc/self/mountinfo", "/proc/self/status")


class IsolationKind(StrEnum):
    """How scripts are kept apart from this machine."""

    BUBBLEWRAP = "bubblewrap"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Isolation:
    """What is in force here.

    `sandbox` is bubblewrap, None where it does not work, which `why` then explains. `limiter` is the program that sets
    limits on memory and files, None where the system has none. `unprivileged` tells that this process is not run by
    root, whose processes the system does not count. `seccomp_filter` is what the sandbox loads, and `lacks` names the
    parts of a sandbox that are missing. `before` stands before the sandbox where root starts it. `cgroups` bound all
    processes of a script together, None where that does not work, which `no_cgroups_reason` then explains.
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
        """How scripts are kept apart."""
        return IsolationKind.BUBBLEWRAP if self.sandbox else IsolationKind.NONE

    @property
    def fault(self) -> str:
        """Why this is no sandbox as documented; empty where it is one."""
        return "; ".join(self.lacks) if self.sandbox else self.why or "there is none"

    @property
    def warning(self) -> str:
        """What to say wherever something runs without a whole sandbox; empty where there is one."""
        if self.sandbox is None:
            return f"no sandbox: it runs with all rights of the user who runs skillserve ({self.why})"
        return f"the sandbox is incomplete: {self.fault}" if self.lacks else ""

    @property
    def counts_processes(self) -> bool:
        """Whether the number of processes of a script in the sandbox is limited."""
        limited_by_user = self.unprivileged and self.limiter is not None
        return limited_by_user or (self.cgroups is not None and self.cgroups.processes is not None)

    def statement(self, *, network: bool = False, workspace: Path | None = None) -> str:
        """Say in a sentence what a script can reach; `network` and `workspace` are what it was given on top."""
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
    """Find out what works here, by starting a program; it takes some ten milliseconds."""
    found = programs.find_trusted("prlimit")
    limiter = sandbox_program(found) if found else None
    # A limit that is lower already cannot be raised.
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
    """Yield sandboxes to try, the best first and one with nothing but bubblewrap last."""
    unshare, mount = programs.find_trusted("unshare"), programs.find_trusted("mount")
    beginnings: list[tuple[str, ...]] = [()]
    if not plain.unprivileged and unshare is not None and mount is not None:
        beginnings = [*with_read_only_devices(unshare, mount), ()]
    for each in dict.fromkeys((seccomp_filter(), b"")):
        for before in beginnings:
            yield replace(plain, seccomp_filter=each, before=before)


def limited(isolation: Isolation, argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command line that does the same within limits on memory, files and, in a sandbox, processes.

    Processes are counted by user: outside of a sandbox those of the user's other programs would count too.
    """
    if isolation.limiter is None or (isolation.sandbox and not in_system_mounts(isolation.limiter)):
        return argv
    processes = (f"--nproc={_PROCESSES}",) if isolation.sandbox else ()
    return (str(isolation.limiter), *_LIMITS, *processes, "--", *argv)


def sandboxed(isolation: Isolation, argv: tuple[str, ...], mounts: Sequence[str]) -> tuple[str, ...]:
    """Return a command line that does the same in the sandbox that `mounts` make, within limits."""
    loaded = ("--seccomp", SECCOMP_FILTER) if isolation.seccomp_filter else ()
    return (*isolation.before, str(isolation.sandbox), *loaded, *mounts, "--", *limited(isolation, argv))


def _missing_parts(isolation: Isolation, report: str) -> Iterator[str]:
    """Yield what is missing from a sandbox, by what a process reported from inside."""
    mounts = [line.split(" ") for line in report.splitlines() if " - " in line]
    # Devices belong to root, so that only root could change them.
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
    """Return what a command wrote, and why it does not work; the latter is empty where it does."""
    inherited = [pipe_with(seccomp)] if seccomp else []
    try:
        done = subprocess.run(  # noqa: S603 - all of it is from here
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
