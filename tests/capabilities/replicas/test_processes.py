"""Three real replicas behind a real proxy: one dies, one freezes, and the clients go on."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError

from tests.capabilities.replicas.group import PROXY, group, member, proxy
from tests.capabilities.replicas.redis_server import RedisServer
from tests.conftest import write_skill
from tests.server.conversation.clients import Callbacks, allow, client_for
from tests.server.sessions import open_session

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROXY is None, reason="there is no haproxy on this machine"),
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals"),
]

URI = "skill://changing/notes.txt"
NEWS = f"updated {URI}"
POLLING = {"SKILLSERVE_WATCH": "poll", "SKILLSERVE_WATCH_POLL_MS": "100"}
BLIND = {"SKILLSERVE_WATCH": "off"}
LOST = (
    httpx2.HTTPError,
    MCPError,
    SubscriptionLost,
    OSError,
    EOFError,
    anyio.ClosedResourceError,
    anyio.BrokenResourceError,
)
"""How a client learns that a connection is lost."""


def change(skills: Path, text: str) -> None:
    """Change the file in one step: a replica may look at any time."""
    new = skills.parent / "new"
    new.write_text(text)
    new.replace(skills / "changing" / "notes.txt")


@pytest.fixture
def changing(skills: Path) -> Path:
    """The folder of skills, with the one that tests change."""
    write_skill(skills, "changing", files={"notes.txt": b"0"})
    return skills


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not condition():  # noqa: ASYNC110 - other processes make it true
            await anyio.sleep(0.02)


async def test_what_two_replicas_notice_by_polling_reaches_the_subscribers_of_all_three_once(
    redis_server: RedisServer, changing: Path
) -> None:
    async with (
        group(changing, redis_server, POLLING, POLLING, BLIND) as members,
        open_session(members[0].url, "modern", (URI,)) as first,
        open_session(members[1].url, "modern", (URI,)) as second,
        # The third one watches nothing; it hears of changes from the others alone.
        open_session(members[2].url, "handshake", (URI,)) as third,
    ):
        for number in range(1, 8):
            change(changing, "x" * number)
            for session in (first, second, third):
                await session.until_all_told([NEWS], number)
        # What the last change caused came before: each change is announced after the earlier ones.
        assert [session.told.count(NEWS) for session in (first, second, third)] == [7, 7, 7]
        await _stays_on_without_redis(redis_server, changing, first, third)


async def _stays_on_without_redis(redis_server: RedisServer, changing: Path, watching: Any, blind: Any) -> None:
    redis_server.stop()
    change(changing, "while Redis is away")
    await watching.until_all_told([NEWS], 8)
    assert await blind.activate("changing")
    assert blind.told.count(NEWS) == 7
    redis_server.start()
    await blind.until_all_told([NEWS], 8)


@dataclass
class Load:
    """Clients behind the proxy that call, subscribe, and begin again when a connection is lost."""

    url: str
    answers: int = 0
    wrong: list[str] = field(default_factory=list)
    lost: int = 0
    told: dict[int, int] = field(default_factory=dict)

    async def _again(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
            except* LOST:
                self.lost += 1
            await anyio.sleep(0.02)

    async def call(self) -> None:
        async def work() -> None:
            async with Client(self.url, mode="2026-07-28", cache=None, read_timeout_seconds=5) as client:
                while True:
                    result = await client.call_tool("activate_skill", {"name": "changing"})
                    if result.is_error:
                        self.wrong.append(str(result.content))
                    self.answers += 1
                    await anyio.sleep(0.01)

        await self._again(work)

    async def listen(self, number: int) -> None:
        self.told[number] = 0

        async def on_message(message: Any) -> None:
            if type(message).__name__ == "ResourceUpdatedNotification":
                self.told[number] += 1

        async def work() -> None:
            async with (
                Client(self.url, mode="2026-07-28", cache=None, message_handler=on_message) as client,
                client.listen(resource_subscriptions=[URI]) as stream,
            ):
                async for _ in stream:
                    pass

        await self._again(work)


async def test_clients_go_on_when_one_replica_is_killed_and_another_one_freezes(
    redis_server: RedisServer, changing: Path
) -> None:
    async with (
        group(changing, redis_server, POLLING, POLLING, POLLING) as members,
        proxy(members) as url,
        anyio.create_task_group() as tasks,
    ):
        load = Load(url)
        for number in range(6):
            tasks.start_soon(load.call)
            tasks.start_soon(load.listen, number)
        await _changes_arrive(load, changing, "all are there")
        members[0].send(signal.SIGKILL)
        await _changes_arrive(load, changing, "one is killed")
        members[1].send(signal.SIGSTOP)
        await _changes_arrive(load, changing, "another one is frozen")
        members[1].send(signal.SIGCONT)
        # It has missed changes, and its subscribers learn of the next one.
        async with open_session(members[1].url, "modern", (URI,)) as back:
            change(changing, "it is back")
            await back.until_told(NEWS)
        tasks.cancel_scope.cancel()
    assert load.wrong == []


async def test_no_call_is_lost_when_a_replica_stops(redis_server: RedisServer, changing: Path) -> None:
    draining = {**BLIND, "SKILLSERVE_DRAIN_SECONDS": "60", "SKILLSERVE_DRAIN_NOTICE_SECONDS": "2"}
    async with (
        group(changing, redis_server, draining, draining, draining) as members,
        proxy(members) as url,
        anyio.create_task_group() as tasks,
    ):
        load = Load(url)
        for _ in range(6):
            tasks.start_soon(load.call)
        await until(lambda: load.answers > 60)
        for stopping in members[:2]:
            stopping.send(signal.SIGTERM)
            with anyio.fail_after(60):
                assert await stopping.process.wait() == -signal.SIGTERM
            answers = load.answers
            await until(lambda answers=answers: load.answers > answers + 60)  # type: ignore[misc]
        tasks.cancel_scope.cancel()
    assert (load.wrong, load.lost) == ([], 0)


async def _changes_arrive(load: Load, changing: Path, what: str) -> None:
    """Go on until each client has more answers, and each subscriber has heard of a change."""
    answers, told = load.answers, dict(load.told)
    number = 0

    def arrived() -> bool:
        return load.answers > answers + 60 and all(load.told[each] > told.get(each, 0) for each in load.told)

    with anyio.fail_after(60):
        while not (arrived() and load.told):
            number += 1
            change(changing, f"{what} {number}")
            await anyio.sleep(0.1)


async def test_a_session_of_the_handshake_era_stays_at_its_replica(redis_server: RedisServer, changing: Path) -> None:
    async with (
        group(changing, redis_server, POLLING, BLIND, BLIND) as members,
        proxy(members) as url,
        open_session(url, "handshake", (URI,)) as one,
        open_session(url, "handshake", (URI,)) as another,
        open_session(url, "handshake", (URI,)) as third,
    ):
        for number in range(1, 4):
            change(changing, "x" * number)
            for session in (one, another, third):
                await session.until_all_told([NEWS], number)
                assert await session.activate("changing")
        assert [session.told.count(NEWS) for session in (one, another, third)] == [3, 3, 3]


async def test_a_new_replica_joins_the_group(redis_server: RedisServer, changing: Path) -> None:
    async with (
        member(changing, redis_server, **BLIND) as blind,
        open_session(blind.url, "modern", (URI,)) as session,
    ):
        change(changing, "before the new one")
        async with member(changing, redis_server, **BLIND):
            await session.until_told(NEWS)


TOOL = """confirm_patterns: ['"n":14']
tools:
- name: double
  description: Doubles a number.
  script: double.py
  parameters: {type: object, properties: {n: {type: integer}}, required: [n]}
