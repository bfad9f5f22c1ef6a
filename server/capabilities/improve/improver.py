"""Improve the skills of a run that had failed tool calls: perform, check, measure, install, and record the result."""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from server.capabilities.history.histories import Histories
from server.capabilities.improve.checks import (
    has_evals,
    loaded_skill,
    offered_tools,
    refusal_of_evals,
    refusal_of_version,
    replay_failed_step,
)
from server.capabilities.improve.folders import files_below, opened_folders
from server.capabilities.improve.installation import diff_of_change, install, stored_change
from server.capabilities.improve.model_run import ImprovementRun
from server.capabilities.improve.settings import ImproveSettings
from server.capabilities.runs.offered import open_configured
from server.capabilities.runs.service import new_run_id
from server.capabilities.runs.settings import RunSettings
from server.capabilities.runs.skill_runner import process_secrets
from skills_core.diagnostics import one_line
from skills_core.disk.sources import SkillKind, real_path
from skills_core.errors import SkillChangedError, SkillsError
from skills_core.improve.bounds import changed_texts, refusal_of, repeats_record
from skills_core.improve.corrections import RunTools, corrections_of, describe_change, describe_corrections
from skills_core.improve.failed_run import improvement_task, missing_tools, shown_texts, skills_to_improve
from skills_core.improve.reasons import ImprovementReason, ImprovementStatus, Refusal
from skills_core.runs.journal import to_json
from skills_core.runs.models import CLIENT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic_ai.models import Model

    from server.capabilities.improve.checks import OfferedTools
    from server.capabilities.improve.folders import ImprovementFolders
    from server.capabilities.improve.records import ImprovementRecords
    from server.capabilities.runs.after_run import FinishedRun
    from server.config.settings.model import Settings
    from skills_core.runs.executor import RunRequest
    from skills_core.runs.outcome import RunOutcome
    from skills_core.skills.skill import Skill


logger = logging.getLogger(__name__)

_NOT_A_CORRECTION = Refusal(
    ImprovementReason.NOT_A_CORRECTION,
    "it does more than correct the name of a tool, the target of a link or a typing error, so you decide",
)


@dataclass(frozen=True, slots=True)
class _FailedRun:
    """A run with failed tool calls; `skills` are those whose text the model had, the performed one last.

    `sources` are the roots of the served sources: the skill of a schedule comes from none of them.
    """

    outcome: RunOutcome
    request: RunRequest
    skills: tuple[Skill, ...]
    sources: frozenset[Path]
    settings: Settings


@dataclass(frozen=True, slots=True)
class _Result:
    """What came of an improvement: why it is not made, if it is not; `details` are further values of its record."""

    refusal: Refusal | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    is_proposal: bool = False


@dataclass(frozen=True, slots=True)
class _Change:
    """What the model changed: the changed files as they were, with the SKILL.md, and as they are now.

    `is_correction` says that the change consists of corrections alone, which need no person.
    """

    refusal: Refusal | None
    details: Mapping[str, Any]
    base: Mapping[str, bytes] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    is_correction: bool = False


