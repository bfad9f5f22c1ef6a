"""Commands of the workspace in the sandbox that scripts have, where there is one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from skills_core.run.scripts.isolation import limited
from skills_core.run.scripts.mounts import SCRATCH, base_arguments, needed_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core.run.scripts.process import Command
    from skills_core.run.scripts.runner import ScriptSetup

__all__ = ["sandboxed_commands"]


def sandboxed_commands(setup: ScriptSetup, root: Path) -> Callable[[Command], Command] | None:
    """Return what puts a command into the sandbox, in which it sees the workspace at `root` and may write to it.

    None where there is no sandbox. The command sees no other file of the user, and has the network only where scripts
    have it.
    """
    sandbox = setup.isolation.sandbox
    if sandbox is None:
        return None

    def inside(command: Command) -> Command:
        program = Path(command.argv[0])
        shown = [] if program.is_relative_to(root) else needed_for(program, setup.home)
        arguments = [*base_arguments(network=setup.network), "--bind", str(root), str(root)]
        for path in shown:
            arguments += ["--ro-bind", str(path), str(path)]
        arguments += ["--remount-ro", "/", "--chdir", str(root), "--"]
        home = dict.fromkeys(("HOME", "TEMP", "TMP", "TMPDIR"), str(SCRATCH))
        return replace(
            command,
            argv=(str(sandbox), *arguments, *limited(setup.isolation, command.argv)),
            directory=Path("/"),
            environment={**command.environment, **home},
        )

    return inside
