"""Let the model of the settings perform the bundled skill `improve-skill` on a copy of a skill.

The run has no history and no client: its tools read and write the copy, and run commands in a sandbox that shows
nothing else of the user and has no network. Without a sandbox there are no commands.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from server.capabilities.guard.factory import guard_of
from server.capabilities.guard.settings import GuardSettings
from server.capabilities.improve.settings import ImproveSettings
from server.capabilities.runs.offered import trace_store
from server.capabilities.runs.settings import RunSettings
from server.capabilities.runs.skill_runner import process_secrets
from server.capabilities.scripts.factory import script_setup
from server.config.machine import current_environment
from skills_core.disk.sources import explicit_sources
from skills_core.improve.reasons import ImprovementReason, Refusal
from skills_core.live.library import Library
from skills_core.runs.executor import RunContext, RunRequest, perform_run
from skills_core.runs.journal import MemoryJournal
from skills_core.runs.outcome import RunLimits, RunProblem, RunStatus
from skills_core.runs.tools import WorkspaceTool
from skills_core.runs.tools.commands import sandboxed_runner, workspace_tools

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from server.config.settings.model import Settings
    from skills_core.guard.tool import Tool
    from skills_core.skills.skill import Skill


logger = logging.getLogger(__name__)

IMPROVE_SKILL: Final = "improve-skill"
_BUNDLED: Final = Path(__file__).parent / "bundled" / IMPROVE_SKILL

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
def improve_skill() -> Skill:
    """Return the bundled skill; it lies outside of every source, so that no catalog offers it."""
    return next(iter(Library(explicit_sources([_BUNDLED]), current_environment).catalog.skills))


@dataclass(frozen=True, slots=True)
class ImprovementRun:
    """One run of `improve-skill`."""

    settings: Settings
    model: Model
    run_id: str

    async def perform(self, task: str, workspace: Path) -> Refusal | None:
        """Perform the task on the copy in `workspace`; return why the run failed, None if it did not."""
        skill = await anyio.to_thread.run_sync(improve_skill)
        tools = await anyio.to_thread.run_sync(self._tools, workspace)
        runs = self.settings.section(RunSettings)
        limits = RunLimits(
            turns=_TURNS,
            tokens=runs.tokens,
            calls=_CALLS,
            seconds=float(self.settings.section(ImproveSettings).seconds),
            tool_seconds=_TOOL_SECONDS,
        )
        context = RunContext(
            model=self.model,
            model_name=runs.model or "",
            journal=MemoryJournal(self.run_id),
            guard=guard_of((), self.settings.section(GuardSettings)),
            tools=tools,
            limits=limits,
            store=trace_store(),
            secrets=process_secrets(self.settings),
        )
        outcome = await perform_run(RunRequest(skill, {}, task), context)
        if outcome.status is RunStatus.COMPLETED and outcome.problem is not RunProblem.TIME_LIMIT:
            return None
        timed_out = outcome.problem is RunProblem.TIME_LIMIT
        reason = ImprovementReason.TIME_LIMIT if timed_out else ImprovementReason.RUN_FAILED
        return Refusal(reason, outcome.message or outcome.status.value)

    def _tools(self, workspace: Path) -> tuple[Tool, ...]:
        setup = script_setup(self.settings)
        if setup.isolation.sandbox is None:
            logger.info(
                "the model that improves a skill has no commands: there is no sandbox (%s)", setup.isolation.why
            )
            return workspace_tools(workspace, _TOOLS, os.environ)
        setup = replace(setup, network=False, workspace=None)
        commands = sandboxed_runner(setup, workspace)
        return workspace_tools(workspace, (*_TOOLS, WorkspaceTool.RUN_COMMAND), os.environ, commands)
