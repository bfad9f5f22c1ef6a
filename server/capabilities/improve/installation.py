"""Install a checked change in one step with its commit, or keep it as a proposal that a person accepts or rejects.

Improvements whose process was killed are settled: it is said what became of each skill, and the copies are removed.
"""

from __future__ import annotations

import base64
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from server.capabilities.history.histories import Histories
from server.capabilities.improve.checks import refusal_of_version
from server.capabilities.improve.folders import opened_folders
from server.config.machine import state_home
from skills_core.diagnostics import one_line
from skills_core.disk.replacement import remove_tree
from skills_core.errors import HistoryError, SkillChangedError, SkillEditedError
from skills_core.evals.proposals import unified_diff
from skills_core.history.commits import Cause
from skills_core.history.store import has_history
from skills_core.improve.bounds import changed_texts, refusal_of
from skills_core.improve.reasons import ImprovementReason, ImprovementStatus, Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from server.capabilities.improve.records import ImprovementRecords
    from server.config.settings.model import Settings
    from skills_core.catalog.catalog import Catalog
    from skills_core.skills.skill import Skill

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


class ClosedProposalError(HistoryError):
    """A proposal cannot be accepted or rejected; the message says why."""


def diff_of_change(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> str:
    """Return the unified diff of the changed texts."""
    return "".join(unified_diff(text.path, text.before, text.after) for text in changed_texts(before, after))


def stored_change(base: Mapping[str, bytes], change: Mapping[str, bytes]) -> dict[str, dict[str, str]]:
    """Return the changed files, and those that the change is based on, as a record keeps them."""
    return {
        path: {"before": _encoded(raw), "after": _encoded(change.get(path, raw))} for path, raw in sorted(base.items())
    }


def install(
    root: Path,
    place: str,
    change: Mapping[str, bytes],
    base: Mapping[str, bytes],
    message: str,
    run_id: str,
    settings: Settings,
) -> tuple[Refusal | None, str | None]:
    """Write the changed files as one commit; return why they were not written, and the commit.

    A process that is killed leaves the old skill or the new one.
    """
    try:
        with Histories.of(settings).open(root) as history:
            commit = history.change(place, change, Cause.IMPROVEMENT, message, run_id, base=base)
    except SkillEditedError as error:
        return Refusal(ImprovementReason.SKILL_CHANGED, str(error)), None
    except HistoryError as error:
        return Refusal(ImprovementReason.NOT_WRITTEN, str(error)), None
    return None, None if commit is None else commit.rev


def accept(records: ImprovementRecords, number: str, catalog: Catalog, settings: Settings) -> dict[str, Any]:
    """Check a proposal against the skill as it is now, install it, and return its record.

    Raises:
        UnknownImprovementError: there is no such proposal.
        ClosedProposalError: it is not open, it does not fit the skill any more, or it cannot be written.
    """
    record = _open_proposal(records, number)
    skill = _skill_of(record, catalog)
    if skill is None:
        raise ClosedProposalError(f"{number}: the skill {one_line(record['skill'])} is not in these sources any more")
    with records.only_one(skill.source.root, skill.content.place) as alone:
        if not alone:
            raise ClosedProposalError(f"{number}: the skill is being improved now; try again when that has ended")
        base = {path: _decoded(each["before"]) for path, each in record["change"].items()}
        change = {path: _decoded(each["after"]) for path, each in record["change"].items()}
        refusal: Refusal | None = None
        rev = _already_installed(record, settings)
        if rev is None:
            refusal = _checked(skill, base, change, records.work_folder(number))
        if rev is None and refusal is None:
            source, place = skill.source.root, skill.content.place
            message = f"Accept the proposal {number}: {record['summary']} (after the run {record['run_id']})"
            refusal, rev = install(source, place, change, base, message, record["run_id"], settings)
    if refusal is not None:
        raise ClosedProposalError(f"{number}: not accepted: {refusal.message} ({refusal.reason})")
    return records.update(number, status=ImprovementStatus.ACCEPTED.value, commit=rev, reason=None, message=None)


def reject(records: ImprovementRecords, number: str) -> dict[str, Any]:
    """Close a proposal without a change, and return its record.

    Raises:
        UnknownImprovementError: there is no such proposal.
        ClosedProposalError: it is not open.
    """
    _open_proposal(records, number)
    return records.update(number, status=ImprovementStatus.REJECTED.value)


def _open_proposal(records: ImprovementRecords, number: str) -> dict[str, Any]:
    record = records.get(number)
    if record["status"] != ImprovementStatus.PROPOSED:
        raise ClosedProposalError(f"{number}: is not an open proposal, but {record['status']}")
    return record


def _skill_of(record: Mapping[str, Any], catalog: Catalog) -> Skill | None:
    wanted = (record["source"], record["place"])
    return next((each for each in catalog.skills if (str(each.source.root), each.content.place) == wanted), None)


def _already_installed(record: Mapping[str, Any], settings: Settings) -> str | None:
    """Return the commit of an accepted proposal whose process was killed before it recorded that."""
    try:
        return installed_commit(record, settings)
    except HistoryError as error:
        raise ClosedProposalError(f"{record['id']}: not accepted: {error}") from error


def _checked(skill: Skill, base: Mapping[str, bytes], change: Mapping[str, bytes], work: Path) -> Refusal | None:
    """Return why a change must not be made to the skill as it is now."""
    main = skill.content.main
    try:
        # A process that was killed while it accepted the proposal has left the folder.
        remove_tree(work)
        with opened_folders(skill, work) as folders:
            folders.write_change(skill, change)
            for path, content in base.items():
                file = folders.before / path
                if not file.is_file() or file.read_bytes() != content:
                    message = f"{one_line(path)}: was edited since the proposal was made; run the skill again"
                    return Refusal(ImprovementReason.SKILL_CHANGED, message)
            refusal = refusal_of(base, change, main.path if main is not None else "")
            return refusal or refusal_of_version(folders.before, folders.after)
    except (SkillChangedError, OSError) as error:
        return Refusal(ImprovementReason.SKILL_CHANGED, str(error))


def _encoded(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def _decoded(text: str) -> bytes:
    return base64.b64decode(text)
