"""Each kind of run is followed by improvements, and each run once: continued ones, steps of workflows, schedules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import anyio
import anyio.to_thread
import pytest

from server.capabilities.runs.skill_runner import RunParticipants
from server.capabilities.schedules.allowances import rights_of
from server.capabilities.schedules.binding import new_binding
from server.capabilities.schedules.keeper import TimeKeeper
from server.capabilities.schedules.store import ScheduleStore
from skills_core.runs.workflow.plan import prepare
from skills_core.schedules.when import Every
from skills_core.testing import Call
from tests.capabilities.improve.conftest import OpenLoop
from tests.capabilities.improve.loops import RIGHT, SKILL, WRONG, Loop, Model
from tests.model_endpoint import Answer, Hang, ModelEndpoint

IMPROVED = SKILL.replace(WRONG, RIGHT)
FLOW = b"name: flow\nsteps: [{kind: skill, name: A, target: tidy}, {kind: skill, name: B, target: tidy}]"


async def stop_in_second_request(loop: Loop, endpoint: ModelEndpoint, model: Model) -> None:
    """Run the skill until the model is asked again, then release the run as a process that ends does."""

    def reply(asked: dict[str, object]) -> Answer:
        return model(asked) if len(endpoint.requests) == 1 else Hang()

    endpoint.reply = reply
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(loop.run, "once")
        with anyio.fail_after(30):
            while len(endpoint.requests) < 2:  # noqa: ASYNC110 - another thread counts
                await anyio.sleep(0.02)
        loop.service.close()
        tasks.cancel_scope.cancel()
    endpoint.reply = model


async def test_a_continued_run_improves_its_skill_once_also_for_those_who_join_it(
    loop: OpenLoop, endpoint: ModelEndpoint, model: Model
) -> None:
    async with loop(recorded=True) as found:
        await stop_in_second_request(found, endpoint, model)
        assert not found.records
    async with loop(recorded=True) as found:
        assert found.engine is not None
        await found.engine.recover()
        await found.engine.wait("once")
    # The end of the block waits for what was begun.
    assert found.main.read_text() == IMPROVED
    assert [(each["run_id"], each["status"]) for each in found.records] == [("once", "improved")]
    async with loop(recorded=True) as found:
        found.main.write_text(SKILL)
        await found.run("once")
    assert len(found.records) == len(model.tasks) == 1


@pytest.mark.parametrize("recorded", [True, False])
async def test_the_steps_of_a_workflow_are_followed_when_all_have_ended(
    *, recorded: bool, loop: OpenLoop, model: Model
) -> None:
    async with loop(recorded=recorded) as found:
        seen: list[str] = []
        model.on_improve = lambda: seen.append(found.main.read_text())
        plan = prepare(FLOW, "flow", found.library.catalog, {})
        outcome = await found.service.run_workflow(plan, RunParticipants(), "flow1")
        # The second step had the text that the workflow began with, and the caller waited for the improvement.
        assert [step.status for step in outcome.steps] == ["done", "done"]
        assert seen == [SKILL]
        assert found.main.read_text() == IMPROVED
        first, second = reversed(found.records)
        assert (first["run_id"], first["status"]) == ("flow1.1", "improved")
        assert (second["run_id"], second["reason"]) == ("flow1.2", "skill_changed")


@pytest.mark.parametrize("skill", ["tidy", None])
async def test_a_run_of_a_schedule_is_followed_for_the_skills_of_the_source(
    skill: str | None, loop: OpenLoop, endpoint: ModelEndpoint, model: Model
) -> None:
    script: list[Answer] = [Call("activate_skill", {"name": "tidy"}), Call(WRONG, {}), "All of them stay."]

    def reply(asked: dict[str, object]) -> Answer:
        """Let the model of the scheduler skill activate `tidy` first."""
        number = len(endpoint.requests) - 1
        return script[number] if skill is None and number < len(script) else model(asked)

    endpoint.reply = reply
    async with loop(recorded=True) as found:
        store = ScheduleStore()
        now = datetime.now(UTC)
        rights = rights_of(found.settings)
        when = Every(timedelta(hours=1), now)
        binding = new_binding(when, "UTC", now, rights=rights, creator="test", skill=skill)
        name = await anyio.to_thread.run_sync(store.add, "x", "Tidy up.", binding)
        assert found.engine is not None
        outcome = await TimeKeeper(store, found.engine, found.settings).run_by_hand(name, "manual: test")
    assert found.main.read_text() == IMPROVED, outcome
    [record] = found.records
    assert (record["skill"], record["run_id"], record["status"]) == ("tidy", outcome["run_id"], "improved")
