"""The tool `git_diff`: what changed in the workspace since a commit.

An untrusted repository can name programs in its configuration: filters, text conversions, external diffs, hooks, a
file system monitor, transports for missing objects. None of them is run, and the configuration of the user and the
system is not read. The repository is the `.git` folder of the workspace itself; one that refers elsewhere is refused,
because its objects would come from outside the workspace.
"""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING

import anyio.to_thread

from skills_core.diagnostics import one_line
from skills_core.errors import ToolFailedError
from skills_core.guard.tool import Effect, Role, Tool
from skills_core.run.scripts.process import Command, ProcessEnding, ProcessLimits, run_process
from skills_core.run.tools.workspace.commands import find_program
from skills_core.run.tools.workspace.paths import PATH_DESCRIPTION, text_argument

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from skills_core.format.yaml12 import JsonObject
    from skills_core.guard.tool import CallContext
    from skills_core.run.scripts.process import ProcessResult
    from skills_core.run.tools.workspace.paths import Workspace

__all__ = ["git_diff_tool"]

_LIMITS = ProcessLimits(seconds=60, output_bytes=4 * 1024 * 1024)

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
        return _result_text(finished)

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
    return await run_process(Command(command, root, _environment(path)), _LIMITS)


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


def _result_text(finished: ProcessResult) -> str:
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
