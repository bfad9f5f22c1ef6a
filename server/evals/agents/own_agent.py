"""Our own executor as the agent: the model of the settings performs each task, with the skill or without any.

Runs are recorded answer by answer under ids derived from iteration, run and attempt, so that a killed eval continues
each run where it was: finished requests and tool calls are not repeated. The files of a run stay in its scratch folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio.to_thread
from msgspec import structs

from server.config.guard_factory import guard_of
from server.config.machine import state_home
from server.evals.agents.agent import AgentReport
from server.evals.agents.prices import price_of
from server.evals.agents.scratch import agent_environment
from server.run.skill_runner import RunnerConfig, RunParticipants, SkillRunner, run_limits, secrets_without_skills
from server.run.toolset import open_general_toolset
from server.scripts.factory import script_runner, variables_of
from skills_core.errors import InvalidRecordError
from skills_core.evals.grading.results import EvalStatus
from skills_core.run.durable.engine import open_engine
from skills_core.run.durable.errors import RunNotDoneError
from skills_core.run.durable.store import SqliteStore
from skills_core.run.durable.worker_config import WorkerConfig
from skills_core.run.executor import RunRequest
from skills_core.run.json_codec import from_json, to_json
from skills_core.run.models import open_model, parse_model
from skills_core.run.outcome import RunOutcome, RunProblem, RunStatus
from skills_core.run.plain_task import perform_task
from skills_core.run.ports import NoUser
from skills_core.run.skill_selection import select_skills
from skills_core.run.tools.allowed_tools import AllowedTools
from skills_core.run.tools.gate import ToolGate
from skills_core.run.tools.workspace_names import WorkspaceTool
from skills_core.run.trace.store import TraceStore

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from pydantic_ai.models import Model

    from server.config.settings import Settings
    from server.evals.agents.agent import AgentTask
    from server.evals.agents.scratch import RunScratch, ScratchFolder
    from skills_core.run.durable.engine import Engine
    from skills_core.run.ports import Journal, JsonObject

__all__ = ["OwnAgent"]

_KIND: Final = "eval"
_POOL: Final = "skillserve-evals"
_DEFAULT_TOOLS: Final = (
    WorkspaceTool.READ_FILE,
    WorkspaceTool.WRITE_FILE,
    WorkspaceTool.LIST_DIRECTORY,
    WorkspaceTool.GREP,
)
"""Tools that reach the run's own workspace only, which is empty but for the input files."""


