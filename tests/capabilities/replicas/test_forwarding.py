"""A client may answer a question of one replica at another: the call is passed on to the replica that has the run."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import msgspec
import pytest
import redis.asyncio
from mcp.server.request_state import AESGCMRequestStateCodec

from server.capabilities.replicas import forwarding as call_messages
from server.capabilities.replicas.forwarding import Message, decoded
from server.capabilities.replicas.replica import Replica
from server.config.machine import current_environment
from server.conversation.client_exchange import ExchangeLimits
from server.conversation.client_requests import Caller, ResumeKind, Resumption
from server.hosting.host import Host
from skills_core import Library, explicit_sources
from skills_core.live.watch_options import WatchMode
from tests.capabilities.replicas.redis_server import SECRET, RedisServer
from tests.server.conversation.clients import Callbacks, Connection, allow, client_for, echo, says, until_logged
from tests.server.conversation.scripted_server import ScriptedServer
from tests.server.settings import make_settings

FOREIGN = "f" * 16


@dataclass
class Member:
    """A replica in this process, and a client of the modern era that is connected to it."""

    replica: Replica
    connection: Connection
    link: anyio.CancelScope
    progress: list[float] = field(default_factory=list)

    async def note(self, done: float, _total: float | None, _message: str | None) -> None:
        self.progress.append(done)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@asynccontextmanager
async def member(redis_server: RedisServer, skills: Path, log: Path, callbacks: Callbacks) -> AsyncGenerator[Member]:
    settings = make_settings(
        watch=WatchMode.OFF, replicas_redis_url=redis_server.url, replicas_secret=SECRET, structured_results=True
    )
    host = Host(Library(explicit_sources([skills]), current_environment), settings)
    server, replica = ScriptedServer(host, log, ExchangeLimits(), local=False), Replica(host)
    replica.attach(server)
    async with (
        anyio.create_task_group() as tasks,
        server.exchanges.serving(),
        client_for(server, "modern", callbacks) as client,
    ):
        link = anyio.CancelScope()

        async def run() -> None:
            with link:
                await replica.run()

        tasks.start_soon(run)
        with anyio.fail_after(60):
            while not replica.is_connected:  # noqa: ASYNC110 - another task connects
                await anyio.sleep(0.01)
        yield Member(replica, Connection(client, "modern", callbacks, log), link)
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def pair(
    redis_server: RedisServer, skills: Path, log: Path, callbacks: Callbacks
) -> AsyncGenerator[list[Member]]:
    """Run two replicas, whose tools write to the same log."""
    async with (
        member(redis_server, skills, log, callbacks) as one,
        member(redis_server, skills, log, callbacks) as other,
    ):
        yield [one, other]


def answers_to(asked: Any, text: str) -> dict[str, Any]:
    return {key: says(text) for key in asked.input_requests}


def text_of(result: Any) -> str:
    assert result.is_error
    return "".join(block.text for block in result.content)


async def test_each_answer_may_come_to_another_replica(redis_server: RedisServer, skills: Path, log: Path) -> None:
    steps: list[dict[str, Any]] = [{"sample": "a"}, {"progress": 1}, {"sample": "b"}, {"sample": "c"}]
    async with pair(redis_server, skills, log, Callbacks(sample=echo)) as members:
        result = await members[0].connection.request(steps)
        for number, text in enumerate("xyz", start=1):
            there = members[number % 2]
            result = await there.connection.client.session.call_tool(
                "run_skill",
                {"steps": steps},
                input_responses=answers_to(result, text),
                request_state=result.request_state,
                allow_input_required=True,
                progress_callback=there.note,
            )
        assert result.structured_content["said"] == ["x", None, "y", "z"]
        assert members[1].progress == [1]
        assert members[0].connection.logged() == [
            "begun",
            "sample: x",
            "progress: None",
            "sample: y",
            "sample: z",
            "done",
        ]


@pytest.mark.parametrize("way", ["confirm", "continue"])
async def test_consent_may_be_given_at_another_replica(
    way: str, redis_server: RedisServer, skills: Path, log: Path
) -> None:
    async with pair(redis_server, skills, log, Callbacks()) as (one, other):
        waits = await one.connection.call(steps=[{"confirm": "push?"}])
        token = waits.structured_content[way]
        result = await other.connection.call(**{way: token})
        assert result.structured_content["said"] == [way == "confirm"]
        again = await other.connection.call(**{way: token})
        assert f"no run waits for this {way}: the token was used" in text_of(again)


async def test_what_a_client_can_do_is_what_its_latest_request_says(
    redis_server: RedisServer, skills: Path, log: Path
) -> None:
    steps = [{"sample": "a"}, {"confirm": "push?"}]
    async with (
        member(redis_server, skills, log, Callbacks(sample=echo)) as one,
        member(redis_server, skills, log, Callbacks(sample=echo, elicit=allow)) as other,
    ):
        asked = await one.connection.request(steps)
        then = await other.connection.request(steps, answers_to(asked, "yes"), asked.request_state)
        assert [request.method for request in then.input_requests.values()] == ["elicitation/create"]


async def test_a_call_that_is_cancelled_at_another_replica_cancels_the_work(
    redis_server: RedisServer, skills: Path, log: Path
) -> None:
    steps: list[dict[str, Any]] = [{"sample": "a"}, {"hang": 0}]
    async with pair(redis_server, skills, log, Callbacks(sample=echo)) as (one, other):
        asked = await one.connection.request(steps)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other.connection.request, steps, answers_to(asked, "yes"), asked.request_state)
            await until_logged(log, "sample: yes")
            assert (one.replica.running, other.replica.running) == (1, 0)
            tasks.cancel_scope.cancel()
        await until_logged(log, "cancelled")


async def test_the_work_goes_on_if_the_replicas_lose_each_other_and_the_same_call_has_its_outcome(
    redis_server: RedisServer, skills: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_messages, "_SILENT_SECONDS", 0.5)
    monkeypatch.setattr(call_messages, "BEAT_SECONDS", 0.05)
    steps: list[dict[str, Any]] = [{"sample": "a"}, {"sleep": 1}, {"sample": "b"}]
    lost: list[Any] = []
    async with pair(redis_server, skills, log, Callbacks(sample=echo)) as (one, other):
        asked = await one.connection.request(steps)

        async def answer() -> None:
            lost.append(await other.connection.request(steps, answers_to(asked, "yes"), asked.request_state))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer)
            await until_logged(log, "sample: yes")
            other.link.cancel()
        assert "cannot be reached now" in text_of(lost[0])
        with anyio.fail_after(60):
            while one.replica.running:  # noqa: ASYNC110 - another task notices the silence
                await anyio.sleep(0.01)
        again = await one.connection.request(steps, answers_to(asked, "no"), asked.request_state)
        done = await one.connection.request(steps, answers_to(again, "too"), again.request_state)
        assert done.structured_content["said"] == ["yes", None, "too"]


async def test_failures_of_the_work_are_those_of_the_call(
    redis_server: RedisServer, skills: Path, log: Path, caplog: pytest.LogCaptureFixture
) -> None:
    steps: list[dict[str, Any]] = [{"sample": "a"}, {"fail": "a secret"}]
    async with pair(redis_server, skills, log, Callbacks(sample=echo)) as (one, other):
        asked = await one.connection.request(steps)
        with pytest.raises(Exception, match="Internal server error"):
            await other.connection.request(steps, answers_to(asked, "yes"), asked.request_state)
        assert "a run failed whose client is at another replica" in caplog.text


@pytest.mark.parametrize("state", ["silent", "gone"])
async def test_a_replica_that_is_gone_or_silent_is_named_as_the_reason(
    state: str,
    redis_server: RedisServer,
    skills: Path,
    log: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(call_messages, "_SILENT_SECONDS", 0.2)
    caplog.set_level(logging.INFO)
    listener = redis.asyncio.Redis.from_url(redis_server.url).pubsub()
    if state == "silent":
        await listener.subscribe(f"skillserve:calls:{FOREIGN}")
    async with member(redis_server, skills, log, Callbacks()) as one:
        result = await one.connection.call(**{"continue": f"{FOREIGN}:token"})
    assert "the run of this continue has ended, or its server cannot be reached now; try the same call" in text_of(
        result
    )
    assert ("is silent" if state == "silent" else "has ended") in caplog.text
    await listener.aclose()  # type: ignore[no-untyped-call]


async def test_while_redis_is_away_a_call_says_what_to_do_and_one_at_its_own_replica_goes_on(
    redis_server: RedisServer, skills: Path, log: Path
) -> None:
    async with pair(redis_server, skills, log, Callbacks()) as (one, other):
        waits = await one.connection.call(steps=[{"confirm": "push?"}])
        redis_server.stop()
        token = waits.structured_content["confirm"]
        assert "cannot be reached now" in text_of(await other.connection.call(confirm=token))
        assert (await one.connection.call(confirm=token)).structured_content["said"] == [True]


@pytest.mark.parametrize("name", ["catalog", "../catalog", "F" * 16, "f" * 17, "", "f" * 15 + "\n", "*"])
async def test_what_is_no_name_of_a_replica_is_asked_nowhere(
    name: str, redis_server: RedisServer, skills: Path, log: Path
) -> None:
    async with member(redis_server, skills, log, Callbacks()) as one:
        assert "no run waits for this confirm" in text_of(await one.connection.call(confirm=f"{name}:token"))


class Quiet:
    """A request of a client that stays open."""

    tool = "run_skill"
    is_lost = False
    capabilities = types.ClientCapabilities()

    async def report_progress(self, *_: object) -> None:
        pass

    async def send_question(self, _: object) -> Any:
        raise AssertionError("there is nothing to ask")

    async def until_closed(self) -> None:
        await anyio.sleep_forever()


@pytest.mark.parametrize("caller", [Caller(modern=True, principal="eve"), Caller(modern=True, profile="sales")])
async def test_another_caller_cannot_resume_a_run_by_way_of_another_replica(
    caller: Caller, redis_server: RedisServer, skills: Path, log: Path
) -> None:
    async with pair(redis_server, skills, log, Callbacks()) as (one, other):
        waits = await one.connection.call(steps=[{"confirm": "push?"}])
        replica, _, token = waits.structured_content["confirm"].partition(":")
        assert other.replica.forwarding is not None
        with pytest.raises(Exception, match="no run waits for this confirm"):
            await other.replica.forwarding.resume(caller, Resumption(ResumeKind.CONFIRM, replica, token), Quiet())
        assert (await one.connection.call(confirm=f"{replica}:{token}")).structured_content["said"] == [True]


async def test_a_repeated_message_is_not_answered(redis_server: RedisServer, skills: Path, log: Path) -> None:
    steps: list[dict[str, Any]] = [{"sample": "a"}, {"sample": "b"}]
    codec = AESGCMRequestStateCodec([SECRET])
    client = redis.asyncio.Redis.from_url(redis_server.url)
    async with pair(redis_server, skills, log, Callbacks(sample=echo)) as (one, other), client.pubsub() as tap:
        asking, answering = (f"skillserve:calls:{each.replica.name}" for each in (one, other))
        await tap.subscribe(asking, answering)

        async def next_of(kind: str) -> bytes:
            while True:
                heard: Any = await tap.get_message(ignore_subscribe_messages=True, timeout=10)
                if heard and json.loads(codec.unseal(heard["data"].decode()))["message"]["kind"] == kind:
                    data: bytes = heard["data"]
                    return data

        asked = await one.connection.request(steps)
        then = await other.connection.request(steps, answers_to(asked, "yes"), asked.request_state)
        request, _ = await next_of("resume"), await next_of("response")
        await client.publish(asking, request)
        # This request comes after the repeated one, which would be answered before.
        done = await other.connection.request(steps, answers_to(then, "no"), then.request_state)
        assert done.structured_content["said"] == ["yes", "no"]
        last = json.loads(codec.unseal((await next_of("response")).decode()))["message"]
        assert last["result"]["structuredContent"]["said"] == ["yes", "no"]
    await client.aclose()


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"kind": "resume"},
        {"kind": "later", "id": "1"},
        {"kind": "alive"},
        {"kind": "progress", "id": "1", "done": "x"},
    ],
)
def test_what_is_no_message_is_ignored(found: dict[str, Any]) -> None:
    assert decoded(found) is None


def test_a_message_survives_its_way() -> None:
    from server.capabilities.replicas.forwarding import NotedWork, ResponseMessage  # noqa: PLC0415
    from server.requests import RequestDecision, Use  # noqa: PLC0415

    noted = NotedWork(skill="pdf", digest="d", use=Use.RAN, decision=RequestDecision.DENIED, reason="guard")
    message: Message = ResponseMessage(id="1", result={"content": []}, noted=noted)
    assert decoded(json.loads(msgspec.json.encode(message))) == message
