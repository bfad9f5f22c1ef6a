"""Run a program of an eval: an agent, or the command of a check. It ends with everything that it has started.

On Linux a supervisor ends the descendants of a program, also those that leave its session, and also if this process is
killed.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from server.capabilities.evals.errors import EvalError
from skills_core.scripts.isolation import Isolation, run_confined
from skills_core.scripts.process import Command, ProcessEnding, ProcessLimits, run_process

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skills_core.scripts.process import ProcessResult


CANNOT_START: Final = frozenset({126, 127})
"""Exit codes of a shell that cannot start a program."""

_SYNTAX_SECONDS: Final = 20.0


def shell_words(command: str) -> tuple[str, ...]:
    """Return the words that run a command by `sh -c`.

    Raises:
        EvalError: there is no shell.
    """
    return (_shell(), "-c", command)


def _shell() -> str:
    found = shutil.which("sh")
    if found is None:
        raise EvalError("there is no sh on the PATH; install a POSIX shell (on Windows, Git for Windows has one)")
    return found


async def run_program(
    command: Command, limits: ProcessLimits, watch: Callable[[bytes], bool] | None = None
) -> ProcessResult:
    """Run a program, and return its result. A cancellation ends it, and so does `watch`; see `run_process`."""
    return await run_confined(Isolation(), command, limits, python=Path(sys.executable), watch=watch)


async def run_shell(
    command: str, directory: Path, environment: Mapping[str, str], limits: ProcessLimits
) -> ProcessResult:
    """Run a command by `sh -c`, and return its result. A cancellation ends the command.

    Raises:
        EvalError: there is no shell.
    """
    return await run_program(Command(shell_words(command), directory, environment), limits)


async def check_syntax(command: str) -> str:
    """Return why a shell cannot read a command, empty if it can.

    Raises:
        EvalError: there is no shell.
    """
    started = Command((_shell(), "-n", "-c", command), Path(os.sep), os.environ)
    done = await run_process(started, ProcessLimits(_SYNTAX_SECONDS, 10_000))
    if done.ending is ProcessEnding.EXITED and done.exit_code == 0:
        return ""
    return done.fault or done.stderr.decode("utf-8", "replace").strip() or f"exit code {done.exit_code}"
