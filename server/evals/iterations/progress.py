"""Show the progress of an eval on stderr: a bar on a terminal, else a line for each run that has ended."""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from skills_core.diagnostics import counted
from skills_core.evals.grading.results import EvalStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress, TaskID

    from server.evals.iterations.runner import ProgressListener
    from skills_core.evals.grading.results import EvalRun, RunKey

__all__ = ["showing_progress"]


def _line(run: EvalRun) -> str:
    seconds = run.outcome.duration_ms / 1000
    tokens = "" if run.outcome.total_tokens is None else f", {counted(run.outcome.total_tokens, 'token')}"
    if run.outcome.status is not EvalStatus.DONE:
        said = f"{run.outcome.status}: {run.problem}"
    elif run.outcome.grading_error:
        said = f"not graded: {run.outcome.grading_error}"
    elif run.results is None:
        said = "done, not graded"
    elif run.results:
        said = f"{sum(each.passed for each in run.results)} of {counted(len(run.results), 'assertion')} passed"
    else:
        said = "done, without assertions"
    return f"{run.key}: {said} ({seconds:.1f} s{tokens})"


class _Lines:
    """Prints a line for each run that has ended."""

    def __init__(self, total: int, show: Callable[[str], None], changed: Callable[[], None]) -> None:
        self._changed = changed
        self._total = total
        self._count = 0
        self._show = show

    def started(self, key: RunKey) -> None:
        del key

    def ended(self, run: EvalRun) -> None:
        self._count += 1
        self._show(f"[{self._count}/{self._total}] {_line(run)}")
        self._changed()


class _Bar:
    """Moves a bar, and prints a line above it for each run that has ended."""

    def __init__(self, progress: Progress, task: TaskID, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._progress = progress
        self._task = task
        self._running: list[str] = []

    def started(self, key: RunKey) -> None:
        self._running.append(str(key))
        self._update(0)

    def ended(self, run: EvalRun) -> None:
        from rich.text import Text

        self._running.remove(str(run.key))
        with suppress(OSError):
            self._progress.console.print(Text(_line(run)))
        self._update(1)
        self._changed()

    def _update(self, advance: int) -> None:
        with suppress(OSError):
            self._progress.update(self._task, advance=advance, description=", ".join(self._running)[:60])


@contextmanager
def showing_progress(
    total: int, show: Callable[[str], None], changed: Callable[[], None], *, plain: bool
) -> Iterator[ProgressListener]:
    """Yield the listener for an eval with `total` runs to do.

    `show` prints a line, and `changed` is called after each run. With `plain`, there is no bar.
    """
    if plain or not sys.stderr.isatty() or not total:
        yield _Lines(total, show, changed)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True, highlight=False)) as progress:
        yield _Bar(progress, progress.add_task("", total=total), changed)
