"""The service that performs runs, in this process: who shares what, and what becomes of those who wait for one run."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from server.config.machine import current_environment
from server.config.settings import Settings
from server.run.factory import create_service, recording
from server.run.service import RunService
from server.run.skill_runner import RunParticipants
from skills_core.library import Library
from skills_core.run.executor import RunRequest
from skills_core.run.outcome import RunProblem, RunStatus
from skills_core.sources import explicit_sources
from tests.conftest import MakeSkill
from tests.model_endpoint import Hang, ModelEndpoint

Opened = Callable[..., contextlib.AbstractAsyncContextManager[tuple[RunService, Callable[..., RunRequest]]]]


@pytest.fixture
def opened(
    make_skill: MakeSkill,
    skills: Path,
    endpoint: ModelEndpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Opened:
    """Open a service that records, with the skill `greeter`."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    make_skill("greeter")

    @contextlib.asynccontextmanager
    async def open_service(**more: Any) -> AsyncGenerator[tuple[RunService, Callable[..., RunRequest]]]:
        settings = Settings(model=endpoint.model, **more)
        library = Library(explicit_sources([skills]), current_environment)
        service = await anyio.to_thread.run_sync(create_service, library, settings)

        def request(message: str) -> RunRequest:
            return RunRequest(library.catalog.skill("greeter"), {}, message)

        async with recording(service, library, settings):
            yield service, request

    return open_service


async def waited_for(service: RunService, times: int) -> None:
    """Wait until so many callers wait for the run `both`."""
    with anyio.fail_after(60):
        while (both := service._attached._runs.get("both")) is None or both.waiters != times:  # noqa: ASYNC110
            await anyio.sleep(0.01)


async def test_a_caller_that_leaves_a_run_leaves_it_to_the_others(opened: Opened, endpoint: ModelEndpoint) -> None:
    answer = Hang(then="the end")
    endpoint.script = [answer]
    async with opened() as (service, request), anyio.create_task_group() as tasks:
        leaving = anyio.CancelScope()

        async def leave() -> None:
            with leaving:
                await service.run_skill(request("slow"), RunParticipants(), "both")

        async def stay() -> None:
            assert (await service.run_skill(request("slow"), RunParticipants(), "both")).output == "the end"

        tasks.start_soon(leave)
        assert await anyio.to_thread.run_sync(endpoint.asked.wait, 60)
        tasks.start_soon(stay)
        await waited_for(service, 2)
        leaving.cancel()
        await waited_for(service, 1)
        answer.go.set()
    assert not endpoint.gone.is_set()


async def test_the_last_caller_that_leaves_a_run_cancels_it(opened: Opened, endpoint: ModelEndpoint) -> None:
    endpoint.script = [Hang()]
    async with opened() as (service, request), anyio.create_task_group() as tasks:
        for times in (1, 2):
            tasks.start_soon(service.run_skill, request("slow"), RunParticipants(), "both")
            await waited_for(service, times)
        assert await anyio.to_thread.run_sync(endpoint.asked.wait, 60)
        tasks.cancel_scope.cancel()
    async with opened() as (service, request):
        outcome = await service.run_skill(request("slow"), RunParticipants(), "both")
    assert endpoint.gone.is_set()
    assert outcome.status is RunStatus.CANCELLED


async def test_runs_at_the_same_time_share_a_model_and_none_ends_it_for_the_others(
    opened: Opened, endpoint: ModelEndpoint
) -> None:
    endpoint.reply = lambda asked: Hang() if "slow" in asked["messages"][1]["content"] else "hello"
    async with opened(run_seconds=8) as (service, request), anyio.create_task_group() as tasks:

        async def slow() -> None:
            outcome = await service.run_skill(request("slow"), RunParticipants())
            assert outcome.problem is RunProblem.TIME_LIMIT

        tasks.start_soon(slow)
        assert await anyio.to_thread.run_sync(endpoint.asked.wait, 60)
        for _ in range(2):
            assert (await service.run_skill(request("quick"), RunParticipants())).output == "hello"
            assert not endpoint.gone.is_set()


async def test_a_run_that_reaches_its_time_closes_its_connections(opened: Opened, endpoint: ModelEndpoint) -> None:
    endpoint.reply = lambda asked: Hang() if "slow" in asked["messages"][1]["content"] else "hello"
    async with opened(run_seconds=1) as (service, request):
        runner = service._runner
        for message, problem in (("quick", None), ("slow", RunProblem.TIME_LIMIT), ("quick", None)):
            outcome = await service.run_skill(request(message), RunParticipants())
            assert outcome.problem is problem
            client: Any = runner._open_model().provider.client  # type: ignore[union-attr]
            assert client.is_closed()
