"""What a server does for histories when it starts: complete interrupted changes, and record edits made meanwhile."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import anyio.to_thread

from server.config.machine import state_home
from server.history.histories import Histories
from skills_core.errors import HistoryError
from skills_core.history.store import is_interrupted, open_history

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from server.config.settings import HistorySettings
    from skills_core.sources import Source

__all__ = ["complete_interrupted_changes", "record_edits"]

logger = logging.getLogger(__name__)


def complete_interrupted_changes(sources: Iterable[Source]) -> None:
    """Complete the changes that a crash interrupted, before the skills are read."""
    for root in {source.root for source in sources}:
        if is_interrupted(root, state_home()):
            try:
                # Even if the settings have changed since, a change is not left half done.
                with open_history(root, state_home(), work_trees=True) as history:
                    history.complete()
            except HistoryError as error:
                logger.warning("history: %s", error)


async def record_edits(sources: Iterable[Source], settings: HistorySettings) -> None:
    """Commit what has changed in sources with a history since the last commit; log failures."""
    if settings.sources:
        for root in Histories(settings).covered(sources):
            # A commit that is cut off by the end of the process leaves the history as it was.
            await anyio.to_thread.run_sync(partial(_record, root, settings), abandon_on_cancel=True)


def _record(root: Path, settings: HistorySettings) -> None:
    try:
        with Histories(settings).open(root) as history:
            commit = history.record_manual_edits()
    except HistoryError as error:
        logger.warning("history: %s", error)
        return
    if commit is not None:
        logger.info("history: %s: %s (%s)", commit.rev[:10], commit.message, ", ".join(commit.skills[:5]))