class OwnAgent:
    """Performs tasks with one model; `at_once` runs at a time."""

    def __init__(self, settings: Settings, scratch: ScratchFolder, at_once: int) -> None:
        """Open the model.

        Raises:
            ModelUnavailableError: the model cannot be used.
        """
        self._settings = settings
        self._scratch = scratch
        self._at_once = at_once
        self._spec = parse_model(settings.runs.model or "")
        key = settings.runs.model_key.get_secret_value() if settings.runs.model_key else None
        self._model: Model = open_model(self._spec, key)
        self._engine: Engine | None = None
        self._tasks: dict[str, AgentTask] = {}

    @property
    def label(self) -> str:
        """The model."""
        return str(self._spec)

    @asynccontextmanager
    async def running(self, tasks: list[AgentTask]) -> AsyncGenerator[None]:
        """Open the record of runs, and continue those of `tasks` that were interrupted.

        Raises:
            StoreError: the record cannot be used.
        """
        self._tasks = {self._run_id(task): task for task in tasks}
        terms = WorkerConfig(pool=_POOL, at_once=self._at_once, only=frozenset(self._tasks))
        async with open_engine(SqliteStore(state_home() / "evals.sqlite"), {_KIND: self._job}, terms) as engine:
            self._engine = engine
            yield

    def _run_id(self, task: AgentTask) -> str:
        """Return the id of a run, which is the same after a restart as long as its scratch folder is there."""
        version = task.version.digest if task.version else None
        limits, tools = to_json(run_limits(self._settings.runs)), list(self._settings.runs.tools)
        parts = [str(self._scratch.of(task.key, task.attempt)), version, task.case.prompt, self.label, limits, tools]
        return hashlib.sha256(json.dumps([*parts, task.seconds]).encode()).hexdigest()[:32]

    async def perform(self, task: AgentTask) -> AgentReport:
        """Perform a task, or continue it, and return the report."""
        assert self._engine is not None  # noqa: S101 - `running` has opened it
        run_id = self._run_id(task)
        scratch = self._scratch.existing(task.key, task.attempt, task.case, task.version)
        begun = time.monotonic()
        try:
            # The record has the place alone: the job looks its task up by the id.
            done = await self._engine.run(_KIND, run_id, {"run": str(task.key), "prompt": task.case.prompt}, here=True)
            outcome = from_json(RunOutcome, done["outcome"])
        except (RunNotDoneError, InvalidRecordError) as error:
            return AgentReport(scratch=scratch, status=EvalStatus.ERROR, error=str(error))
        events = done["events"]
        listed = events if isinstance(events, list) else []
        # Of a continued run, only the recorded seconds cover the whole.
        seconds = max(time.monotonic() - begun, sum(map(_seconds_of, listed)))
        status, problem = _status(outcome)
        usage = outcome.usage
        return AgentReport(
            scratch=scratch,
            status=status,
            error=problem,
            duration_ms=round(seconds * 1000),
            total_tokens=usage.input_tokens + usage.output_tokens,
            cost_usd=price_of(self._spec, usage),
            tool_calls=len(outcome.tool_calls),
            transcript=tuple(_transcript(listed, outcome)),
            answer=outcome.output,
            notes=(outcome.message,) if status is EvalStatus.DONE and outcome.message else (),
        )

    async def _job(self, journal: Journal, given: JsonObject) -> JsonObject:
        """Perform a recorded run; a repeated one finds its scratch folder as the recorded steps left it."""
        del given
        task = self._tasks[journal.run_id]
        prepare = partial(self._scratch.prepare, task.key, task.attempt, task.source, task.case, task.version)

        async def work() -> str:
            return str((await anyio.to_thread.run_sync(prepare)).root)

        await journal.step("prepare", work)
        scratch = self._scratch.existing(task.key, task.attempt, task.case, task.version)
        store = TraceStore(scratch.root / "trace")
        settings = self._settings_for(scratch, task.seconds)
        if task.version is None:
            outcome = await self._perform_plainly(task, journal, settings, scratch, store)
        else:
            outcome = await self._perform_skill(task, journal, settings, scratch, store)
        trace = await anyio.to_thread.run_sync(store.read, journal.run_id)
        return {"outcome": to_json(outcome), "events": trace["events"]}

    def _settings_for(self, scratch: RunScratch, seconds: float) -> Settings:
        workspace = str(scratch.workspace)
        tools = self._settings.runs.tools or _DEFAULT_TOOLS
        runs = structs.replace(self._settings.runs, workspace=workspace, tools=tools, seconds=max(1, round(seconds)))
        scripts = structs.replace(self._settings.scripts, workspace=workspace)
        return structs.replace(self._settings, runs=runs, scripts=scripts)

    async def _perform_skill(
        self, task: AgentTask, journal: Journal, settings: Settings, scratch: RunScratch, store: TraceStore
    ) -> RunOutcome:
        version = task.version
        assert version is not None  # noqa: S101 - the arms without a skill are performed plainly
        config = RunnerConfig(
            settings,
            lambda: guard_of(version.catalog.active, settings.guard),
            store,
            await anyio.to_thread.run_sync(script_runner, settings),
            variables_of,
            agent_environment(scratch, os.environ),
        )
        request = RunRequest(version.skill, {}, _task_text(task, scratch))
        selection = select_skills(version.skill, version.catalog)
        return await SkillRunner(config).run(request, selection, journal, RunParticipants(model=self._model))

    async def _perform_plainly(
        self, task: AgentTask, journal: Journal, settings: Settings, scratch: RunScratch, store: TraceStore
    ) -> RunOutcome:
        runner = await anyio.to_thread.run_sync(script_runner, settings)
        limits, host = run_limits(settings.runs), agent_environment(scratch, os.environ)
        async with open_general_toolset(settings, runner, host) as toolset:
            secrets = secrets_without_skills(settings, toolset.secrets)
            permits, guard = AllowedTools(None), guard_of((), settings.guard)
            gate = ToolGate(toolset.tools, permits, guard, NoUser(), limits, run_id=journal.run_id, secrets=secrets)
            return await perform_task(
                _task_text(task, scratch),
                model=self._model,
                model_name=self.label,
                gate=gate,
                journal=journal,
                limits=limits,
                store=store,
                secrets=secrets,
            )


def _task_text(task: AgentTask, scratch: RunScratch) -> str:
    """Return what the user says: the prompt, the input files, and where files go. It is the same in all arms."""
    files = [file.relative_to(scratch.workspace).as_posix() for file in scratch.files]
    given = [f"Input files in the working folder: {', '.join(files)}"] if files else []
    return "\n\n".join([task.case.prompt, *given, "If the result is files, write them to the folder outputs."])


def _status(outcome: RunOutcome) -> tuple[EvalStatus, str]:
    if outcome.problem is RunProblem.TIME_LIMIT:
        return EvalStatus.TIMEOUT, f"{outcome.message} Raise --timeout."
    if outcome.status is RunStatus.COMPLETED:
        return EvalStatus.DONE, ""
    return EvalStatus.ERROR, outcome.message or outcome.status.value


def _transcript(events: list[Any], outcome: RunOutcome) -> list[str]:
    """Return the model's answers and the tool calls, one a line, and the result as the last one."""
    answer: Mapping[str, object] = {"kind": "result", "status": outcome.status.value, "text": outcome.output}
    return [json.dumps(each, ensure_ascii=False) for each in (*events, answer)]


def _seconds_of(event: Any) -> float:  # noqa: ANN401 - of a trace
    match event:
        case {"seconds": int() | float() as seconds} | {"call": {"seconds": int() | float() as seconds}}:
            return float(seconds)
    return 0.0
