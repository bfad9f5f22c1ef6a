"""Sessions over HTTP that fall asleep: what remains of them, what their clients notice, and when they end."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp_types import ListPromptsResult, PaginatedRequestParams
from starlette.requests import Request

from server.clients.known import sender_of
from server.protocol.server import SkillServer
from server.transport import sessions
from tests.conftest import MakeSkill
from tests.server.serving import Served, serving, until
from tests.server.transport.test_event_streams import (
    ACCEPT,
    INITIALIZE,
    LIST_NOTIFICATIONS,
    EndedSessions,
    HandshakeClient,
    messages,
    notifications,
)

URI = "skill://one/SKILL.md"
ACTIVATION = {"name": "activate_skill", "arguments": {"name": "one"}}


@pytest.fixture
def sleepy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sessions fall asleep soon."""
    monkeypatch.setattr(sessions, "AWAKE_SECONDS", 0.05)


async def asleep(server: SkillServer, number: int) -> None:
    """Wait until so many sessions are asleep, and no other."""

    async def are_asleep() -> bool:
        return server.session_counts() == {"awake": 0, "asleep": number}

    await until(are_asleep)


def transports() -> list[StreamableHTTPServerTransport]:
    gc.collect()
    return [each for each in gc.get_objects() if type(each) is StreamableHTTPServerTransport]


@pytest.mark.usefixtures("sleepy")
async def test_a_session_that_sleeps_holds_nothing_of_the_sdk_and_no_request(skills: Path) -> None:
    async with serving(skills) as served:
        before = len(transports())
        opened = [await HandshakeClient(served.client, served.url).open() for _ in range(5)]
        await asleep(served.server, 5)
        assert len(transports()) == before
        ids = {client.headers["Mcp-Session-Id"] for client in opened}
        requests = [each for each in gc.get_objects() if type(each) is Request]
        assert [each for each in requests if each.headers.get("mcp-session-id") in ids] == []


@pytest.mark.usefixtures("sleepy")
async def test_a_session_that_is_woken_is_that_of_the_same_client(skills: Path) -> None:
    async with serving(skills) as served:
        seen: list[Any] = []

        async def prompts(ctx: Any, _: PaginatedRequestParams) -> ListPromptsResult:
            seen.append((sender_of(ctx), ctx.protocol_version, ctx.session.client_capabilities))
            return ListPromptsResult(prompts=[])

        served.server.add_request_handler("prompts/list", PaginatedRequestParams, prompts)
        client = await HandshakeClient(served.client, served.url).open()
        for _ in range(3):
            assert (await client.post("prompts/list")).status_code == 200
            await asleep(served.server, 1)
        first, *others = seen
        assert first[0].name == "test"
        assert first[1] == INITIALIZE["protocolVersion"]
        assert others == [first, first]


@pytest.mark.usefixtures("sleepy")
async def test_what_a_session_has_loaded_and_subscribed_to_outlasts_its_sleep(
    make_skill: MakeSkill, skills: Path
) -> None:
    make_skill("one")
    async with serving(skills) as served:
        client = await HandshakeClient(served.client, served.url).open()
        assert (await client.post("resources/subscribe", {"uri": URI})).status_code == 200
        first = (await client.post("tools/call", ACTIVATION)).json()["result"]
        await asleep(served.server, 1)
        again = (await client.post("tools/call", ACTIVATION)).json()["result"]
        assert again["content"] != first["content"]
        await asleep(served.server, 1)
        make_skill("one", description="Another.")
        await served.host.reload()
        async with client.stream() as stream:
            # It missed this in its sleep, and receives the next change on the stream that keeps it awake.
            wanted = [*LIST_NOTIFICATIONS, "notifications/resources/updated"]
            assert sorted(await notifications(stream, wanted)) == sorted(wanted)
            make_skill("one", description="Yet another.")
            await served.host.reload()
            assert sorted(await notifications(stream, wanted)) == sorted(wanted)


@pytest.mark.usefixtures("sleepy")
async def test_requests_that_come_at_the_same_time_wake_a_session_once(skills: Path) -> None:
    async with serving(skills) as served:
        client = await HandshakeClient(served.client, served.url).open()
        await asleep(served.server, 1)
        before, answers = len(transports()), list[httpx2.Response]()

        async def ask(number: int) -> None:
            answers.append(await client.post("ping", number=number))

        async with anyio.create_task_group() as tasks:
            for number in range(10):
                tasks.start_soon(ask, number)
        assert [each.status_code for each in answers] == [200] * 10
        assert sorted(each.json()["id"] for each in answers) == [*range(10)]
        await asleep(served.server, 1)
        assert len(transports()) == before


