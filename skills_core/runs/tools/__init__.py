"""The tools of a run: its own, and those that work on one folder, the workspace, and never outside of it.

A workspace tool is off until it is allowed by name. The names are here, so that settings can be read without the tools.
"""

from __future__ import annotations

from enum import StrEnum


class WorkspaceTool(StrEnum):
    """The workspace tools by name."""

    READ_FILE = "read_file"
    WRITE_FILE = "write_file"
    LIST_DIRECTORY = "list_directory"
    GREP = "grep"
    GIT_DIFF = "git_diff"
    RUN_COMMAND = "run_command"
