"""Runs a command of a script or a model in confinement: a sandbox, a control group, a supervisor.

`isolation` finds once which of these are available. Programs that the server itself needs run with `run_process`.
"""

from __future__ import annotations

import logging
import os
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from skills_core.run.scripts.isolation import limited, sandboxed
from skills_core.run.scripts.platform_processes import HAS_SUBREAPER
from skills_core.run.scripts.process import Command, ProcessEnding, ProcessResult, run_process

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from skills_core.run.scripts.cgroups import Cgroup
    from skills_core.run.scripts.isolation import Isolation
    from skills_core.run.scripts.process import ProcessLimits

__all__ = ["run_confined"]

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
