"""Improve the skills of a run that had failed tool calls: perform, check, measure, install, and record the result.

The model of the settings performs the bundled skill `improve-skill` on a copy of the skill. That run has no history and
no client: its tools read and write the copy, and run commands in a sandbox that shows nothing else of the user and has
no network. Without a sandbox there are no commands.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread

from server.capabilities.guard.guards import guard_of
from server.capabilities.guard.settings import GuardSettings
from server.capabilities.history.histories import Histories
from server.capabilities.improve.checks import (
    has_evals,
    measure_by_evals,
    offered_tools,
    replay_failed_step,
)
from server.capabilities.improve.installation import (
    diff_of_change,
    files_below,
    install,
    loaded_skill,
    opened_folders,
    refusal_of_version,
    stored_change,
)
from server.capabilities.improve.settings import ImproveSettings
from server.capabilities.runs.metering import open_meter
from server.capabilities.runs.offered import open_configured, trace_store
from server.capabilities.runs.service import new_run_id
from server.capabilities.runs.settings import RunSettings
from server.capabilities.runs.skill_runner import process_secrets
from server.capabilities.scripts.factory import script_setup
from server.config.machine import current_environment
from skills_core.diagnostics import one_line
from skills_core.disk.sources import SkillKind, explicit_sources, real_path
from skills_core.errors import SkillChangedError, SkillsError
from skills_core.improve.changes import (
    RunTools,
    changed_texts,
    corrections_of,
    describe_change,
    describe_corrections,
    refusal_of,
    repeats_record,
)
from skills_core.improve.improvement import (
    ImprovementReason,
    ImprovementRefusal,
    ImprovementStatus,
    improvement_task,
    missing_tools,
    shown_texts,
    skills_to_improve,
)
from skills_core.live.library import Library
from skills_core.runs.executor import RunContext, RunRequest, perform_run
from skills_core.runs.journal import MemoryJournal, to_json
from skills_core.runs.models import CLIENT, parse_model, price_of_model
from skills_core.runs.outcome import RunLimits, RunProblem, RunStatus
from skills_core.runs.spending import BoundReachedError, Bounds, Use
from skills_core.runs.tools import WorkspaceTool
from skills_core.runs.tools.commands import sandboxed_runner, workspace_tools

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from server.capabilities.improve.checks import OfferedTools
    from server.capabilities.improve.installation import ImprovementFolders
    from server.capabilities.improve.records import ImprovementRecords
    from server.capabilities.runs.metering import Meter
    from server.capability import FinishedRun
    from server.config.settings.model import Settings
    from skills_core.guard.tool import Tool
    from skills_core.runs.models import Price
    from skills_core.runs.outcome import Usage
    from skills_core.skills.skill import Skill


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CostedModel:
    """The model of an improvement, and what counts its costs; without a `price`, these are unknown."""

    model: Model
    meter: Meter
    price: Price | None

    def use_of(self, usage: Usage) -> Use:
        """Return what a run has used."""
        cost = None if self.price is None else self.price.of(usage.input_tokens, usage.output_tokens)
        return Use(usage.requests, cost, usage.input_tokens + usage.output_tokens)

    @property
    def counted(self) -> Model:
        """The model, each request of which counts."""
        from server.capabilities.runs.metered_model import MeteredModel

        return MeteredModel(self.model, self.meter, "replay", self.price)


_BUNDLED: Final = Path(__file__).parent / "bundled/improve-skill"

_TOOLS: Final = (
    WorkspaceTool.READ_FILE,
    WorkspaceTool.WRITE_FILE,
    WorkspaceTool.LIST_DIRECTORY,
    WorkspaceTool.GREP,
)
_TURNS: Final = 20
_CALLS: Final = 60
_TOOL_SECONDS: Final = 30.0


@cache
def _improve_skill() -> Skill:
    """Return the bundled skill; it lies outside of every source, so that no catalog offers it."""
    return next(iter(Library(explicit_sources([_BUNDLED]), current_environment).catalog.skills))


async def perform_improve_skill(
    settings: Settings, costed: CostedModel, run_id: str, task: str, workspace: Path
) -> ImprovementRefusal | None:
    """Perform the task on the copy in `workspace`; return why the run failed, None if it did not.

    Raises:
        BoundReachedError: a bound of the costs leaves no room for it.
    """
    skill = await anyio.to_thread.run_sync(_improve_skill)
    tools = await anyio.to_thread.run_sync(_tools, settings, workspace)
    runs = settings.section(RunSettings)
    limits = RunLimits(
        turns=_TURNS,
        tokens=runs.tokens,
        calls=_CALLS,
        seconds=float(settings.section(ImproveSettings).seconds),
        tool_seconds=_TOOL_SECONDS,
    )
    context = RunContext(
        model=costed.model,
        model_name=runs.model or "",
        journal=MemoryJournal(run_id),
        guard=guard_of((), settings.section(GuardSettings)),
        tools=tools,
        limits=limits,
        store=trace_store(),
        secrets=process_secrets(settings),
    )
    async with costed.meter.piece(f"improvement: {runs.model}") as piece:
        outcome = await perform_run(RunRequest(skill, {}, task), context)
        piece.used = costed.use_of(outcome.usage)
    timed_out = outcome.problem is RunProblem.TIME_LIMIT
    if outcome.status is RunStatus.COMPLETED and not timed_out:
        return None
    reason = ImprovementReason.TIME_LIMIT if timed_out else ImprovementReason.RUN_FAILED
    return ImprovementRefusal(reason, outcome.message or outcome.status.value)


def _tools(settings: Settings, workspace: Path) -> tuple[Tool, ...]:
    setup = script_setup(settings)
    if setup.isolation.sandbox is None:
        logger.info("the model that improves a skill has no commands: there is no sandbox (%s)", setup.isolation.why)
        return workspace_tools(workspace, _TOOLS, os.environ)
    commands = sandboxed_runner(replace(setup, network=False, workspace=None), workspace)
    return workspace_tools(workspace, (*_TOOLS, WorkspaceTool.RUN_COMMAND), os.environ, commands)


_NOT_A_CORRECTION: Final = ImprovementRefusal(
    ImprovementReason.NOT_A_CORRECTION,
    "it does more than correct the name of a tool, the target of a link or a typing error, so you decide",
)
_CANCELLED: Final = ImprovementRefusal(ImprovementReason.CANCELLED, "the caller of the run left, or the process ended")


class _RefusedError(Exception):
    def __init__(self, refusal: ImprovementRefusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def _require(refusal: ImprovementRefusal | None) -> None:
    if refusal is not None:
        raise _RefusedError(refusal)


@dataclass(frozen=True, slots=True)
class _Change:
    """What the model changed: the changed files as they were, with the SKILL.md, and as they are now.

    `is_correction` says that the change consists of corrections alone, which need no person.
    """

    base: Mapping[str, bytes]
    files: Mapping[str, bytes]
    is_correction: bool


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One improvement of a skill after a run. `details` are values of its record, which the methods add.

    `texts` are the skills whose text the model of the run had, the performed one last.
    """

    skill: Skill
    run: FinishedRun
    texts: Sequence[Skill]
    settings: Settings
    details: dict[str, Any] = field(default_factory=dict)

    async def perform(self, work: Path, meter: Meter) -> tuple[ImprovementStatus, ImprovementRefusal | None]:
        """Change the skill or propose to; return what came of it, and why if it is not made.

        Raises:
            _RefusedError: the change is not taken.
            BoundReachedError: a bound of the costs was reached.
        """
        runs = self.settings.section(RunSettings)
        model = CostedModel(open_configured(runs), meter, _price(self.settings))
        async with offered_tools(self.run.settings or self.settings, self.texts) as offered:
            with ExitStack() as stack:
                folders = await anyio.to_thread.run_sync(stack.enter_context, opened_folders(self.skill, work))
                change = await self._change(folders, offered, model)
                await anyio.to_thread.run_sync(folders.write_change, self.skill, change.files)
                _require(await anyio.to_thread.run_sync(refusal_of_version, folders.before, folders.after))
                doubt = await self._measure(folders, offered, model, change)
        if self.settings.section(ImproveSettings).review or not change.is_correction or doubt is not None:
            self.details["change"] = stored_change(change.base, change.files)
            return ImprovementStatus.PROPOSED, doubt if change.is_correction else _NOT_A_CORRECTION
        # A change that has begun is completed and recorded, even if the caller leaves.
        with anyio.CancelScope(shield=True):
            refusal = await anyio.to_thread.run_sync(self._install, change)
        return ImprovementStatus.IMPROVED if refusal is None else ImprovementStatus.DROPPED, refusal

    async def _change(self, folders: ImprovementFolders, offered: OfferedTools, model: CostedModel) -> _Change:
        """Let the model change the copy, and check what it has done."""
        main, outcome, message = self.skill.content.main, self.run.outcome, self.run.request.message
        assert main is not None  # noqa: S101 - `_obstacle` has checked it
        before, _ = await anyio.to_thread.run_sync(files_below, folders.workspace)
        task = improvement_task(outcome, self.skill.key, main.path, offered.names, message)
        self.details["trace_id"] = run_id = new_run_id()
        _require(await perform_improve_skill(self.settings, model, run_id, task, folders.workspace))
        after, links = await anyio.to_thread.run_sync(files_below, folders.workspace)
        _require(refusal_of(before, after, main.path, links) or self._leak(before, after))
        files = {path: raw for path, raw in after.items() if raw != before[path]}
        base = {path: before[path] for path in {*files, main.path}}
        tools = RunTools(offered.offered, missing_tools(outcome))
        corrections = corrections_of(before, after, main.path, tools)
        if corrections is None:
            self.details["summary"] = describe_change(changed_texts(before, after))
        else:
            self.details["summary"] = describe_corrections(corrections)
            self.details["corrections"] = [to_json(each) for each in corrections]
        self.details["diff"] = diff_of_change(before, after)
        return _Change(base, files, corrections is not None)

    def _leak(self, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> ImprovementRefusal | None:
        """Return why a change would publish what was said in the run, or a secret of this process."""
        added = "".join(text.added for text in changed_texts(before, after))
        if process_secrets(self.settings).redact(added) != added:
            return ImprovementRefusal(ImprovementReason.SECRET_ADDED, "the new text contains a secret of the settings")
        whole = "".join(raw.decode("utf-8", "replace") for raw in before.values())
        if repeats_record(added, whole, shown_texts(self.run.outcome, self.run.request.message)):
            why = "the new text repeats a long piece of the request, the arguments or the errors of the run"
            return ImprovementRefusal(ImprovementReason.RECORD_COPIED, why)
        return None

    async def _measure(
        self, folders: ImprovementFolders, offered: OfferedTools, model: CostedModel, change: _Change
    ) -> ImprovementRefusal | None:
        """Measure a change; return why a person decides on it all the same, None if nothing speaks against it.

        Raises:
            _RefusedError: the change is not taken.
        """
        # Evals perform the new text with tools: what may say anything is first read by a person.
        if change.is_correction and has_evals(folders):
            measured = await measure_by_evals(folders, self.settings, model.meter)
            self.details["measured"] = {"by": "evals", **measured.rates}
            _require(measured.refusal)
            return measured.doubt
        improved = await anyio.to_thread.run_sync(loaded_skill, folders.after)
        assert improved is not None  # noqa: S101 - `refusal_of_version` has loaded it
        texts = [improved if each is self.skill else each for each in self.texts]
        refusal = await replay_failed_step(self.run.outcome, self.run.request, texts, offered, model.counted)
        self.details["measured"] = {"by": "replay"}
        _require(refusal)
        return None

    def _install(self, change: _Change) -> ImprovementRefusal | None:
        root, place, run_id = self.skill.source.root, self.skill.content.place, self.run.outcome.run_id
        message = f"{self.details['summary']} (after the run {run_id})"
        refusal, rev = install(root, place, change.files, change.base, message, run_id, self.settings)
        self.details["commit"] = rev
        return refusal


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
        changed, texts = False, _skills_to_improve(run)
        # The skill of a schedule comes from none of the served sources.
        served = {found.source.root for found in run.catalog.sources}
        for skill in reversed(texts):
            if skill.source.root in served and self._is_on(skill):
                try:
                    changed |= await self._improve(_Attempt(skill, run, texts, self._settings))
                except Exception:
                    logger.exception("improvement of %s after the run %s", one_line(skill.key), run.outcome.run_id)
        return changed

    def _is_on(self, skill: Skill) -> bool:
        """Tell whether the settings switch improvements on for the source of a skill."""
        named = self._settings.section(ImproveSettings)
        directories = [real_path(Path(os.path.abspath(each))) for each in named.directories]  # noqa: PTH100 - `resolve` may raise
        return skill.source.scope in named.scopes or skill.source.root in directories

    async def _improve(self, attempt: _Attempt) -> bool:
        root, place = attempt.skill.source.root, attempt.skill.content.place
        if (refusal := await anyio.to_thread.run_sync(self._obstacle, attempt.skill)) is not None:
            _log(attempt, ImprovementStatus.SKIPPED, refusal)
            return False
        with self._records.only_one(root, place) as alone:
            if not alone:
                busy = ImprovementRefusal(ImprovementReason.BUSY, "another improvement of the skill is under way")
                _log(attempt, ImprovementStatus.SKIPPED, busy)
                return False
            per_day = self._settings.section(ImproveSettings).per_day
            number = self._records.begin(attempt.run.outcome.run_id, attempt.skill.key, root, place, per_day)
            if number is None:
                return False
            if isinstance(number, ImprovementReason):
                limit = f"{per_day} improvements were begun within 24 hours"
                _log(attempt, ImprovementStatus.SKIPPED, ImprovementRefusal(number, limit))
                return False
            status, refusal = ImprovementStatus.DROPPED, _CANCELLED
            try:
                status, refusal = await self._ending(attempt, number)
            finally:
                why = {} if refusal is None else {"reason": refusal.reason.value, "message": one_line(refusal.message)}
                self._records.update(number, status=status.value, **why, **attempt.details)
                _log(attempt, status, refusal)
            return status is ImprovementStatus.IMPROVED

    async def _ending(self, attempt: _Attempt, number: str) -> tuple[ImprovementStatus, ImprovementRefusal | None]:
        wanted = self._settings.section(ImproveSettings)
        bounds = Bounds(wanted.max_cost, wanted.max_requests, wanted.max_seconds)
        try:
            async with open_meter(self._records.folder, bounds) as meter:
                return await attempt.perform(self._records.work_folder(number), meter)
        except _RefusedError as error:
            refusal = error.refusal
        except BoundReachedError as error:
            refusal = ImprovementRefusal(ImprovementReason.BOUND_REACHED, str(error))
        except SkillChangedError as error:
            refusal = ImprovementRefusal(ImprovementReason.SKILL_CHANGED, str(error))
        except (SkillsError, OSError) as error:
            refusal = ImprovementRefusal(ImprovementReason.RUN_FAILED, str(error))
        except Exception as error:
            key, run_id = one_line(attempt.skill.key), attempt.run.outcome.run_id
            logger.exception("improvement of %s after the run %s", key, run_id)
            why = f"{type(error).__name__}; see the log"
            refusal = ImprovementRefusal(ImprovementReason.INTERNAL_ERROR, why)
        return ImprovementStatus.DROPPED, refusal

    def _obstacle(self, skill: Skill) -> ImprovementRefusal | None:
        if skill.content.kind is not SkillKind.FOLDER or skill.content.main is None:
            return ImprovementRefusal(ImprovementReason.NOT_A_FOLDER, "only a folder with a SKILL.md can be improved")
        if (why := self._histories.obstacle(skill.source)) is not None:
            return ImprovementRefusal(ImprovementReason.NO_HISTORY, f"a change could not be taken back: {why}")
        if self._settings.section(RunSettings).model in {None, CLIENT}:
            return ImprovementRefusal(ImprovementReason.NO_MODEL, "improvements need a model in runs.model")
        if self._settings.section(ImproveSettings).max_cost is not None and _price(self._settings) is None:
            why = "improve.max_cost bounds the cost, and the price of the model is unknown: give it in runs.prices"
            return ImprovementRefusal(ImprovementReason.NO_PRICE, why)
        return None


def _price(settings: Settings) -> Price | None:
    runs = settings.section(RunSettings)
    return price_of_model(parse_model(runs.model or ""), runs.prices)


def _skills_to_improve(run: FinishedRun) -> tuple[Skill, ...]:
    """Return the skills whose text the model had, the performed one last; none if no tool call failed."""
    if not (keys := skills_to_improve(run.outcome)):
        return ()
    others = (run.catalog.get(key) for key in reversed(keys[1:]))
    return (*(skill for skill in others if skill is not None), run.request.skill)


def _log(attempt: _Attempt, status: ImprovementStatus, refusal: ImprovementRefusal | None) -> None:
    why = f": {refusal.reason}: {one_line(refusal.message)}" if refusal is not None else ""
    facts = (one_line(attempt.skill.key), attempt.run.outcome.run_id, status, why)
    logger.info("improvement of %s after the run %s: %s%s", *facts)
