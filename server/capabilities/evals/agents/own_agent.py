"""Our own executor in evals: the model of the settings performs each task, with the skill or without any.

Runs are recorded answer by answer under ids derived from iteration, run and attempt, so that a killed eval continues
each run where it was: finished requests and tool calls are not repeated. The files of a run stay in its folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio.to_thread
from msgspec import structs

from server.capabilities.evals.agents.run_folder import agent_environment
from server.capabilities.guard.guards import guard_of
from server.capabilities.guard.settings import GuardSettings
from server.capabilities.runs.offered import open_configured
from server.capabilities.runs.settings import RunSettings
from server.capabilities.runs.skill_runner import RunnerConfig, RunParticipants, SkillRunner, run_limits
from server.capabilities.scripts.factory import script_runner, variables_of
from server.capabilities.scripts.settings import ScriptSettings
from server.config.machine import state_home
from skills_core.errors import InvalidRecordError
from skills_core.evals.agents.transcript import AgentRun, Transcript
from skills_core.runs.durable.engine import open_engine
from skills_core.runs.durable.recorded_run import RunNotDoneError, WorkerConfig
from skills_core.runs.durable.store import SqliteStore
from skills_core.runs.executor import PlainTask, RunRequest
from skills_core.runs.journal import from_json, to_json
from skills_core.runs.models import parse_model, price_of
from skills_core.runs.outcome import RunOutcome, RunProblem, RunStatus
from skills_core.runs.run_skills import select_skills
from skills_core.runs.tools import WorkspaceTool
from skills_core.runs.trace import TraceStore

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from pydantic_ai.models import Model

    from server.capabilities.evals.agents.agent import AgentTask
    from server.capabilities.evals.agents.run_folder import RunFolder
    from server.capabilities.evals.skills.tested_skills import SkillVersion
    from server.config.settings.model import Settings
    from skills_core.format.yaml12 import JsonObject
    from skills_core.runs.durable.engine import Engine
    from skills_core.runs.journal import Journal
    from skills_core.runs.models import ModelSpec


_KIND: Final = "eval"
_POOL: Final = "skillserve-evals"
_REASON = "eval: run"
_DEFAULT_TOOLS: Final = (
    WorkspaceTool.READ_FILE,
    WorkspaceTool.WRITE_FILE,
    WorkspaceTool.LIST_DIRECTORY,
    WorkspaceTool.GREP,
)
"""Tools that reach the run's own workspace only, which is empty but for the input files."""