@pytest.mark.usefixtures("sleepy")
async def test_a_client_ends_its_session_while_it_sleeps(skills: Path) -> None:
    async with serving(skills) as served:
        client = await HandshakeClient(served.client, served.url).open()
        await asleep(served.server, 1)
        ended = EndedSessions(served.server)
        assert (await served.client.delete(served.url, headers=client.headers)).status_code == 200
        assert await ended.first() == client.headers["Mcp-Session-Id"]
        assert (await client.post("ping")).status_code == 404
        await asleep(served.server, 0)


@pytest.mark.usefixtures("sleepy")
async def test_a_request_whose_client_has_left_keeps_its_session_awake(skills: Path) -> None:
    async with serving(skills, streams=True) as served:
        begun, may_end, outcome = anyio.Event(), anyio.Event(), list[str]()

        async def prompts(_: object, __: PaginatedRequestParams) -> ListPromptsResult:
            begun.set()
            try:
                await may_end.wait()
                outcome.append("done")
            except BaseException:
                outcome.append("cancelled")
                raise
            return ListPromptsResult(prompts=[])

        served.server.add_request_handler("prompts/list", PaginatedRequestParams, prompts)
        client = await HandshakeClient(served.client, served.url).open()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.post, "prompts/list")
            await begun.wait()
            tasks.cancel_scope.cancel()

        async def is_only_one_awake() -> bool:
            return served.server.session_counts() == {"awake": 1, "asleep": 1}

        # A session that was used later falls asleep, so the first one would have, too.
        await HandshakeClient(served.client, served.url).open()
        await until(is_only_one_awake)
        assert outcome == []
        may_end.set()
        await asleep(served.server, 2)
        assert outcome == ["done"]


async def opened_without_confirmation(served: Served) -> HandshakeClient:
    """Send nothing but `initialize`."""
    client = HandshakeClient(served.client, served.url)
    answer = await client.post("initialize", INITIALIZE)
    client.headers["Mcp-Session-Id"] = answer.headers["mcp-session-id"]
    return client


@pytest.mark.usefixtures("sleepy")
async def test_a_session_ends_sooner_if_its_client_has_not_confirmed_it(
    skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "UNCONFIRMED_SECONDS", 0.1)
    async with serving(skills, session_idle_seconds=600) as served:
        used = await HandshakeClient(served.client, served.url).open()
        late = await opened_without_confirmation(served)
        assert (await late.post("ping")).status_code == 200
        ended = EndedSessions(served.server)
        left = await opened_without_confirmation(served)
        assert await ended.first() == left.headers["Mcp-Session-Id"]
        assert (await left.post("ping")).status_code == 404
        assert [(await each.post("ping")).status_code for each in (used, late)] == [200, 200]
        assert ended.sessions == [left.headers["Mcp-Session-Id"]]


@pytest.mark.parametrize("status_of", ["GET", "DELETE", "POST"])
async def test_a_request_that_opens_no_session_leaves_none(skills: Path, status_of: str) -> None:
    async with serving(skills) as served:
        body = {"jsonrpc": "2.0", "id": 1, "method": "ping"} if status_of == "POST" else None
        answer = await served.client.request(status_of, served.url, headers=ACCEPT, json=body)
        assert 400 <= answer.status_code < 500
        assert served.server.session_counts() == {"awake": 0, "asleep": 0}


async def test_the_server_has_a_limit_of_sessions_of_all_clients(skills: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "DEFAULT_MAX_SESSIONS", 1)
    async with serving(skills) as served:
        client = await HandshakeClient(served.client, served.url).open()
        refused = await served.client.post(
            served.url, headers=ACCEPT, json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
        )
        assert (refused.status_code, refused.json()["error"]["message"]) == (503, "Too many open sessions")
        assert (await client.post("ping")).status_code == 200


@pytest.mark.usefixtures("sleepy")
async def test_a_woken_session_answers_on_streams_too(make_skill: MakeSkill, skills: Path) -> None:
    make_skill("one")
    async with serving(skills, streams=True) as served:
        client = await HandshakeClient(served.client, served.url).open()
        await asleep(served.server, 1)
        answer = await client.post("tools/call", ACTIVATION)
        (message,) = [each async for each in messages(answer)]
        assert message["result"]["content"]
