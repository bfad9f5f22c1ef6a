"""The names of the tools of a workspace, for whoever only wants to know them."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["WorkspaceTool"]


class WorkspaceTool(StrEnum):
    """The tools of a workspace, by their names."""

    READ_FILE = "read_file"
    WRITE_FILE = "write_file"
    LIST_DIRECTORY = "list_directory"
    GREP = "grep"
    GIT_DIFF = "git_diff"
    RUN_COMMAND = "run_command"
