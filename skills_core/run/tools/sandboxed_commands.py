"""Runs commands of the workspace in the sandbox of scripts, if there is one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from skills_core.run.scripts.isolation import run_confined
from skills_core.run.scripts.programs import required_paths
from skills_core.run.scripts.sandbox import SCRATCH, sandbox_arguments

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from skills_core.run.scripts.process import Command, ProcessLimits, ProcessResult
    from skills_core.run.scripts.runner import ScriptSetup

__all__ = ["sandboxed_runner"]


def sandboxed_runner(setup: ScriptSetup, root: Path) -> Callable[[Command, ProcessLimits], Awaitable[ProcessResult]]:
    """Return a function that runs a command in the sandbox with the workspace at `root` mounted writable.

    The command sees no other file of the user, and has the network only if scripts have it. Without a sandbox it has
    the user's rights and no limits on memory and files; its descendants are killed with it if the system allows.
    """
    isolation, python = setup.isolation, setup.programs.python

    def mounts_for(shown: list[Path]) -> list[str]:
        return sandbox_arguments(
            shown, workspace=root, directory=root, network=setup.network, private=setup.private, kept=setup.cache
        )

    async def run(command: Command, limits: ProcessLimits) -> ProcessResult:
        if isolation.sandbox is None:
            return await run_confined(replace(isolation, limiter=None, cgroups=None), command, limits, python=python)
        shown = await anyio.to_thread.run_sync(required_paths, Path(command.argv[0]), setup.home, root)
        mounts = await anyio.to_thread.run_sync(mounts_for, shown)
        home = dict.fromkeys(("HOME", "TEMP", "TMP", "TMPDIR"), str(SCRATCH))
        inside = replace(command, environment={**command.environment, **home})
        return await run_confined(isolation, inside, limits, mounts=mounts)

    return run
