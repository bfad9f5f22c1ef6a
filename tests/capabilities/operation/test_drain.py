"""SIGTERM lets running requests finish within a bound, in both eras."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp_types import PaginatedRequestParams
from sse_starlette.sse import AppStatus

from tests.conftest import MakeSkill
from tests.model_endpoint import Hang, ModelEndpoint
from tests.processes import becomes
from tests.server.server_processes import ServerProcess, served_by_process
from tests.server.serving import Served, modern, modern_headers, serving, until
from tests.server.sessions import Era, open_session
from tests.server.transport.test_event_streams import HandshakeClient, messages

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")

ERAS = pytest.mark.parametrize("era", ["handshake", "modern"])


@pytest.fixture(autouse=True)
def _later_streams_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let event streams of later tests in this process live: a signal ends all streams of a process for good."""
    monkeypatch.setattr(AppStatus, "should_exit", False)


@pytest.fixture
def settings(endpoint: ModelEndpoint, tmp_path: Path) -> Callable[..., dict[str, str]]:
    """The settings of a server that runs skills."""
    return lambda **more: {
        "SKILLSERVE_TOOLS": "run_skill",
        "SKILLSERVE_MODEL": endpoint.model,
        "XDG_STATE_HOME": str(tmp_path / "state"),
        **more,
    }


class Running:
    """A call of `run_skill` that waits for the model, and its outcome.

    Its client waits for the answer alone. One that listens on a stream of its own too may find the server gone there
    before it has read the answer, and ends without it.
    """

    def __init__(self, url: str, era: Era) -> None:
        self.url, self.era = url, era
        self.result: Any = None
        self.error: BaseException | None = None
        self.ended = anyio.Event()

    async def call(self) -> None:
        params = {"name": "run_skill", "arguments": {"name": "greeter", "message": "hi"}}
        try:
            async with httpx2.AsyncClient(timeout=60) as http:
                if self.era == "modern":
                    message = modern("tools/call", params)
                    response = await http.post(self.url, json=message, headers=modern_headers(message))
                else:
                    client = await HandshakeClient(http, self.url).open()
                    response = await client.post("tools/call", params, 2)
                is_stream = response.headers["content-type"].startswith("text/event-stream")
                answers = [each async for each in messages(response)] if is_stream else [response.json()]
                self.result = next(each["result"] for each in answers if "result" in each)
        except Exception as error:  # noqa: BLE001 - whatever the client sees
            self.error = error
        finally:
            self.ended.set()

    async def until_ended(self) -> None:
        with anyio.fail_after(60):
            await self.ended.wait()


async def until_draining(served: ServerProcess) -> None:
    async def is_draining() -> bool:
        # On a new connection each time.
        async with httpx2.AsyncClient(timeout=60) as client:
            return (await client.get(f"{served.root}/ready")).status_code == 503

    await until(is_draining)


@ERAS
async def test_a_running_call_finishes_before_the_server_ends(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, settings: Callable[..., dict[str, str]], era: Era
) -> None:
    make_skill("greeter")
    hang = Hang(then="hello")
    endpoint.script = [hang]
    async with (
        served_by_process(
            skills, **settings(SKILLSERVE_DRAIN_SECONDS="60", SKILLSERVE_STRUCTURED_RESULTS="true")
        ) as served,
        anyio.create_task_group() as tasks,
    ):
        running = Running(served.url, era)
        tasks.start_soon(running.call)
        assert await becomes(endpoint.asked.is_set)
        served.process.send_signal(signal.SIGTERM)
        await until_draining(served)
        async with httpx2.AsyncClient(timeout=60) as client:
            assert (await client.get(f"{served.root}/ready?draining=404")).status_code == 404
        # A proxy that has not noticed yet may still send requests.
        async with open_session(served.url, era) as session:
            assert "Do the thing." in await session.activate("greeter")
        assert served.process.returncode is None
        hang.go.set()
        await running.until_ended()
        assert running.error is None
        assert (running.result["isError"], running.result["structuredContent"]["output"]) == (False, "hello")
        assert await served.end() == -signal.SIGTERM
        assert served.log.rstrip().endswith("Ctrl-C"), served.log


