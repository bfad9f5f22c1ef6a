"""Our own executor as an agent: in trigger tests it activates skills of the catalog or not; in evals it performs tasks.

Runs of evals are recorded answer by answer under ids derived from iteration, run and attempt, so that a killed eval
continues each run where it was: finished requests and tool calls are not repeated.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread
from msgspec import structs

from server.capabilities.evals.agents.agent import EXECUTOR, Agent, agent_environment
from server.capabilities.evals.workspace import EvalError
from server.capabilities.guard.guards import guard_of
from server.capabilities.guard.settings import GuardSettings
from server.capabilities.runs.metered_model import CountingModel
from server.capabilities.runs.offered import open_configured
from server.capabilities.runs.settings import RunSettings
from server.capabilities.runs.skill_runner import RunnerConfig, RunParticipants, SkillRunner, run_limits
from server.capabilities.scripts.factory import script_runner, variables_of
from server.capabilities.scripts.settings import ScriptSettings
from server.config.machine import current_environment, state_home
from skills_core.diagnostics import shortened
from skills_core.disk.sources import explicit_sources
from skills_core.errors import InvalidRecordError
from skills_core.evals.agents.kind import AgentRun, Transcript
from skills_core.guard.guard import Guard, rules_of
from skills_core.guard.tool import CallDecision
from skills_core.live.library import load_catalog
from skills_core.runs.durable.engine import open_engine
from skills_core.runs.durable.recorded_run import RunNotDoneError, WorkerConfig
from skills_core.runs.durable.store import SqliteStore
from skills_core.runs.executor import PlainTask, RunContext, RunRequest, perform_run
from skills_core.runs.journal import MemoryJournal, from_json, to_json
from skills_core.runs.models import parse_model
from skills_core.runs.outcome import RunLimits, RunOutcome, RunProblem, RunStatus
from skills_core.runs.run_skills import Offer, RunSkills, select_skills
from skills_core.runs.tools import WorkspaceTool
from skills_core.runs.tools.own_tools import (
    ACTIVATE,
    activate_skill_tool,
    activation_of_call,
    read_skill_file_tool,
    recipient_for,
)
from skills_core.runs.trace import TraceStore
from skills_core.testing import skill_of

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from server.capabilities.evals.agents.agent import AgentTask, RunFolder
    from server.capabilities.evals.tested_skills import SkillVersion
    from server.config.settings.model import Settings
    from skills_core.catalog.catalog import Catalog
    from skills_core.format.yaml12 import JsonObject
    from skills_core.guard.tool import ToolCall
    from skills_core.runs.durable.engine import Engine
    from skills_core.runs.journal import Journal
    from skills_core.runs.models import ModelSpec
    from skills_core.runs.outcome import Usage


_PERFORMED: Final = """\
---
name: skillserve-user-request
description: Answers the user.
---
Do what the user's message asks, as an assistant with the tools and skills that you have.
"""

_LIMITS: Final = (RunProblem.TURN_LIMIT, RunProblem.CALL_LIMIT, RunProblem.TOKEN_LIMIT, RunProblem.OUTPUT_CUT)
# A model that came so far without the skill has decided to work without it.

_REFUSED: Final = (CallDecision.DENIED, CallDecision.DECLINED, CallDecision.NOT_PERMITTED, CallDecision.NOBODY_TO_ASK)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorAgent(Agent):
    """The executor with a model; all skills of the catalog are offered by `activate_skill`."""

    model: Model
    model_name: str
    max_calls: int

    @property
    def identity(self) -> Mapping[str, str]:
        """What makes runs of this agent comparable."""
        return {"agent": EXECUTOR, "version": "", "command": "", "model": self.model_name, "via": "activate_skill"}

    @property
    def label(self) -> str:
        """The model."""
        return self.model_name

    @property
    def tells_loads(self) -> bool:
        """Yes: activations are tool calls of its own."""
        return True

    async def perform(self, task: AgentTask) -> AgentRun:
        """Perform the query as a message of the user."""
        catalog = await anyio.to_thread.run_sync(_load, task)
        performed = skill_of(_PERFORMED)
        offers = {skill.key: Offer(skill.digest, skill) for skill in catalog.offered}
        skills = RunSkills(performed, (), offers)
        tools = [read_skill_file_tool(skills)]
        tools.append(activate_skill_tool(skills, lambda: recipient_for(tools)))
        limits = RunLimits(turns=self.max_calls + 1, calls=self.max_calls, seconds=task.seconds)
        counted = CountingModel(self.model)
        context = RunContext(
            model=counted,
            model_name=self.model_name,
            journal=MemoryJournal("trigger"),
            guard=Guard(rules_of(catalog.offered)),
            tools=tools,
            limits=limits,
            skills=skills,
            trigger_reason="eval: triggers",
        )
        started = anyio.current_time()
        outcome = None
        async with anyio.create_task_group() as tasks:

            async def perform() -> None:
                nonlocal outcome
                outcome = await perform_run(RunRequest(performed, {}, task.prompt), context)
                tasks.cancel_scope.cancel()

            async def end_when_decided() -> None:
                # An activation is noted by the run itself, between two requests to the model.
                while not task.is_decided(_trigger_transcript(skills, None)):  # noqa: ASYNC110 - the run has no event for it
                    await anyio.sleep(0.02)
                tasks.cancel_scope.cancel()

            tasks.start_soon(perform)
            tasks.start_soon(end_when_decided)
        seconds = anyio.current_time() - started
        transcript = _with_usage(_trigger_transcript(skills, outcome), counted.used)
        timed_out = outcome is not None and outcome.problem is RunProblem.TIME_LIMIT
        stopped = outcome is None
        return AgentRun(
            transcript=transcript,
            timed_out=timed_out,
            stopped=stopped,
            seconds=seconds,
            lines=tuple(_call_lines(outcome.tool_calls if outcome is not None else (), transcript)),
            answer=transcript.text,
        )


def _with_usage(record: Transcript, used: Usage) -> Transcript:
    """Return the record with what the model has used: a run that was ended early has no outcome to tell it."""
    tokens = used.input_tokens + used.output_tokens
    return replace(record, total_tokens=tokens, output_tokens=used.output_tokens, requests=used.requests)


def _trigger_transcript(skills: RunSkills, outcome: RunOutcome | None) -> Transcript:
    """Return the record of a run, while it goes on without its outcome."""
    loaded = tuple(skill.content.name for skill in skills.loaded if skill is not skills.performed)
    record = Transcript(loaded=loaded, recognized=True)
    if outcome is None:
        return record
    calls = outcome.tool_calls
    wanted = [(activation_of_call(call.arguments)[0], call) for call in calls if call.tool == ACTIVATE]
    broken = outcome.status is not RunStatus.COMPLETED and outcome.problem not in _LIMITS
    return replace(
        record,
        denied=tuple(dict.fromkeys(name for name, call in wanted if call.decision in _REFUSED)),
        failed={name: shortened(call.text, 200) for name, call in wanted if call.decision is CallDecision.FAILED},
        tool_calls=len(calls),
        text=outcome.output,
        is_error=broken and outcome.problem is not RunProblem.TIME_LIMIT,
        error=outcome.message if broken else "",
        finished=True,
    )


def _load(task: AgentTask) -> Catalog:
    task.folder.create(task.inputs)
    for skill in task.skills:
        skill.write(task.folder.skills)
    catalog = load_catalog(explicit_sources([task.folder.skills]), current_environment())
    tested = task.skills[0].name
    if tested not in {skill.content.name for skill in catalog.offered}:
        raise EvalError(f"the skill {tested} is not offered to models: `skillserve status` on its folder says why")
    return catalog


def _call_lines(calls: Sequence[ToolCall], transcript: Transcript) -> Iterator[str]:
    for call in calls:
        line: dict[str, object] = {"tool": call.tool, "arguments": dict(call.arguments)}
        yield json.dumps({**line, "decision": call.decision.value}, ensure_ascii=False)
    end = {"loaded": list(transcript.loaded), "text": transcript.text, "error": transcript.error}
    yield json.dumps(end, ensure_ascii=False)


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


class OwnAgent(Agent):
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
            "agent": EXECUTOR,
            "model": self.label,
            "tools": " ".join(self._settings.section(RunSettings).tools),
        }

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
            output_tokens=usage.output_tokens,
            requests=usage.requests,
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
