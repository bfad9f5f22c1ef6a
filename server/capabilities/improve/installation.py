"""Copies of a skill for an improvement, and the installation of a checked change as one commit.

A change that a person has to decide on is kept as a proposal. Improvements whose process was killed are settled: the
log says what became of each skill, and the copies are removed.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from server.capabilities.history.histories import Histories
from server.config.machine import current_environment, state_home
from skills_core.audit.engine import audit
from skills_core.audit.findings import Severity
from skills_core.audit.skill import read_folder
from skills_core.diagnostics import Severity as Weight
from skills_core.diagnostics import one_line
from skills_core.disk.files import Location, open_to_read
from skills_core.disk.replacement import remove_tree
from skills_core.disk.sources import explicit_sources
from skills_core.disk.writing import write_file
from skills_core.errors import HistoryError, SkillChangedError, SkillEditedError
from skills_core.evals.proposals import unified_diff
from skills_core.history.store import has_history
from skills_core.history.versions import Cause
from skills_core.improve.changes import changed_texts, refusal_of
from skills_core.improve.improvement import ImprovementReason, ImprovementRefusal, ImprovementStatus
from skills_core.live.library import Library
from skills_core.scripts.runner import copy_skill

if TYPE_CHECKING:
    from server.capabilities.improve.records import ImprovementRecords
    from server.config.settings.model import Settings
    from skills_core.audit.findings import Finding
    from skills_core.catalog.catalog import Catalog
    from skills_core.skills.skill import Skill


_MAX_ENTRIES = 10_000
_MAX_KEPT = 1024 * 1024
_MAX_KEPT_TOGETHER = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ImprovementFolders:
    """A folder for one improvement that only this user can enter."""

    root: Path
    name: str

    @property
    def workspace(self) -> Path:
        """The copy that the model changes; it has no eval files."""
        return self.root / "workspace" / self.name

    @property
    def before(self) -> Path:
        """The skill as it is, with its eval files."""
        return self.root / "before" / self.name

    @property
    def after(self) -> Path:
        """The skill with the change, with its eval files."""
        return self.root / "after" / self.name

    @property
    def evals(self) -> Path:
        """Where results of evals go."""
        return self.root / "evals"

    def write_change(self, skill: Skill, change: Mapping[str, bytes]) -> None:
        """Write the versions to measure: the skill as it was loaded, and the same with the changed files.

        Raises:
            SkillChangedError: the skill was edited meanwhile.
            OSError: a file cannot be written.
        """
        for folder in (self.before, self.after):
            folder.parent.mkdir()
            copy_skill(skill, folder, with_evals=True, read_only=False)
        for path, content in change.items():
            write_file(Location(self.after, path), content)


@contextmanager
def opened_folders(skill: Skill, root: Path) -> Iterator[ImprovementFolders]:
    """Create `root` with the copy for the model, yield the folders in it, and remove them in the end.

    Raises:
        SkillChangedError: the skill was edited since it was loaded.
        OSError: it cannot be copied.
    """
    root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    root.mkdir(mode=0o700)
    root = root.resolve()
    folders = ImprovementFolders(root, Path(skill.content.folder or skill.source.root).name)
    try:
        folders.workspace.parent.mkdir()
        copy_skill(skill, folders.workspace, read_only=False)
        yield folders
    finally:
        remove_tree(root)


def files_below(root: Path) -> tuple[dict[str, bytes], frozenset[str]]:
    """Return the regular files below a folder with their bytes, and the paths of everything else but folders.

    A file that is too large for a text has a zero byte and its digest in place of its bytes. What exceeds the number of
    entries, or cannot be read, counts as something else.
    """
    files: dict[str, bytes] = {}
    others: set[str] = set()
    for number, (path, is_folder) in enumerate(_entries_below(root)):
        if number == _MAX_ENTRIES:
            others.add(path)
            break
        if is_folder:
            continue
        content = _content(root / path, _MAX_KEPT_TOGETHER - sum(map(len, files.values())))
        if content is None:
            others.add(path)
        else:
            files[path] = content
    return files, frozenset(others)


def _entries_below(root: Path) -> Iterator[tuple[str, bool]]:
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        with os.scandir(root / folder) as entries:
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                is_folder = entry.is_dir(follow_symlinks=False)
                waiting += [path] * is_folder
                yield path, is_folder


def _content(path: Path, room: int) -> bytes | None:
    try:
        with open(open_to_read(path), "rb") as file:  # noqa: PTH123 - it is a descriptor
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            content = file.read(_MAX_KEPT + 1)
            if len(content) <= min(_MAX_KEPT, room):
                return content
            digest = hashlib.sha256(content)
            while block := file.read(_MAX_KEPT):
                digest.update(block)
            return b"\0" + digest.digest()
    except OSError:
        return None


logger = logging.getLogger(__name__)


def refusal_of_version(before: Path, after: Path) -> ImprovementRefusal | None:
    """Return why the version in the folder `after` cannot replace the one in `before`, None if it can."""
    old, new = loaded_skill(before), loaded_skill(after)
    if old is None or new is None or (old.key, old.state, old.reason) != (new.key, new.state, new.reason):
        why = one_line(str(new.reason)) if new is not None else "it cannot be loaded"
        return ImprovementRefusal(ImprovementReason.INVALID, f"the changed skill is not usable as before: {why}")
    known = {each.code for each in old.diagnostics}
    for each in new.diagnostics:
        if each.severity is Weight.ERROR and each.code not in known:
            return ImprovementRefusal(ImprovementReason.INVALID, str(each))
    # A suppression that the change brings along must not hide what it adds.
    found = {each.fingerprint for each in _errors(before)}
    for finding in _errors(after):
        if finding.fingerprint not in found:
            return ImprovementRefusal(ImprovementReason.AUDIT_ERROR, str(finding))
    return None


def loaded_skill(folder: Path) -> Skill | None:
    """Return the skill that a folder is, not one that lies in it; None if it cannot be loaded."""
    skills = Library(explicit_sources([folder]), current_environment).catalog.skills
    return next((each for each in skills if each.content.place in {"", "."}), None)


def _errors(folder: Path) -> list[Finding]:
    return [each for each in audit(read_folder(folder)) if each.severity is Severity.ERROR]


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
        path: {
            "before": base64.b64encode(raw).decode("ascii"),
            "after": base64.b64encode(change.get(path, raw)).decode("ascii"),
        }
        for path, raw in sorted(base.items())
    }


def install(
    root: Path,
    place: str,
    change: Mapping[str, bytes],
    base: Mapping[str, bytes],
    message: str,
    run_id: str,
    settings: Settings,
) -> tuple[ImprovementRefusal | None, str | None]:
    """Write the changed files as one commit; return why they were not written, and the commit.

    A process that is killed leaves the old skill or the new one.
    """
    try:
        with Histories.of(settings).open(root) as history:
            commit = history.change(place, change, Cause.IMPROVEMENT, message, run_id, base=base)
    except SkillEditedError as error:
        return ImprovementRefusal(ImprovementReason.SKILL_CHANGED, str(error)), None
    except HistoryError as error:
        return ImprovementRefusal(ImprovementReason.NOT_WRITTEN, str(error)), None
    return None, None if commit is None else commit.rev


def accept(records: ImprovementRecords, number: str, catalog: Catalog, settings: Settings) -> dict[str, Any]:
    """Check a proposal against the skill as it is now, install it, and return its record.

    Raises:
        UnknownImprovementError: there is no such proposal.
        ClosedProposalError: it is not open, it does not fit the skill any more, or it cannot be written.
    """
    record = _open_proposal(records, number)
    skill = skill_of(record, catalog)
    if skill is None:
        raise ClosedProposalError(f"{number}: the skill {one_line(record['skill'])} is not in these sources any more")
    with _alone(records, record):
        # Somebody may have closed it meanwhile.
        base, change = recorded_change(_open_proposal(records, number))
        refusal: ImprovementRefusal | None = None
        rev = _already_installed(record, settings)
        if rev is None:
            refusal = _checked(skill, base, change, records.work_folder(number))
        if rev is None and refusal is None:
            source, place = skill.source.root, skill.content.place
            message = f"Accept the proposal {number}: {record.get('summary', '')} (after the run {record['run_id']})"
            refusal, rev = install(source, place, change, base, message, record["run_id"], settings)
    if refusal is not None:
        raise ClosedProposalError(f"{number}: not accepted: {refusal.message} ({refusal.reason})")
    return records.update(number, status=ImprovementStatus.ACCEPTED.value, commit=rev, reason=None, message=None)


def reject(records: ImprovementRecords, number: str) -> dict[str, Any]:
    """Close a proposal without a change, and return its record.

    Raises:
        UnknownImprovementError: there is no such proposal.
        ClosedProposalError: it is not open, or is being accepted.
    """
    with _alone(records, _open_proposal(records, number)):
        _open_proposal(records, number)
        return records.update(number, status=ImprovementStatus.REJECTED.value)


@contextmanager
def _alone(records: ImprovementRecords, record: Mapping[str, Any]) -> Iterator[None]:
    """Let nobody else improve the skill of a proposal, or decide on one of its proposals, within the block."""
    with records.only_one(Path(record["source"]), record["place"]) as alone:
        if not alone:
            raise ClosedProposalError(f"{record['id']}: the skill is being improved now; try again when that has ended")
        yield


def _open_proposal(records: ImprovementRecords, number: str) -> dict[str, Any]:
    record = records.get(number)
    if record["status"] != ImprovementStatus.PROPOSED:
        raise ClosedProposalError(f"{number}: is not an open proposal, but {record['status']}")
    return record


def recorded_change(record: Mapping[str, Any]) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Return the changed files of a proposal as they were, with the SKILL.md, and as they shall be.

    Raises:
        ClosedProposalError: the record is damaged.
    """
    try:
        files = record["change"].items()
        before, after = (
            {path: base64.b64decode(each[name], validate=True) for path, each in files} for name in ("before", "after")
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ClosedProposalError(f"{record['id']}: its record has no change that can be read") from None
    return before, after


def skill_of(record: Mapping[str, Any], catalog: Catalog) -> Skill | None:
    """Return the skill that a record is about, None if the catalog has none at its place."""
    wanted = (record["source"], record["place"])
    return next((each for each in catalog.skills if (str(each.source.root), each.content.place) == wanted), None)


def _already_installed(record: Mapping[str, Any], settings: Settings) -> str | None:
    """Return the commit of an accepted proposal whose process was killed before it recorded that."""
    try:
        return installed_commit(record, settings)
    except HistoryError as error:
        raise ClosedProposalError(f"{record['id']}: not accepted: {error}") from error


def _checked(
    skill: Skill, base: Mapping[str, bytes], change: Mapping[str, bytes], work: Path
) -> ImprovementRefusal | None:
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
                    return ImprovementRefusal(ImprovementReason.SKILL_CHANGED, message)
            refusal = refusal_of(base, change, main.path if main is not None else "")
            return refusal or refusal_of_version(folders.before, folders.after)
    except (SkillChangedError, OSError) as error:
        return ImprovementRefusal(ImprovementReason.SKILL_CHANGED, str(error))
