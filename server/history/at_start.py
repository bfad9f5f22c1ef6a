"""What a server does for histories when it starts: complete interrupted changes, and record edits made meanwhile.

Most servers keep no history, so nothing is imported before there is something to do.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import anyio.to_thread

from server.config.machine import state_home
from skills_core.diagnostics import one_line, printable
from skills_core.errors import HistoryError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from server.config.settings import Settings
    from skills_core.sources import Source

__all__ = ["complete_interrupted_changes", "record_edits"]

logger = logging.getLogger(__name__)


def complete_interrupted_changes(sources: Iterable[Source]) -> None:
    """Complete the changes that a crash interrupted, before the skills are read."""
    if not (state_home() / "history").is_dir():
        return
    from skills_core.history.store import is_interrupted, open_history  # noqa: PLC0415 - see above

    for root in {source.root for source in sources}:
        if is_interrupted(root, state_home()):
            try:
                # Even if the settings have changed since, a change is not left half done.
                with open_history(root, state_home(), work_trees=True) as history:
                    history.complete()
            except HistoryError as error:
                logger.warning("history: %s", error)
            except Exception:
                logger.exception("history: the interrupted change in %s", printable(str(root)))


async def record_edits(sources: Iterable[Source], settings: Settings) -> None:
    """Commit what has changed in sources with a history since the last commit; log failures."""
    is_named = settings.history.sources or settings.improve.sources
    if is_named or (state_home() / "history").is_dir():
        # A commit that is cut off by the end of the process leaves the history as it was.
        await anyio.to_thread.run_sync(partial(_record, sources, settings), abandon_on_cancel=True)


def _record(sources: Iterable[Source], settings: Settings) -> None:
    from server.history.histories import Histories  # noqa: PLC0415 - see above

    histories = Histories.of(settings)
    for root in histories.at_start(sources):
        try:
            with histories.open(root) as history:
                commit = history.record_manual_edits()
        except HistoryError as error:
            logger.warning("history: %s", error)
            continue
        except Exception:
            # Serving goes on.
            logger.exception("history: the edits in %s", printable(str(root)))
            continue
        if commit is not None:
            skills = one_line(", ".join(commit.skills[:5]))
            logger.info("history: %s: %s (%s)", commit.rev[:10], commit.message, skills)
