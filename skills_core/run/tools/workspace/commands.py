"""The tool `run_command`: a program and its arguments, started in the workspace without a shell."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from skills_core.diagnostics import one_line
from skills_core.errors import ToolFailedError
from skills_core.guard.allowed_tools import OPERATORS
from skills_core.guard.tool import IDEMPOTENCY_KEY, Effect, Role, Tool
from skills_core.run.scripts.environment import SCHEDULED_RUN
from skills_core.run.scripts.process import Command, ProcessEnding, ProcessLimits, run_process
from skills_core.run.tools.workspace.paths import Workspace
from skills_core.toolboxes import Capability

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from skills_core.format.yaml12 import JsonObject
    from skills_core.guard.tool import CallContext
    from skills_core.run.scripts.process import ProcessResult

__all__ = ["command_environment", "find_program", "run_command_tool"]

_LIMITS = ProcessLimits(seconds=3600, output_bytes=1024 * 1024)
# The gate's deadline ends a call earlier.

_PASSED = ("COMSPEC", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "NUMBER_OF_PROCESSORS", "PATH", "PATHEXT", "SYSTEMDRIVE")
_PASSED_TOO = ("SYSTEMROOT", "TEMP", "TMP", "TMPDIR", "TZ", "USERPROFILE")

_FIXED = {"GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "NO_COLOR": "1", "PAGER": "cat"}
# There is no terminal, and no user to answer prompts.


def command_environment(host: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a command: a fixed list of variables from `host`, the server's environment."""
    return {name: host[name] for name in (*_PASSED, *_PASSED_TOO, SCHEDULED_RUN) if name in host} | _FIXED


def run_command_tool(
    root: Path,
    environment: Mapping[str, str],
    run: Callable[[Command, ProcessLimits], Awaitable[ProcessResult]] = run_process,
) -> Tool:
    """Return the tool; `environment` is the complete one of a command, `run` runs it, in a sandbox or not."""

    async def perform(arguments: JsonObject, context: CallContext) -> str:
        words = arguments.get("command")
        command = [word for word in words if isinstance(word, str)] if isinstance(words, list) else []
        _reject_shell_syntax(command)
        program = await anyio.to_thread.run_sync(_resolve_program, root, command[0], environment.get("PATH", ""))
        started = Command((program, *command[1:]), root, {**environment, IDEMPOTENCY_KEY: context.key})
        return _result_text(await run(started, _LIMITS))

    return Tool(
        "run_command",
        "Run a program in the workspace. The command is a list: the program, then each argument by itself. There is no "
        "shell: no pipes, no redirections, no variables, no wildcards.",
        {
            "type": "object",
            "properties": {
                "command": {
                    "type": "array",
                    "items": {"type": "string"},
                    "minItems": 1,
                    "description": 'For example ["git", "log", "--oneline", "-5"].',
                }
            },
            "required": ["command"],
            "additionalProperties": False,
        },
        Effect.WRITES,
        "workspace",
        perform,
        Role(frozenset({Capability.RUN_COMMAND}), command="command"),
    )


def _reject_shell_syntax(command: list[str]) -> None:
    """Refuse a list that is meant for a shell.

    Raises:
        ToolFailedError: a word has a meaning only for a shell, or the program is blank.
    """
    operator = next((word for word in command if word in OPERATORS), None)
    if operator is not None:
        raise ToolFailedError(f"there is no shell, so {operator} means nothing; run one command in each call")
    if not command[0].strip():
        raise ToolFailedError("the first word of the command must be a program")


def _resolve_program(root: Path, name: str, search_path: str) -> str:
    """Return the path of a program: on the search path, or in the workspace if the name has a `/`.

    Raises:
        ToolFailedError: the program does not exist.
    """
    if Path(name).is_absolute():
        return name
    if "/" in name or os.sep in name:
        return str(Workspace(root).locate(name).path)
    found = find_program(name, search_path)
    if found:
        return found
    hint = "; write each argument as a word of its own" if " " in name else ""
    raise ToolFailedError(f"{one_line(name)[:200]}: there is no such program{hint}")


def find_program(name: str, search_path: str) -> str | None:
    """Return the path of a program, None if there is none; relative folders in the search path are ignored."""
    for folder in search_path.split(os.pathsep):
        found = shutil.which(str(Path(folder, name))) if folder and Path(folder).is_absolute() else None
        if found:
            return found
    return None


def _result_text(finished: ProcessResult) -> str:
    """Return the program's output and how it ended.

    Raises:
        ToolFailedError: the program was not started.
    """
    if finished.ending is ProcessEnding.NOT_STARTED:
        raise ToolFailedError(finished.fault)
    ended = {
        ProcessEnding.EXITED: f"exit code {finished.exit_code}",
        ProcessEnding.TIMED_OUT: "it took too long and was terminated",
        ProcessEnding.TOO_MUCH_OUTPUT: f"it was terminated, because it wrote more than {_LIMITS.output_bytes} bytes",
    }[finished.ending]
    output, errors = (stream.decode("utf-8", "replace") for stream in (finished.stdout, finished.stderr))
    parts = [f"[{ended}]", output.rstrip("\n")]
    parts += ["[stderr]", errors.rstrip("\n")] if errors else []
    return "\n".join(part for part in parts if part)
