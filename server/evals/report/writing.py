"""Write the report of a workspace: atomically, so that a browser that refreshes never sees a part of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from server.evals.report.html.page import PageOptions, render_page
from server.evals.report.running_sign import work_runs
from server.evals.report.workspace import read_workspace
from skills_core.disk.files import Location
from skills_core.disk.writing import write_file
from skills_core.errors import FileRefusedError, SkillsError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from server.evals.report.gates import Gate
    from server.evals.report.model import Workspace

__all__ = ["REPORT_FILE", "ReportError", "current_page", "write_report", "write_text"]

REPORT_FILE: Final = "report.html"
"""The name of the report in its workspace."""


class ReportError(SkillsError):
    """A report cannot be written."""


def write_report(
    root: Path,
    output: Path | None = None,
    *,
    running: bool | None = None,
    gates: Sequence[Gate] = (),
) -> Path:
    """Write the page of the results in a workspace, and return its path.

    A page of `running` work refreshes itself; by default, the sign of running work in the workspace tells.

    Raises:
        WorkspaceError: there is no such folder, or it holds no results.
        ReportError: the page cannot be written.
    """
    workspace = read_workspace(root)
    target = output or root / REPORT_FILE
    write_text(target, current_page(workspace, running=work_runs(root) if running is None else running, gates=gates))
    return target


def current_page(
    workspace: Workspace, *, running: bool = False, served: bool = False, gates: Sequence[Gate] = ()
) -> str:
    """Return the page of a workspace as it is now."""
    return render_page(workspace, PageOptions(datetime.now(tz=UTC), served=served, running=running, gates=gates))


def write_text(target: Path, content: str) -> None:
    """Replace a file by a text.

    Raises:
        ReportError: it cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = target.parent.resolve()
        write_file(Location(folder, target.name), content.encode("utf-8"))
    except (FileRefusedError, OSError) as error:
        message = error.message if isinstance(error, FileRefusedError) else (error.strerror or str(error)).lower()
        raise ReportError(f"{target}: cannot be written: {message}; choose another file") from None