"""


async def test_the_users_answers_may_reach_any_replica(redis_server: RedisServer, skills: Path, tmp_path: Path) -> None:
    script = b"import json, sys; print(json.load(sys.stdin)['n'] * 2)"
    write_skill(skills, "numbers", fields=TOOL, files={"double.py": script})
    records = tmp_path / "audit-log"
    settings = {
        "SKILLSERVE_SKILL_TOOLS": "numbers/*",
        "SKILLSERVE_SCRIPT_WORKSPACE": str(tmp_path),
        "SKILLSERVE_AUDIT_LOG": "true",
        "SKILLSERVE_AUDIT_LOG_FOLDER": str(records),
    }
    async with (
        group(skills, redis_server, settings, settings, settings) as members,
        proxy(members) as url,
        client_for(url, "modern", Callbacks(elicit=allow)) as client,
    ):
        for _ in range(6):
            result: Any = await client.call_tool("numbers__double", {"n": 14})
            assert result.content[0].text == "28", result.content
        for each in members:
            each.send(signal.SIGTERM)
            await each.process.wait()
    # Each replica has a file of its own.
    found = [[json.loads(line) for line in path.read_text().splitlines()] for path in records.rglob("*.jsonl")]
    calls = [[record["skill"] for record in each if record.get("tool") == "numbers__double"] for each in found]
    assert [*chain(*calls)] == ["numbers"] * 12
    # The proxy takes the replicas in turn, so that answers reached others than the one that had asked.
    assert [bool(each) for each in calls] == [True, True, True]
