"""Settle the improvements whose process was killed: say what became of each skill, and remove the copies."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from server.config.machine import state_home
from server.history.histories import Histories
from skills_core.diagnostics import one_line
from skills_core.disk.replacement import remove_tree
from skills_core.errors import HistoryError
from skills_core.history.commits import Cause
from skills_core.history.store import has_history
from skills_core.improve.reasons import ImprovementReason, ImprovementStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from server.config.settings import Settings
    from server.improve.records import ImprovementRecords

__all__ = ["installed_commit", "settle_interrupted"]

logger = logging.getLogger(__name__)

_RECENT = 100
# Commits of a skill among which that of an improvement is looked for.


def settle_interrupted(records: ImprovementRecords, settings: Settings) -> None:
    """Close the records of improvements that have begun and whose process is gone, and log each."""
    try:
        begun = [each for each in records.all() if each["status"] == ImprovementStatus.BEGUN]
        for record in begun:
            with records.only_one(Path(record["source"]), record["place"]) as alone:
                # Its process holds the lock of the skill until the record is closed.
                if alone and records.get(record["id"])["status"] == ImprovementStatus.BEGUN:
                    _settle(records, record, settings)
    except OSError as error:
        logger.warning("interrupted improvements cannot be settled: %s", error)


def installed_commit(record: Mapping[str, Any], settings: Settings) -> str | None:
    """Return the commit that installed a change; a change that was interrupted on disk is completed first.

    Raises:
        HistoryError: the history cannot be read.
    """
    root = Path(record["source"])
    if not root.is_dir() or not has_history(root, state_home()):
        return None
    with Histories.of(settings).open(root) as history:
        history.complete()
        for commit in history.commits(record["place"], _RECENT):
            if (commit.cause, commit.trace_id) == (Cause.IMPROVEMENT, record["run_id"]):
                return commit.rev
    return None


def _settle(records: ImprovementRecords, record: Mapping[str, Any], settings: Settings) -> None:
    number = record["id"]
    if left := remove_tree(records.work_folder(number)):
        logger.warning("the copies of the improvement %s cannot be removed: %s", number, one_line(left))
    try:
        rev = installed_commit(record, settings)
    except HistoryError as error:
        logger.warning("the interrupted improvement %s cannot be settled: %s", number, error)
        return
    if rev is None:
        status, said = ImprovementStatus.DROPPED, "its process ended before it was complete; the skill is as it was"
        reason = ImprovementReason.INTERRUPTED.value
        records.update(number, status=status.value, reason=reason, message=said)
    else:
        status, said = ImprovementStatus.IMPROVED, f"its process ended after the commit {rev[:10]}"
        records.update(number, status=status.value, commit=rev)
    shown = (one_line(record["skill"]), one_line(record["run_id"]), status, said)
    logger.warning("improvement of %s after the run %s: %s: %s", *shown)
