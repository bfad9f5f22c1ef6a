"""The names of the workspace tools, importable without the tools themselves."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["WorkspaceTool"]


class WorkspaceTool(StrEnum):
    """The workspace tools by name."""

    READ_FILE = "read_file"
    WRITE_FILE = "write_file"
    LIST_DIRECTORY = "list_directory"
    GREP = "grep"
    GIT_DIFF = "git_diff"
    RUN_COMMAND = "run_command"
