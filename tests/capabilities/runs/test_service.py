"""The run service within one process: shared runs and models, and callers that leave."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from server.capabilities.runs.factory import create_service, recording
from server.capabilities.runs.recorded_runs import recorded_outcome
from server.capabilities.runs.service import RunService
from server.capabilities.runs.skill_runner import RunParticipants
from server.config.files import ConfigurationError
from server.config.machine import current_environment
from skills_core.disk.sources import explicit_sources
from skills_core.errors import InvalidRecordError, UnknownSkillError
from skills_core.live.library import Library
from skills_core.runs.executor import RunRequest
from skills_core.runs.models import ModelUnavailableError
from skills_core.runs.outcome import RunOutcome, RunProblem, RunStatus
from tests.conftest import MakeSkill
from tests.model_endpoint import Hang, ModelEndpoint
from tests.server.settings import make_settings

OpenService = Callable[..., contextlib.AbstractAsyncContextManager[tuple[RunService, Callable[..., RunRequest]]]]


@pytest.fixture
def open_run_service(
    make_skill: MakeSkill,
    skills: Path,
    endpoint: ModelEndpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> OpenService:
    """Open a recording service with the skill `greeter`."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    make_skill("greeter")

    @contextlib.asynccontextmanager
    async def open_service(**more: Any) -> AsyncGenerator[tuple[RunService, Callable[..., RunRequest]]]:
        settings = make_settings(model=endpoint.model, **more)
        library = Library(explicit_sources([skills]), current_environment)
        service = await anyio.to_thread.run_sync(create_service, library, settings)

        def request(message: str) -> RunRequest:
            return RunRequest(library.catalog.skill("greeter"), {}, message)

        async with recording(service, library, settings):
            yield service, request

    return open_service


async def wait_for_waiters(service: RunService, times: int) -> None:
    """Wait until this many callers wait for the run `both`."""
    with anyio.fail_after(60):
        while (both := service._attached._runs.get("both")) is None or both.waiters != times:  # noqa: ASYNC110
            await anyio.sleep(0.01)


async def test_a_run_continues_for_other_callers_when_one_leaves(
    open_run_service: OpenService, endpoint: ModelEndpoint
) -> None:
    answer = Hang(then="the end")
    endpoint.script = [answer]
    async with open_run_service() as (service, request), anyio.create_task_group() as tasks:
        leaving = anyio.CancelScope()

        async def leave() -> None:
            with leaving:
                await service.run_skill(request("slow"), RunParticipants(), "both")

        async def stay() -> None:
            assert (await service.run_skill(request("slow"), RunParticipants(), "both")).output == "the end"

        tasks.start_soon(leave)
        assert await anyio.to_thread.run_sync(endpoint.asked.wait, 60)
        tasks.start_soon(stay)
        await wait_for_waiters(service, 2)
        leaving.cancel()
        await wait_for_waiters(service, 1)
        answer.go.set()
    assert not endpoint.gone.is_set()


async def test_a_run_is_cancelled_when_its_last_caller_leaves(
    open_run_service: OpenService, endpoint: ModelEndpoint
) -> None:
    endpoint.script = [Hang()]
    async with open_run_service() as (service, request), anyio.create_task_group() as tasks:
        for times in (1, 2):
            tasks.start_soon(service.run_skill, request("slow"), RunParticipants(), "both")
            await wait_for_waiters(service, times)
        assert await anyio.to_thread.run_sync(endpoint.asked.wait, 60)
        tasks.cancel_scope.cancel()
    async with open_run_service() as (service, request):
        outcome = await service.run_skill(request("slow"), RunParticipants(), "both")
    assert endpoint.gone.is_set()
    assert outcome.status is RunStatus.CANCELLED


async def test_concurrent_runs_share_a_model_and_none_closes_it_for_the_others(
    open_run_service: OpenService, endpoint: ModelEndpoint
) -> None:
    held = Hang(then="late")
    endpoint.reply = lambda asked: held if "slow" in asked["messages"][1]["content"] else "hello"
    async with open_run_service() as (service, request), anyio.create_task_group() as tasks:

        async def slow() -> None:
            assert (await service.run_skill(request("slow"), RunParticipants())).output == "late"

        tasks.start_soon(slow)
        assert await anyio.to_thread.run_sync(endpoint.asked.wait, 60)
        for _ in range(2):
            assert (await service.run_skill(request("quick"), RunParticipants())).output == "hello"
            assert not endpoint.gone.is_set()
        held.go.set()


async def test_a_run_at_its_time_limit_closes_its_connections(
    open_run_service: OpenService, endpoint: ModelEndpoint
) -> None:
    endpoint.reply = lambda asked: Hang() if "slow" in asked["messages"][1]["content"] else "hello"
    async with open_run_service(run_seconds=1) as (service, request):
        runner = service._runner
        for message, problem in (("quick", None), ("slow", RunProblem.TIME_LIMIT), ("quick", None)):
            outcome = await service.run_skill(request(message), RunParticipants())
            assert outcome.problem is problem
            client: Any = runner._open_model().provider.client  # type: ignore[union-attr]
            assert client.is_closed()


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (UnknownSkillError("gone", ()), RunProblem.SKILL_CHANGED),
        (InvalidRecordError("companions", "expected a list of skills"), RunProblem.SKILL_CHANGED),
        (ModelUnavailableError("no model"), RunProblem.CONFIGURATION),
        (ConfigurationError("no workspace"), RunProblem.CONFIGURATION),
    ],
)
async def test_a_recorded_run_that_cannot_be_performed_has_an_outcome(error: Exception, problem: RunProblem) -> None:
    async def work() -> RunOutcome:
        raise error

    outcome = await recorded_outcome("r1", "doer", work)
    assert (outcome.problem, outcome.message) == (problem, str(error))