@ERAS
async def test_a_call_that_exceeds_the_bound_is_cancelled(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, settings: Callable[..., dict[str, str]], era: Era
) -> None:
    make_skill("greeter")
    endpoint.script = [Hang()]
    async with (
        served_by_process(skills, **settings(SKILLSERVE_DRAIN_SECONDS="0.3")) as served,
        anyio.create_task_group() as tasks,
    ):
        running = Running(served.url, era)
        tasks.start_soon(running.call)
        assert await becomes(endpoint.asked.is_set)
        served.process.send_signal(signal.SIGTERM)
        assert await served.end() == -signal.SIGTERM
        await running.until_ended()
        assert running.result is None or running.result["isError"]
        assert await becomes(endpoint.gone.is_set)
        assert "1 requests are cancelled" in served.log
        assert "Traceback" not in served.log


@pytest.mark.parametrize(("second", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 0)])
async def test_a_second_signal_stops_at_once(
    make_skill: MakeSkill,
    skills: Path,
    endpoint: ModelEndpoint,
    settings: Callable[..., dict[str, str]],
    second: signal.Signals,
    code: int,
) -> None:
    make_skill("greeter")
    endpoint.script = [Hang()]
    async with (
        served_by_process(skills, **settings(SKILLSERVE_DRAIN_SECONDS="3600")) as served,
        anyio.create_task_group() as tasks,
    ):
        running = Running(served.url, "modern")
        tasks.start_soon(running.call)
        assert await becomes(endpoint.asked.is_set)
        served.process.send_signal(signal.SIGTERM)
        await until_draining(served)
        served.process.send_signal(second)
        assert await served.end() == code
        await running.until_ended()
        assert "Traceback" not in served.log


async def test_impatient_interrupts_end_a_server_in_order(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, settings: Callable[..., dict[str, str]]
) -> None:
    make_skill("greeter")
    endpoint.script = [Hang()]
    async with (
        served_by_process(skills, **settings(SKILLSERVE_DRAIN_SECONDS="3600")) as served,
        anyio.create_task_group() as tasks,
    ):
        running = Running(served.url, "modern")
        tasks.start_soon(running.call)
        assert await becomes(endpoint.asked.is_set)
        served.process.send_signal(signal.SIGINT)
        await until_draining(served)
        for _ in range(3):
            served.process.send_signal(signal.SIGINT)
        assert await served.end() == 0
        await running.until_ended()
        assert "Traceback" not in served.log


async def test_a_server_on_which_nothing_runs_ends_at_once(make_skill: MakeSkill, skills: Path) -> None:
    make_skill("one")
    settings = {"SKILLSERVE_DRAIN_SECONDS": "3600"}
    async with served_by_process(skills, **settings) as served, open_session(served.url, "modern"):
        # An open stream of events is no running request.
        served.process.send_signal(signal.SIGTERM)
        assert await served.end() == -signal.SIGTERM


async def test_the_notice_lasts_even_if_nothing_runs(make_skill: MakeSkill, skills: Path) -> None:
    make_skill("one")
    async with serving(skills, drain_seconds=0, drain_notice_seconds=3600) as served:
        served.running.handle_exit(signal.SIGTERM, None)
        async with httpx2.AsyncClient(timeout=60) as fresh:
            for _ in range(3):
                assert (await fresh.get(served.at("/ready"))).status_code == 503
            message = modern("tools/list")
            answer = await fresh.post(served.url, json=message, headers=modern_headers(message))
            assert (answer.status_code, "result" in answer.json()) == (200, True)
        assert not served.running.should_exit


