"""Keep the report of a workspace current while work runs in it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from server.evals.report.running_sign import RENEWED_SECONDS, remove_sign, renew_sign
from server.evals.report.workspace import WorkspaceError
from server.evals.report.writing import write_report
from skills_core.errors import SkillsError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path

__all__ = ["live_report"]

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
