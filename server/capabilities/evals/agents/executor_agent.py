"""Our own executor in tests of triggers: it answers with a model, and activates skills of the catalog or not."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from server.capabilities.evals.agents.agent import AgentUnavailableError
from server.config.machine import current_environment
from skills_core.diagnostics import shortened
from skills_core.disk.sources import explicit_sources
from skills_core.evals.agents.transcript import AgentRun, Transcript
from skills_core.guard.guard import Guard, rules_of
from skills_core.guard.tool import CallDecision
from skills_core.live.library import load_catalog
from skills_core.runs.executor import RunContext, RunRequest, perform_run
from skills_core.runs.journal import MemoryJournal
from skills_core.runs.models import parse_model, price_of
from skills_core.runs.outcome import RunLimits, RunProblem, RunStatus
from skills_core.runs.run_skills import Offer, RunSkills
from skills_core.runs.tools.own_tools import (
    ACTIVATE,
    activate_skill_tool,
    activation_of_call,
    read_skill_file_tool,
    recipient_for,
)
from skills_core.testing import skill_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence

    from pydantic_ai.models import Model

    from server.capabilities.evals.agents.agent import AgentTask
    from skills_core.catalog.catalog import Catalog
    from skills_core.guard.tool import ToolCall
    from skills_core.runs.outcome import RunOutcome


EXECUTOR: Final = "skillserve"
"""The name of this agent."""

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
class ExecutorAgent:
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
    def installed(self) -> bool:
        """No: this agent lists no folder."""
        return False

    @property
    def tells_loads(self) -> bool:
        """Yes: activations are tool calls of its own."""
        return True

    @asynccontextmanager
    async def running(self, tasks: Sequence[AgentTask]) -> AsyncGenerator[None]:
        """Open nothing: the model is open, and the record of a run stays in memory."""
        del tasks
        yield

    async def perform(self, task: AgentTask) -> AgentRun:
        """Perform the query as a message of the user."""
        catalog = await anyio.to_thread.run_sync(_load, task)
        return await self._perform(task, catalog)

    async def _perform(self, task: AgentTask, catalog: Catalog) -> AgentRun:
        performed = skill_of(_PERFORMED)
        offers = {skill.key: Offer(skill.digest, skill) for skill in catalog.offered}
        skills = RunSkills(performed, (), offers)
        tools = [read_skill_file_tool(skills)]
        tools.append(activate_skill_tool(skills, lambda: recipient_for(tools)))
        limits = RunLimits(turns=self.max_calls + 1, calls=self.max_calls, seconds=task.seconds)
        context = RunContext(
            model=self.model,
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
                while not task.is_decided(_transcript(skills, None)):  # noqa: ASYNC110 - the run has no event for it
                    await anyio.sleep(0.02)
                tasks.cancel_scope.cancel()

            tasks.start_soon(perform)
            tasks.start_soon(end_when_decided)
        seconds = anyio.current_time() - started
        transcript = replace(_transcript(skills, outcome), cost_usd=self._price(outcome))
        timed_out = outcome is not None and outcome.problem is RunProblem.TIME_LIMIT
        stopped = outcome is None
        return AgentRun(
            transcript=transcript,
            timed_out=timed_out,
            stopped=stopped,
            seconds=seconds,
            lines=tuple(_lines(outcome.tool_calls if outcome is not None else (), transcript)),
            answer=transcript.text,
        )

    def _price(self, outcome: RunOutcome | None) -> float | None:
        return price_of(parse_model(self.model_name), outcome.usage) if outcome is not None else None


def _transcript(skills: RunSkills, outcome: RunOutcome | None) -> Transcript:
    """Return the record of a run, while it goes on without its outcome."""
    loaded = tuple(skill.content.name for skill in skills.loaded if skill is not skills.performed)
    record = Transcript(loaded=loaded, recognized=True)
    if outcome is None:
        return record
    calls = outcome.tool_calls
    wanted = [(activation_of_call(call.arguments)[0], call) for call in calls if call.tool == ACTIVATE]
    broken = outcome.status is not RunStatus.COMPLETED and outcome.problem not in _LIMITS
    usage = outcome.usage
    return replace(
        record,
        denied=tuple(dict.fromkeys(name for name, call in wanted if call.decision in _REFUSED)),
        failed={name: shortened(call.text, 200) for name, call in wanted if call.decision is CallDecision.FAILED},
        tool_calls=len(calls),
        total_tokens=usage.input_tokens + usage.output_tokens,
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
        raise AgentUnavailableError(
            f"the skill {tested} is not offered to models: `skillserve status` on its folder says why"
        )
    return catalog


def _lines(calls: Sequence[ToolCall], transcript: Transcript) -> Iterator[str]:
    """Yield the calls and the result, one a line."""
    for call in calls:
        line: dict[str, object] = {"tool": call.tool, "arguments": dict(call.arguments)}
        yield json.dumps({**line, "decision": call.decision.value}, ensure_ascii=False)
    end = {"loaded": list(transcript.loaded), "text": transcript.text, "error": transcript.error}
    yield json.dumps(end, ensure_ascii=False)
