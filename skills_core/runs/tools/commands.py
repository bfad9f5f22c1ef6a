"""The tools that start programs in the workspace, `run_command` and `git_diff`, and all workspace tools by name."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from skills_core.diagnostics import one_line
from skills_core.errors import ToolFailedError
from skills_core.guard.allowed_tools import OPERATORS
from skills_core.guard.tool import IDEMPOTENCY_KEY, Effect, Role, Tool
from skills_core.runs.tools import WorkspaceTool
from skills_core.runs.tools.workspace import (
    PATH_DESCRIPTION,
    Workspace,
    grep_tool,
    list_directory_tool,
    read_file_tool,
    text_argument,
    write_file_tool,
)
from skills_core.scripts.environment import SCHEDULED_RUN
from skills_core.scripts.isolation import run_confined
from skills_core.scripts.process import Command, ProcessEnding, ProcessLimits, run_process
from skills_core.scripts.programs import required_paths
from skills_core.scripts.sandbox import SCRATCH, sandbox_arguments
from skills_core.toolboxes import ToolPurpose

if TYPE_CHECKING:
    from skills_core.format.yaml12 import JsonObject
    from skills_core.guard.tool import CallContext
    from skills_core.scripts.process import ProcessResult
    from skills_core.scripts.runner import ScriptSetup


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
        Role(frozenset({ToolPurpose.RUN_COMMAND}), command="command"),
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


_GIT_LIMITS = ProcessLimits(seconds=60, output_bytes=4 * 1024 * 1024)

_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./^~@{}-]{0,199}")
# Not an option, because it has no leading hyphen, and not a file of a tree, because it has no colon.

_DRIVER = re.compile(r"(filter\.[^\n]+)\.(?:clean|smudge|process|required)", re.IGNORECASE)

_MAX_DRIVERS = 100

_MUST_NOT_BE_LINKS = ("HEAD", "config", "index", "objects", "refs", "packed-refs", "info", "config.worktree")
# Parts of a repository that must not be links.

_DIFF = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all", "--submodule=short")


def git_diff_tool(workspace: Workspace, path: str) -> Tool:
    """Return the tool; `path` is the search path for programs, as in the environment variable PATH."""
    root = workspace.root

    async def perform(arguments: JsonObject, _context: CallContext) -> str:
        await anyio.to_thread.run_sync(_require_own_repository, root)
        drivers = await _drivers(root, path)
        options = ["--cached"] if arguments.get("staged") is True else []
        if revision := text_argument(arguments, "revision"):
            if not _REVISION.fullmatch(revision):
                raise ToolFailedError(f"{one_line(revision)[:100]}: not a commit or branch")
            options.append(revision)
        within = workspace.locate(text_argument(arguments, "path")).relative
        wanted = [f":(top,literal){within}"] if within else []
        # git accepts exclusions beside the root only.
        wanted += [f":(top,exclude,icase){_literal(private)}" for private in workspace.private]
        finished = await _git(root, path, drivers, [*_DIFF, *options, "--", *wanted])
        return _diff_text(finished)

    return Tool(
        "git_diff",
        "Show what changed in the workspace, as git diff does: what is not committed, or since a revision.",
        {
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "description": f"{PATH_DESCRIPTION} Only what changed there; everything by default.",
                },
                "staged": {"type": "boolean", "description": "What is staged, instead of what is not."},
                "revision": {"type": "string", "description": "A commit or branch to compare with."},
            },
            "additionalProperties": False,
        },
        Effect.READS,
        "workspace",
        perform,
        Role(path="path", recursive=True),
    )


def _literal(path: str) -> str:
    """Return a pattern of git for just this path, and what is below it."""
    return re.sub(r"([*?\[\\])", r"\\\1", path)


def _require_own_repository(root: Path) -> None:
    """Require that the whole repository is in the workspace.

    Raises:
        ToolFailedError: there is no repository, or it refers elsewhere.
    """
    repository = root / ".git"
    try:
        if not stat.S_ISDIR(repository.lstat().st_mode):
            raise ToolFailedError(".git in the workspace is not a folder; a repository kept elsewhere is not read")
    except OSError:
        raise ToolFailedError("the workspace is not the root of a git repository") from None
    elsewhere = [name for name in _MUST_NOT_BE_LINKS if (repository / name).is_symlink()]
    elsewhere += [name for name in ("commondir", "objects/info/alternates") if os.path.lexists(repository / name)]
    if elsewhere:
        raise ToolFailedError(
            f"the repository refers to files elsewhere through .git/{elsewhere[0]}, so it is not read"
        )


async def _drivers(root: Path, path: str) -> list[str]:
    """Return the names of the filter drivers in the repository's configuration."""
    finished = await _git(root, path, [], ["config", "--list", "--name-only", "-z"])
    if finished.ending is not ProcessEnding.EXITED or finished.exit_code != 0:
        raise ToolFailedError(f"git cannot read the configuration of the repository: {_first_line(finished)}")
    names = finished.stdout.decode("utf-8", "surrogateescape").split("\0")
    drivers = sorted({match[1] for name in names if (match := _DRIVER.fullmatch(name))})
    if len(drivers) > _MAX_DRIVERS or any("=" in driver for driver in drivers):
        raise ToolFailedError("the configuration of the repository defines filters that cannot be switched off")
    return drivers


