"""The marker of a workspace of results: discovery of skills passes over the folder that holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skills_core.disk.files import Location
from skills_core.disk.folders import NOT_A_SOURCE
from skills_core.disk.writing import write_file

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["open_workspace"]

_CONTENT: Final = b'{"about": "Results of skillserve; folders with this file are not searched for skills"}\n'


def open_workspace(workspace: Path) -> None:
    """Make the folder of a workspace, and mark it before a copy of a skill comes into it.

    Raises:
        OSError: the folder cannot be made.
        FileRefusedError: the marker cannot be written.
    """
    workspace.mkdir(parents=True, exist_ok=True)
    if not (workspace / NOT_A_SOURCE).exists():
        write_file(Location(workspace, NOT_A_SOURCE), _CONTENT)