class OwnAgent:
    """Performs tasks with one model; `at_once` runs at a time.

    `versions` are the skills by their digests.
    """

    def __init__(self, settings: Settings, versions: Mapping[str, SkillVersion], at_once: int) -> None:
        """Use the model of the settings, which is opened when there is a task."""
        self._settings = settings
        self._versions = versions
        self._at_once = at_once
        self._model: Model | None = None
        self._engine: Engine | None = None
        self._tasks: dict[str, AgentTask] = {}

    @property
    def label(self) -> str:
        """The model."""
        return str(self._spec) if self._settings.section(RunSettings).model else ""

    @property
    def _spec(self) -> ModelSpec:
        return parse_model(self._settings.section(RunSettings).model or "")

    @property
    def identity(self) -> Mapping[str, str]:
        """The model and the tools."""
        return {
            "agent": "skillserve",
            "model": self.label,
            "tools": " ".join(self._settings.section(RunSettings).tools),
        }

    @property
    def installed(self) -> bool:
        """No: the skill is part of the run."""
        return False

    @property
    def tells_loads(self) -> bool:
        """No: the run performs the skill, and loads none."""
        return False

    @asynccontextmanager
    async def running(self, tasks: Sequence[AgentTask]) -> AsyncGenerator[None]:
        """Open the record of runs, and continue those of `tasks` that were interrupted.

        Raises:
            StoreError: the record cannot be used.
            ModelUnavailableError: the model cannot be used.
        """
        self._model = open_configured(self._settings.section(RunSettings))
        self._tasks = {self._run_id(task): task for task in tasks}
        terms = WorkerConfig(pool=_POOL, at_once=self._at_once, only=frozenset(self._tasks))
        async with open_engine(SqliteStore(state_home() / "evals.sqlite"), {_KIND: self._job}, terms) as engine:
            self._engine = engine
            yield

    def _run_id(self, task: AgentTask) -> str:
        """Return the id of a run, which is the same after a restart as long as its folder is there."""
        # Earlier versions recorded other steps of tasks without a skill, which cannot be continued.
        version = task.skills[0].digest if task.skills else "no skill"
        runs = self._settings.section(RunSettings)
        limits, tools = to_json(run_limits(runs)), list(runs.tools)
        parts = [str(task.folder.root), version, task.prompt, self.label, limits, tools]
        return hashlib.sha256(json.dumps([*parts, task.seconds]).encode()).hexdigest()[:32]

    async def perform(self, task: AgentTask) -> AgentRun:
        """Perform a task, or continue it."""
        assert self._engine is not None  # noqa: S101 - `running` has opened it
        run_id = self._run_id(task)
        begun = time.monotonic()
        try:
            # The record has the place alone: the job looks its task up by the id.
            done = await self._engine.run(
                _KIND, run_id, {"run": task.folder.root.name, "prompt": task.prompt}, here=True
            )
            outcome = from_json(RunOutcome, done["outcome"])
        except (RunNotDoneError, InvalidRecordError) as error:
            return AgentRun(transcript=Transcript(), fault=str(error))
        events = done["events"]
        listed = events if isinstance(events, list) else []
        # Of a continued run, only the recorded seconds cover the whole.
        seconds = max(time.monotonic() - begun, sum(map(_seconds_of, listed)))
        usage = outcome.usage
        completed = outcome.status is RunStatus.COMPLETED
        transcript = Transcript(
            tool_calls=len(outcome.tool_calls),
            total_tokens=usage.input_tokens + usage.output_tokens,
            cost_usd=price_of(self._spec, usage),
            text=outcome.output,
            finished=True,
            recognized=True,
        )
        return AgentRun(
            transcript=transcript,
            timed_out=outcome.problem is RunProblem.TIME_LIMIT,
            fault="" if completed else outcome.message or outcome.status.value,
            seconds=seconds,
            lines=tuple(_lines(listed, outcome)),
            answer=outcome.output,
            notes=(outcome.message,) if completed and outcome.message else (),
        )

    async def _job(self, journal: Journal, given: JsonObject) -> JsonObject:
        """Perform a recorded run; a repeated one finds its folder as the recorded steps left it."""
        del given
        task = self._tasks[journal.run_id]

        async def work() -> str:
            await anyio.to_thread.run_sync(task.folder.create, task.inputs)
            return str(task.folder.root)

        await journal.step("prepare", work)
        store = TraceStore(task.folder.root / "trace")
        settings = self._settings_for(task.folder, task.seconds)
        outcome = await self._perform(task, journal, settings, store)
        trace = await anyio.to_thread.run_sync(store.read, journal.run_id)
        return {"outcome": to_json(outcome), "events": trace["events"]}

    def _settings_for(self, folder: RunFolder, seconds: float) -> Settings:
        workspace = str(folder.work)
        runs = self._settings.section(RunSettings)
        tools = runs.tools or _DEFAULT_TOOLS
        runs = structs.replace(runs, workspace=workspace, tools=tools, seconds=max(1, round(seconds)))
        scripts = structs.replace(self._settings.section(ScriptSettings), workspace=workspace)
        return self._settings.with_sections(runs, scripts)

    async def _perform(self, task: AgentTask, journal: Journal, settings: Settings, store: TraceStore) -> RunOutcome:
        version = self._versions[task.skills[0].digest] if task.skills else None
        guarded = () if version is None else version.catalog.active
        config = RunnerConfig(
            settings,
            lambda: guard_of(guarded, settings.section(GuardSettings)),
            store,
            await anyio.to_thread.run_sync(script_runner, settings),
            variables_of,
            agent_environment(task.folder, os.environ),
        )
        runner, participants = SkillRunner(config), RunParticipants(model=self._model, reason=_REASON)
        if version is None:
            return await runner.run_task(PlainTask(task.text), journal, participants)
        selection = select_skills(version.skill, version.catalog)
        return await runner.run(RunRequest(version.skill, {}, task.text), selection, journal, participants)


def _lines(events: list[Any], outcome: RunOutcome) -> list[str]:
    """Return the model's answers and the tool calls, one a line, and the result as the last one."""
    answer: Mapping[str, object] = {"kind": "result", "status": outcome.status.value, "text": outcome.output}
    return [json.dumps(each, ensure_ascii=False) for each in (*events, answer)]


def _seconds_of(event: Any) -> float:  # noqa: ANN401 - of a trace
    match event:
        case {"seconds": int() | float() as seconds} | {"call": {"seconds": int() | float() as seconds}}:
            return float(seconds)
    return 0.0