class Improver:
    """Improves the skills of the sources that settings name, after runs of this process."""

    def __init__(self, settings: Settings, records: ImprovementRecords) -> None:
        """Open nothing yet."""
        self._settings = settings
        self._records = records
        self._histories = Histories.of(settings)

    async def after_run(self, run: FinishedRun) -> bool:
        """Improve the skills of a finished run where that is due, one after the other; return whether one has changed.

        Only cancellation is raised.
        """
        changed = False
        failed = _failed(run, self._settings)
        for skill in reversed(failed.skills):
            if skill.source.root in failed.sources and self._is_on(skill):
                try:
                    changed |= await self._improve(skill, failed)
                except Exception:
                    logger.exception("improvement of %s after the run %s", one_line(skill.key), run.outcome.run_id)
        return changed

    def _is_on(self, skill: Skill) -> bool:
        """Tell whether the settings switch improvements on for the source of a skill."""
        named = self._settings.section(ImproveSettings)
        directories = [real_path(Path(os.path.abspath(each))) for each in named.directories]  # noqa: PTH100 - `resolve` may raise
        return skill.source.scope in named.scopes or skill.source.root in directories

    async def _improve(self, skill: Skill, run: _FailedRun) -> bool:
        root, place = skill.source.root, skill.content.place
        run_id = run.outcome.run_id
        if (refusal := await anyio.to_thread.run_sync(self._obstacle, skill)) is not None:
            _log(skill, run_id, ImprovementStatus.SKIPPED, refusal)
            return False
        with self._records.only_one(root, place) as alone:
            if not alone:
                busy = Refusal(ImprovementReason.BUSY, "another improvement of the skill is under way")
                _log(skill, run_id, ImprovementStatus.SKIPPED, busy)
                return False
            per_day = self._settings.section(ImproveSettings).per_day
            number = self._records.begin(run_id, skill.key, root, place, per_day)
            if number is None:
                return False
            if isinstance(number, ImprovementReason):
                limit = f"{per_day} improvements were begun within 24 hours"
                _log(skill, run_id, ImprovementStatus.SKIPPED, Refusal(number, limit))
                return False
            result = _Result(Refusal(ImprovementReason.CANCELLED, "the caller of the run left, or the process ended"))
            try:
                result = await self._result_or_fault(skill, run, number)
            finally:
                status = self._finish(number, skill, run_id, result)
            return status is ImprovementStatus.IMPROVED

    async def _result_or_fault(self, skill: Skill, run: _FailedRun, number: str) -> _Result:
        try:
            return await self._result(skill, run, self._records.work_folder(number))
        except SkillChangedError as error:
            return _Result(Refusal(ImprovementReason.SKILL_CHANGED, str(error)))
        except (SkillsError, OSError) as error:
            return _Result(Refusal(ImprovementReason.RUN_FAILED, str(error)))
        except Exception as error:
            logger.exception("improvement of %s after the run %s", one_line(skill.key), run.outcome.run_id)
            return _Result(Refusal(ImprovementReason.INTERNAL_ERROR, f"{type(error).__name__}; see the log"))

    def _obstacle(self, skill: Skill) -> Refusal | None:
        if skill.content.kind is not SkillKind.FOLDER or skill.content.main is None:
            return Refusal(ImprovementReason.NOT_A_FOLDER, "only a folder with a SKILL.md can be improved")
        if (why := self._histories.obstacle(skill.source)) is not None:
            return Refusal(ImprovementReason.NO_HISTORY, f"a change could not be taken back: {why}")
        if self._settings.section(RunSettings).model in {None, CLIENT}:
            return Refusal(ImprovementReason.NO_MODEL, "improvements need a model in runs.model")
        return None

    def _finish(self, number: str, skill: Skill, run_id: str, result: _Result) -> ImprovementStatus:
        status = ImprovementStatus.DROPPED
        if result.is_proposal:
            status = ImprovementStatus.PROPOSED
        elif result.refusal is None:
            status = ImprovementStatus.IMPROVED
        refusal = result.refusal
        values = {} if refusal is None else {"reason": refusal.reason.value, "message": one_line(refusal.message)}
        self._records.update(number, status=status.value, **values, **result.details)
        _log(skill, run_id, status, refusal)
        return status

    async def _result(self, skill: Skill, run: _FailedRun, work: Path) -> _Result:
        settings = self._settings
        model = open_configured(settings.section(RunSettings))
        async with offered_tools(run.settings, run.skills) as offered:
            with ExitStack() as stack:
                folders = await anyio.to_thread.run_sync(stack.enter_context, opened_folders(skill, work))
                change = await self._change(skill, run, folders, offered, model)
                if change.refusal is None:
                    await anyio.to_thread.run_sync(folders.write_change, skill, change.files)
                    refusal = await anyio.to_thread.run_sync(refusal_of_version, folders.before, folders.after)
                    change = replace(change, refusal=refusal)
                if change.refusal is None:
                    refusal, measured = await self._measure(skill, run, folders, offered, model, change)
                    change = replace(change, refusal=refusal, details={**change.details, "measured": measured})
        if change.refusal is not None:
            return _Result(change.refusal, change.details)
        if settings.section(ImproveSettings).review or not change.is_correction:
            why = None if change.is_correction else _NOT_A_CORRECTION
            kept = {**change.details, "change": stored_change(change.base, change.files)}
            return _Result(why, kept, is_proposal=True)
        # A change that has begun is completed and recorded, even if the caller leaves.
        with anyio.CancelScope(shield=True):
            result = await anyio.to_thread.run_sync(self._install, skill, run, change)
        return result  # noqa: RET504 - mypy takes the scope for one that may swallow the return

    async def _change(
        self, skill: Skill, run: _FailedRun, folders: ImprovementFolders, offered: OfferedTools, model: Model
    ) -> _Change:
        """Let the model change the copy, and check what it has done."""
        main = skill.content.main
        assert main is not None  # noqa: S101 - `_obstacle` has checked it
        before, _ = await anyio.to_thread.run_sync(files_below, folders.workspace)
        task = improvement_task(run.outcome, skill.key, main.path, offered.names, run.request.message)
        improvement = ImprovementRun(self._settings, model, new_run_id())
        refusal = await improvement.perform(task, folders.workspace)
        details: dict[str, Any] = {"trace_id": improvement.run_id}
        after, links = await anyio.to_thread.run_sync(files_below, folders.workspace)
        refusal = refusal or refusal_of(before, after, main.path, links) or self._leak(before, after, run)
        if refusal is not None:
            return _Change(refusal, details)
        files = {path: raw for path, raw in after.items() if raw != before[path]}
        base = {path: before[path] for path in {*files, main.path}}
        tools = RunTools(offered.offered, missing_tools(run.outcome))
        corrections = corrections_of(before, after, main.path, tools)
        if corrections is None:
            details["summary"] = describe_change(changed_texts(before, after))
        else:
            details |= {"summary": describe_corrections(corrections), "corrections": [to_json(c) for c in corrections]}
        details["diff"] = diff_of_change(before, after)
        return _Change(None, details, base, files, corrections is not None)

    def _leak(self, before: Mapping[str, bytes], after: Mapping[str, bytes], run: _FailedRun) -> Refusal | None:
        """Return why a change would publish what was said in the run, or a secret of this process."""
        added = "".join(text.added for text in changed_texts(before, after))
        if process_secrets(self._settings).redact(added) != added:
            return Refusal(ImprovementReason.SECRET_ADDED, "the new text contains a secret of the settings")
        whole = "".join(raw.decode("utf-8", "replace") for raw in before.values())
        if repeats_record(added, whole, shown_texts(run.outcome, run.request.message)):
            why = "the new text repeats a long piece of the request, the arguments or the errors of the run"
            return Refusal(ImprovementReason.RECORD_COPIED, why)
        return None

    def _install(self, skill: Skill, run: _FailedRun, change: _Change) -> _Result:
        root, place, run_id = skill.source.root, skill.content.place, run.outcome.run_id
        message = f"{change.details['summary']} (after the run {run_id})"
        refusal, rev = install(root, place, change.files, change.base, message, run_id, self._settings)
        return _Result(refusal, {**change.details, "commit": rev})

    async def _measure(
        self,
        skill: Skill,
        run: _FailedRun,
        folders: ImprovementFolders,
        offered: OfferedTools,
        model: Model,
        change: _Change,
    ) -> tuple[Refusal | None, dict[str, Any]]:
        # Evals perform the new text with tools: what may say anything is first read by a person.
        if change.is_correction and has_evals(folders):
            refusal, rates = await refusal_of_evals(folders, self._settings)
            return refusal, {"by": "evals", **rates}
        improved = await anyio.to_thread.run_sync(loaded_skill, folders.after)
        assert improved is not None  # noqa: S101 - `refusal_of_version` has loaded it
        texts: Sequence[Skill] = [improved if each is skill else each for each in run.skills]
        return await replay_failed_step(run.outcome, run.request, texts, offered, model), {"by": "replay"}


def _failed(run: FinishedRun, settings: Settings) -> _FailedRun:
    """Return the run with the skills that are due; none if no tool call failed."""
    performed, *others = skills_to_improve(run.outcome) or [None]
    skills = [skill for key in reversed(others) if key is not None and (skill := run.catalog.get(key)) is not None]
    if performed is not None:
        skills.append(run.request.skill)
    sources = frozenset(found.source.root for found in run.catalog.sources)
    return _FailedRun(run.outcome, run.request, tuple(skills), sources, run.settings or settings)


def _log(skill: Skill, run_id: str, status: ImprovementStatus, refusal: Refusal | None) -> None:
    why = f": {refusal.reason}: {one_line(refusal.message)}" if refusal is not None else ""
    logger.info("improvement of %s after the run %s: %s%s", one_line(skill.key), run_id, status, why)
