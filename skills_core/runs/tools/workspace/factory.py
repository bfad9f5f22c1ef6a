"""Creates the workspace tools that the settings allow."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from skills_core.runs.tools.workspace.commands import command_environment, git_diff_tool, run_command_tool
from skills_core.runs.tools.workspace.files import grep_tool, list_directory_tool, read_file_tool, write_file_tool
from skills_core.runs.tools.workspace.folder import Workspace
from skills_core.runs.tools.workspace_names import WorkspaceTool
from skills_core.scripts.process import run_process

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from pathlib import Path

    from skills_core.guard.tool import Tool
    from skills_core.scripts.process import Command, ProcessLimits, ProcessResult

__all__ = ["workspace_tools"]


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
