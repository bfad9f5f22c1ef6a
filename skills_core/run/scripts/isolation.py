"""What stands between a script and this machine: a sandbox by bubblewrap where it works, else limits at most.

Whether it works is found out by starting something in it: kernels, containers and distributions forbid it in many ways.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from skills_core.diagnostics import one_line
from skills_core.run.scripts.mounts import SCRATCH_BYTES, as_seen, base_arguments, seen

if TYPE_CHECKING:
    from pathlib import Path

    from skills_core.run.scripts.interpreters import Programs

__all__ = ["Isolation", "IsolationKind", "find_isolation", "limited"]

_PROBE_SECONDS = 10.0

_MEMORY_BYTES = 2 * 1024**3
_FILE_BYTES = 1024**3
_LIMITS = (f"--data={_MEMORY_BYTES}", f"--fsize={_FILE_BYTES}", "--core=0")
# Of each process: there is no limit on the memory of all of them together.

_PROCESSES = 256


class IsolationKind(StrEnum):
    """How scripts are kept apart from this machine."""

    BUBBLEWRAP = "bubblewrap"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Isolation:
    """What is in force here.

    `sandbox` is bubblewrap, None where it does not work, which `why` then explains. `limiter` is the program that sets
    limits on memory and files, None where the system has none. `unprivileged` tells that this process is not run by
    root, whose processes the system does not count.
    """

    sandbox: Path | None = None
    limiter: Path | None = None
    why: str = ""
    unprivileged: bool = True

    @property
    def kind(self) -> IsolationKind:
        """How scripts are kept apart."""
        return IsolationKind.BUBBLEWRAP if self.sandbox else IsolationKind.NONE

    def statement(self, *, network: bool = False, workspace: Path | None = None) -> str:
        """Say in a sentence what a script can reach; `network` and `workspace` are what it was given on top."""
        if self.sandbox is None:
            return f"Scripts run without a sandbox, with all rights of the user who runs this server: {self.why}."
        reach = "the network" if network else "no network"
        places = f"to {workspace}, and " if workspace else "only "
        rest = "" if self.unprivileged else " As root runs this server, the number of their processes is not limited."
        return (
            f"Scripts run in a sandbox (bubblewrap), with {reach} and without the user's files. They can write {places}"
            f"to a folder of {SCRATCH_BYTES // 1024**2} MB that is removed afterwards.{rest}"
        )


def find_isolation(programs: Programs, *, unprivileged: bool = True) -> Isolation:
    """Find out what works here, by starting a program; it takes some ten milliseconds."""
    found = programs.find("prlimit")
    limiter = as_seen(found) if found else None
    # A limit that is lower already cannot be raised.
    if limiter is not None and _fault((str(limiter), *_LIMITS, "--", "true")):
        limiter = None
    sandbox = programs.find("bwrap")
    if sandbox is None:
        return Isolation(None, limiter, "bubblewrap (bwrap) is not installed", unprivileged)
    works = Isolation(sandbox, limiter, "", unprivileged)
    fault = _fault((str(sandbox), *base_arguments(), "--", *limited(works, ("true",))))
    why = f"bubblewrap 0.8 or later has to work for this user, and it says: {fault}"
    return Isolation(None, limiter, why, unprivileged) if fault else works


def limited(isolation: Isolation, argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command line that does the same within limits on memory, files and, in a sandbox, processes.

    Processes are counted by user: outside of a sandbox those of the user's other programs would count too.
    """
    if isolation.limiter is None or (isolation.sandbox and not seen(isolation.limiter)):
        return argv
    processes = (f"--nproc={_PROCESSES}",) if isolation.sandbox else ()
    return (str(isolation.limiter), *_LIMITS, *processes, "--", *argv)


def _fault(command: tuple[str, ...]) -> str:
    """Return why a command does not work, nothing where it does."""
    try:
        done = subprocess.run(  # noqa: S603 - all of it is from here
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=False,
            env={"PATH": "/usr/bin:/bin"},
            cwd="/",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return one_line(str(error))[:200]
    said = one_line(done.stderr.decode(errors="replace").strip())[:200]
    return "" if done.returncode == 0 else said or f"exit code {done.returncode}"