async def _git(root: Path, path: str, drivers: Iterable[str], arguments: list[str]) -> ProcessResult:
    off = {
        "core.fsmonitor": "false",
        "core.hooksPath": os.devnull,
        "core.pager": "cat",
        "core.attributesFile": os.devnull,
    }
    for driver in drivers:
        off |= {f"{driver}.clean": "", f"{driver}.smudge": "", f"{driver}.process": "", f"{driver}.required": "false"}
    settings = [part for name, value in off.items() for part in ("-c", f"{name}={value}")]
    where = [f"--git-dir={root / '.git'}", f"--work-tree={root}"]
    git = await anyio.to_thread.run_sync(find_program, "git", path)
    if git is None:
        raise ToolFailedError("git is not installed")
    command = (git, "--no-pager", "--no-optional-locks", *where, *settings, *arguments)
    return await run_process(Command(command, root, _environment(path)), _GIT_LIMITS)


def _environment(path: str) -> dict[str, str]:
    return {
        "PATH": path,
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        # Empty, so that git fetches no missing objects with a program that the repository names.
        "GIT_ALLOW_PROTOCOL": "",
    }


def _diff_text(finished: ProcessResult) -> str:
    if finished.ending is ProcessEnding.NOT_STARTED:
        raise ToolFailedError(f"git cannot be started: {finished.fault}")
    if finished.ending is ProcessEnding.TIMED_OUT:
        raise ToolFailedError("git took too long")
    text = finished.stdout.decode("utf-8", "replace")
    if finished.ending is ProcessEnding.TOO_MUCH_OUTPUT:
        return f"{text}\n[the rest of the changes is not shown; ask for those of one path]"
    if finished.exit_code not in {0, 1}:
        raise ToolFailedError(f"git: {_first_line(finished)}")
    return text or "Nothing has changed."


def _first_line(finished: ProcessResult) -> str:
    if finished.fault:
        return finished.fault
    lines = finished.stderr.decode("utf-8", "replace").strip().splitlines()
    return one_line(lines[0])[:300] if lines else f"it ended with {finished.exit_code}"


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


def workspace_tools(
    root: Path,
    allowed: Iterable[WorkspaceTool],
    host: Mapping[str, str],
    run: Callable[[Command, ProcessLimits], Awaitable[ProcessResult]] = run_process,
    private: Iterable[Path] = (),
) -> tuple[Tool, ...]:
    """Return the allowed tools for the workspace at `root`, an absolute path.

    What lies at an absolute path in `private` is not shown and not written; commands are kept away from it by `run`
    alone. `host` is the environment of this process; programs get a fixed list of its variables. `run` runs a command,
    in a sandbox or not.
    """
    workspace = Workspace.without(root, private)
    make: dict[WorkspaceTool, Callable[[], Tool]] = {
        WorkspaceTool.READ_FILE: partial(read_file_tool, workspace),
        WorkspaceTool.WRITE_FILE: partial(write_file_tool, workspace),
        WorkspaceTool.LIST_DIRECTORY: partial(list_directory_tool, workspace),
        WorkspaceTool.GREP: partial(grep_tool, workspace),
        WorkspaceTool.GIT_DIFF: partial(git_diff_tool, workspace, host.get("PATH", "")),
        WorkspaceTool.RUN_COMMAND: partial(run_command_tool, root, command_environment(host), run),
    }
    return tuple(make[name]() for name in dict.fromkeys(allowed))
