"""Write the report of a workspace and the files for CI, and keep the page current while work runs there.

Files are replaced atomically, so that a browser that refreshes never sees a part of one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread

from server.capabilities.evals.report.ci import junit, markdown
from server.capabilities.evals.report.workspace import WorkspaceError, read_workspace
from server.capabilities.evals.workspace import RENEWED_SECONDS, EvalError, remove_sign, renew_sign, work_runs
from server.cli.console import print_text
from skills_core.diagnostics import one_line
from skills_core.disk.files import Location
from skills_core.disk.writing import write_file
from skills_core.errors import FileRefusedError, SkillsError

if TYPE_CHECKING:
    from server.capabilities.evals.report.ci import CiGate
    from server.capabilities.evals.report.model import Results


REPORT_FILE: Final = "report.html"
"""The name of the report in its workspace."""


def write_report(
    root: Path,
    output: Path | None = None,
    *,
    running: bool | None = None,
    gates: Sequence[CiGate] = (),
) -> Path:
    """Write the page of the results in a workspace, and return its path.

    A page of `running` work refreshes itself; by default, the sign of running work in the workspace tells.

    Raises:
        WorkspaceError: there is no such folder, or it holds no results.
        EvalError: the page cannot be written.
    """
    workspace = read_workspace(root)
    target = output or root / REPORT_FILE
    write_text(target, current_page(workspace, running=work_runs(root) if running is None else running, gates=gates))
    return target


def current_page(
    workspace: Results, *, running: bool = False, served: bool = False, gates: Sequence[CiGate] = ()
) -> str:
    """Return the page of a workspace as it is now."""
    # The engine of the templates is loaded where a page is made.
    from server.capabilities.evals.report.page import PageOptions, render_page

    return render_page(workspace, PageOptions(datetime.now(tz=UTC), served=served, running=running, gates=gates))


def write_text(target: Path, content: str) -> None:
    """Replace a file by a text.

    Raises:
        EvalError: it cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = target.parent.resolve()
        write_file(Location(folder, target.name), content.encode("utf-8"))
    except (FileRefusedError, OSError) as error:
        message = error.message if isinstance(error, FileRefusedError) else (error.strerror or str(error)).lower()
        raise EvalError(f"{target}: cannot be written: {message}; choose another file") from None


_INTERVAL: Final = 2.0
# Fewest seconds between two reports.


@asynccontextmanager
async def live_report(workspace: Path, show: Callable[[str], None]) -> AsyncGenerator[Callable[[], None]]:
    """Write the report at the start, after changes and at the end of the block; yield what notes a change.

    A report that cannot be written does not end the work; `show` prints why, once.
    """
    report, failure = _LiveReport(workspace, show), None
    await report.write(running=True)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(report.follow)
            try:
                yield report.note_change
            except Exception as error:  # noqa: BLE001 - raised below, where no task group wraps it
                failure = error
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await report.write(running=False)
    if failure is not None:
        raise failure


class _LiveReport:
    """Writes the report of a workspace in a thread."""

    def __init__(self, workspace: Path, show: Callable[[str], None]) -> None:
        self._workspace = workspace
        self._show = show
        self._changed = anyio.Event()
        self._failed = False

    def note_change(self) -> None:
        """Let the report be written soon."""
        self._changed.set()

    async def follow(self) -> None:
        """Write the report after changes, and without any as a sign that the work runs."""
        while True:
            with anyio.move_on_after(RENEWED_SECONDS):
                await self._changed.wait()
            self._changed = anyio.Event()
            await self.write(running=True)
            await anyio.sleep(_INTERVAL)

    async def write(self, *, running: bool) -> None:
        """Write the report."""
        try:
            await anyio.to_thread.run_sync(self._write, running)
        except WorkspaceError:
            pass  # There is nothing to show yet.
        except (OSError, SkillsError) as error:
            if not self._failed:
                self._failed = True
                self._show(f"the report cannot be written: {error}")

    def _write(self, running: bool) -> None:  # noqa: FBT001 - called by position
        if running:
            renew_sign(self._workspace)
        else:
            remove_sign(self._workspace)
        write_report(self._workspace, running=running)


def write_ci_files(
    junit_file: Path | None, markdown_file: Path | None, results: Results, gates: Sequence[CiGate]
) -> None:
    """Write the files that the user asked for.

    Raises:
        EvalError: a file cannot be written.
    """
    if junit_file is not None:
        write_text(junit_file, junit(results))
    if markdown_file is not None:
        write_text(markdown_file, markdown(results, gates))


def print_gates(gates: Sequence[CiGate]) -> None:
    """Print a line for each gate."""
    for gate in gates:
        print_text(one_line(f"{gate.outcome}: {gate.name}: {gate.words}"))


def gate_objects(gates: Sequence[CiGate]) -> list[dict[str, Any]]:
    """Return the gates as `--json` prints them."""
    return [{"name": gate.name, "outcome": gate.outcome.value, "reason": gate.words} for gate in gates]


def next_step(workspace: Path) -> str:
    """Return the line that says where the report is, and how to open it."""
    return one_line(
        f"Report: {workspace / 'report.html'}; `skillserve report {workspace} --open` opens it for feedback"
    )