async def test_each_connection_ends_with_its_next_answer(make_skill: MakeSkill, skills: Path) -> None:
    make_skill("one")
    async with serving(skills, drain_notice_seconds=3600) as served:
        before = await served.ask("tools/list")
        served.running.handle_exit(signal.SIGTERM, None)

        async def closes() -> bool:
            answer = await served.ask("tools/list")
            assert (answer.status_code, "result" in answer.json()) == (200, True)
            return answer.headers.get("connection") == "close"

        await until(closes)
    assert "connection" not in before.headers


async def test_streams_of_the_modern_era_end_with_their_result_when_the_drain_begins(
    make_skill: MakeSkill, skills: Path
) -> None:
    make_skill("one")
    async with serving(skills, streams=True, drain_notice_seconds=3600) as served:
        params = {"notifications": {"toolsListChanged": True}}
        message = modern("subscriptions/listen", params)
        async with served.client.stream("POST", served.url, json=message, headers=modern_headers(message)) as stream:
            lines = stream.aiter_lines()
            while "acknowledged" not in await anext(lines):
                pass
            served.running.handle_exit(signal.SIGTERM, None)
            with anyio.fail_after(60):
                rest = [line async for line in lines]
        assert any('"result"' in line for line in rest)
        assert not served.running.should_exit


async def test_a_client_that_listens_again_during_the_notice_is_notified(make_skill: MakeSkill, skills: Path) -> None:
    make_skill("one")
    async with serving(skills, streams=True, drain_notice_seconds=3600) as served:
        message = modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        async with served.client.stream("POST", served.url, json=message, headers=modern_headers(message)) as stale:
            lines = stale.aiter_lines()
            while "acknowledged" not in await anext(lines):
                pass
            served.running.handle_exit(signal.SIGTERM, None)
            with anyio.fail_after(60):
                while not served.running._responses.is_closing:  # noqa: ASYNC110 - there is no event
                    await anyio.sleep(0.02)
            # The first stream has ended for the server, and its client has not read that yet.
            async with open_session(served.url, "modern") as session:
                make_skill("two")
                await served.host.reload()
                await session.until_told("tools")


async def test_streams_of_the_handshake_era_stay_until_the_stop_as_their_sessions_do(
    make_skill: MakeSkill, skills: Path
) -> None:
    make_skill("one")
    async with serving(skills, streams=True, drain_notice_seconds=3600) as served:
        client = await HandshakeClient(served.client, served.url).open()
        async with client.stream() as stream:
            served.running.handle_exit(signal.SIGTERM, None)
            with anyio.fail_after(60):
                while not served.running._responses.is_closing:  # noqa: ASYNC110 - there is no event
                    await anyio.sleep(0.02)
                make_skill("two")
                await served.host.reload()
                assert (await anext(stream))["method"].startswith("notifications/")


@pytest.mark.parametrize("streams", [False, True])
async def test_plain_requests_finish_too(make_skill: MakeSkill, skills: Path, *, streams: bool) -> None:
    make_skill("one")
    async with serving(skills, streams=streams, drain_seconds=60) as served, anyio.create_task_group() as tasks:
        reached, go = _waiting(served)
        answers: list[httpx2.Response] = []

        async def ask() -> None:
            answers.append(await served.ask("prompts/list"))

        tasks.start_soon(ask)
        with anyio.fail_after(60):
            await reached.wait()
            served.running.handle_exit(signal.SIGTERM, None)
            while not served.running._responses.is_closing:  # noqa: ASYNC110 - there is no event
                await anyio.sleep(0.02)
            go.set()
            while not answers:  # noqa: ASYNC110
                await anyio.sleep(0.02)
            while not served.running.should_exit:  # noqa: ASYNC110
                await anyio.sleep(0.02)
        assert "prompts" in answers[0].text


def _waiting(served: Served) -> tuple[anyio.Event, anyio.Event]:
    """Let `prompts/list` wait; return the event that a request set, and the one that it waits for."""
    reached, go = anyio.Event(), anyio.Event()

    async def wait(*_: object) -> dict[str, Any]:
        reached.set()
        await go.wait()
        return {"prompts": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}

    served.server.add_request_handler("prompts/list", PaginatedRequestParams, wait)
    return reached, go
