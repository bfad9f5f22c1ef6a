"""Outcomes and traces say who or what began a run, also when another process continues it."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from server.capabilities.runs.skill_runner import RunParticipants
from skills_core.runs.executor import RunRequest
from skills_core.runs.trace import TraceStore
from skills_core.runs.workflow.plan import prepare
from tests.capabilities.runs.several_skills import Open, five_skills, opened
from tests.model_endpoint import Hang, ModelEndpoint

__all__ = ["five_skills", "opened"]

pytestmark = pytest.mark.usefixtures("five_skills")

PLAN = b"name: flow\nsteps: [{kind: skill, name: A, target: doer}, {kind: skill, name: B, target: other}]"


async def test_a_workflow_and_its_steps_say_what_began_them(
    opened: Open, endpoint: ModelEndpoint, tmp_path: Path
) -> None:
    endpoint.script = ["done"]
    async with opened() as (service, library):
        plan = prepare(PLAN, "flow", library.catalog, {})
        outcome = await service.run_workflow(plan, RunParticipants(reason="command: workflow run"), "once")
    (store,) = {path.parent for path in tmp_path.rglob("once.json")}
    traces = [TraceStore(store).read(name)["trigger_reason"] for name in ("once", "once.1", "once.2")]
    steps = [step.outcome.trigger_reason for step in outcome.steps if step.outcome is not None]
    assert steps == ["workflow_step: 1 of once", "workflow_step: 2 of once"]
    assert traces == [outcome.trigger_reason, *steps]
    assert outcome.trigger_reason == "command: workflow run"


async def test_a_continued_run_keeps_its_reason(opened: Open, endpoint: ModelEndpoint) -> None:
    endpoint.script = [Hang(), "done"]
    async with opened() as (service, library), anyio.create_task_group() as tasks:
        request = RunRequest(library.catalog.skill("doer"))
        tasks.start_soon(service.run_skill, request, RunParticipants(reason="command: run"), "once")
        await anyio.to_thread.run_sync(endpoint.asked.wait, 60)
        service.close()
        tasks.cancel_scope.cancel()
    async with opened() as (service, _):
        assert service._engine is not None
        await service._engine.recover()
        outcome = await service._engine.wait("once")
    assert outcome["trigger_reason"] == "command: run"
