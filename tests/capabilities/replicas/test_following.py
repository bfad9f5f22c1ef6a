"""What one replica notices reaches the subscribers of all, each of them once."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

import anyio
import pytest
from mcp.server.request_state import AESGCMRequestStateCodec
from mcp.server.subscriptions import ResourceUpdated, ServerEvent

from server.capabilities.replicas import link
from server.capabilities.replicas import replica as following
from server.capabilities.replicas.replica import Replica, catalog_digest
from server.config.machine import current_environment
from server.config.settings.model import Settings
from server.hosting.host import Host
from server.hosting.views import COMMON_VIEW
from skills_core import Library, explicit_sources
from skills_core.live.watch_options import WatchMode
from tests.capabilities.replicas.redis_server import PASSWORD, SECRET, RedisServer
from tests.conftest import MakeSkill, write_skill
from tests.server.settings import make_settings


@dataclass
class Subscriber:
    """A host that watches nothing by itself, and what one of its subscribers is told."""

    host: Host
    told: list[ServerEvent] = field(default_factory=list)

    async def until(self, condition: Callable[[], bool]) -> None:
        with anyio.fail_after(60):
            while not condition():  # noqa: ASYNC110 - another task makes it true
                await anyio.sleep(0.01)

    async def until_told_of(self, uri: str, times: int = 1) -> None:
        await self.until(lambda: self.updates(uri) >= times)

    def updates(self, uri: str) -> int:
        return self.told.count(ResourceUpdated(uri))


def _settings(redis_server: RedisServer, secret: str = SECRET) -> Settings:
    return make_settings(watch=WatchMode.OFF, replicas_redis_url=redis_server.url, replicas_secret=secret)


@asynccontextmanager
async def replicas(
    redis_server: RedisServer, *folders: Path, secrets: Sequence[str] = (SECRET,), connected: bool = True
) -> AsyncGenerator[list[Subscriber]]:
    """Run a replica for each folder, with these secrets in turn, and wait until all of them are connected."""
    found: list[Subscriber] = []
    async with anyio.create_task_group() as tasks:
        running = []
        for folder, secret in zip(folders, cycle(secrets), strict=False):
            settings = _settings(redis_server, secret)
            host = Host(Library(explicit_sources([folder]), current_environment), settings)
            one = Subscriber(host)
            host.feed(COMMON_VIEW).subscribe(one.told.append)
            replica = Replica(host)
            running.append(replica)
            found.append(one)
            tasks.start_soon(replica.run)
        with anyio.fail_after(60):
            while connected and not all(replica.is_connected for replica in running):  # noqa: ASYNC110
                await anyio.sleep(0.01)
        yield found
        tasks.cancel_scope.cancel()


URI = "skill://changing/notes.txt"


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


async def test_what_one_replica_notices_reaches_the_subscribers_of_all_once(
    redis_server: RedisServer, changing: Path
) -> None:
    async with replicas(redis_server, changing, changing, changing) as (first, second, third):
        for number in range(1, 6):
            change(changing, "x" * number)
            await (first, second, third)[number % 3].host.reload()
            for one in (first, second, third):
                await one.until_told_of(URI, number)
                assert one.updates(URI) == number
        assert first.told == second.told == third.told


async def test_what_all_replicas_notice_at_the_same_time_is_announced_once_to_each_subscriber(
    redis_server: RedisServer, changing: Path
) -> None:
    async with replicas(redis_server, changing, changing, changing) as all_of_them:
        for number in range(1, 11):
            change(changing, "x" * number)
            async with anyio.create_task_group() as tasks:
                for one in all_of_them:
                    tasks.start_soon(one.host.reload)
            for one in all_of_them:
                await one.until_told_of(URI, number)
        assert [one.updates(URI) for one in all_of_them] == [10, 10, 10]


async def test_a_new_skill_is_announced_by_each_replica_as_by_a_single_server(
    redis_server: RedisServer, make_skill: MakeSkill, changing: Path
) -> None:
    async with replicas(redis_server, changing, changing) as (first, second):
        make_skill("brand-new")
        await first.host.reload()
        await second.until(lambda: len(second.told) >= len(first.told))
        change(changing, "1")
        await second.host.reload()
        for one in (first, second):
            await one.until_told_of(URI)
        assert Counter(map(str, first.told)) == Counter(map(str, second.told))
        assert first.told.count(ResourceUpdated(URI)) == 1


async def test_without_redis_a_replica_serves_on_and_catches_up_when_it_is_back(
    redis_server: RedisServer, changing: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with replicas(redis_server, changing, changing) as (first, second):
        redis_server.stop()
        await first.until(lambda: sum("Redis cannot be reached" in text for text in caplog.messages) == 2)
        change(changing, "while it is away")
        await first.host.reload()
        await first.until_told_of(URI)
        assert second.told == []
        redis_server.start()
        await second.until_told_of(URI)
        change(changing, "and afterwards")
        await second.host.reload()
        for one in (first, second):
            await one.until_told_of(URI, 2)
            assert one.updates(URI) == 2
    # Each replica logs once that Redis is away, and once that it is back, however often it tried.
    assert sum("Redis cannot be reached" in text for text in caplog.messages) == 2
    assert sum("Redis is back: the skills" in text for text in caplog.messages) == 2
    assert PASSWORD not in caplog.text


async def test_a_frozen_redis_is_noticed_by_its_silence(
    redis_server: RedisServer, changing: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(link, "_SILENT_SECONDS", 0.5)
    monkeypatch.setattr(link, "_CALL_SECONDS", 0.5)
    monkeypatch.setattr(following, "BEAT_SECONDS", 0.1)
    async with replicas(redis_server, changing, changing) as (first, second):
        redis_server.freeze()
        change(changing, "while it is frozen")
        await first.host.reload()
        await first.until_told_of(URI)
        await first.until(lambda: sum("Redis cannot be reached" in text for text in caplog.messages) == 2)
        redis_server.thaw()
        await second.until_told_of(URI)
        assert (first.updates(URI), second.updates(URI)) == (1, 1)


async def test_a_server_starts_without_redis_and_joins_the_others_when_it_comes(
    redis_server: RedisServer, changing: Path, caplog: pytest.LogCaptureFixture
) -> None:
    redis_server.stop()
    settings = _settings(redis_server)
    host = Host(Library(explicit_sources([changing]), current_environment), settings)
    late = Subscriber(host)
    host.feed(COMMON_VIEW).subscribe(late.told.append)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Replica(host).run)
        await late.until(lambda: "Redis cannot be reached" in caplog.text)
        change(changing, "before it comes")
        redis_server.start()
        await late.until_told_of(URI)
        tasks.cancel_scope.cancel()


async def test_replicas_whose_skills_differ_for_good_do_not_look_at_the_disk_for_ever(
    redis_server: RedisServer, tmp_path: Path, changing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "BEAT_SECONDS", 0.02)
    monkeypatch.setattr(following, "_PAUSES", (0.0, 0.01))
    write_skill(tmp_path / "others", "other")
    counted: Counter[str] = Counter()
    with monkeypatch.context() as patched:
        real_look, real_hear = Host.try_reload, following.CatalogFollower._on_message

        async def look(host: Host, changed: None = None) -> object:
            counted["looks"] += 1
            return await real_look(host, changed)

        def hear(self: following.CatalogFollower, message: dict[str, object]) -> None:
            counted["heard"] += 1
            real_hear(self, message)

        patched.setattr(Host, "try_reload", look)
        patched.setattr(following.CatalogFollower, "_on_message", hear)
        async with replicas(redis_server, changing, tmp_path / "others") as (first, second):
            await first.until(lambda: counted["heard"] > 100)
            # Each of the two looks when it connects, and twice when it hears of the other's skills before and after.
            assert counted["looks"] <= 2 * 5
            assert first.told == second.told == []


NEW = SECRET[::-1]


@pytest.mark.parametrize(
    "secrets", [(SECRET, f"{SECRET} {NEW}"), (f"{SECRET} {NEW}", f"{NEW} {SECRET}"), (f"{NEW} {SECRET}", NEW)]
)
async def test_replicas_hear_each_other_at_each_step_to_another_secret(
    secrets: tuple[str, str], redis_server: RedisServer, changing: Path
) -> None:
    async with replicas(redis_server, changing, changing, secrets=secrets) as (first, second):
        for number, (one, other) in enumerate([(first, second), (second, first)], start=1):
            change(changing, "x" * number)
            await one.host.try_reload()
            await other.until_told_of(URI, number)


async def test_servers_of_one_name_with_different_secrets_are_warned_of_once(
    redis_server: RedisServer, changing: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(following, "BEAT_SECONDS", 0.01)
    async with replicas(redis_server, changing, changing, secrets=(SECRET, NEW)) as (first, _):
        await first.until(lambda: len(caplog.messages) >= 2)
    # Others may come of the end of the test, at which connections are lost.
    assert sum("not sealed with a secret of this replica" in message for message in caplog.messages) == 2


async def test_a_replica_that_may_not_publish_says_so_once_and_joins_when_it_may(
    redis_server: RedisServer, changing: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(following, "BEAT_SECONDS", 0.01)
    with redis_server.client as administrator:
        administrator.execute_command("ACL", "SETUSER", "default", "-publish")
        async with replicas(redis_server, changing, connected=False) as (one,):
            await one.until(lambda: caplog.messages != [])
            administrator.execute_command("ACL", "SETUSER", "default", "+publish")
            await one.until(lambda: len(caplog.messages) > 1)
    # What may come after these is of the end of the test.
    refused, back = caplog.messages[:2]
    assert refused.startswith("Redis does not allow this user the channels skillserve:*, ")
    assert back.startswith("Redis is back")


@pytest.mark.parametrize("forged", ["no seal", "another secret", "another channel"])
async def test_what_does_not_carry_the_seal_of_the_group_is_ignored(
    forged: str, redis_server: RedisServer, changing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = b'{"channel": "skillserve:catalog", "message": {"replica": "x", "digest": "y"}}'
    if forged == "another channel":
        text = text.replace(b"skillserve:catalog", b"another:catalog")
    codec = AESGCMRequestStateCodec([SECRET if forged == "another channel" else SECRET[::-1]])
    sealed = text.decode() if forged == "no seal" else codec.seal(text)
    heard: list[object] = []
    real_hear = following.CatalogFollower._on_message

    def hear(self: following.CatalogFollower, message: dict[str, object]) -> None:
        heard.append(message["replica"])
        real_hear(self, message)

    monkeypatch.setattr(following.CatalogFollower, "_on_message", hear)
    async with replicas(redis_server, changing) as (one,):
        good = text.replace(b'"x"', b'"good"').replace(b"another:catalog", b"skillserve:catalog")
        for each in (sealed, AESGCMRequestStateCodec([SECRET]).seal(good)):
            assert await asyncio.to_thread(redis_server.client.publish, "skillserve:catalog", each) == 1
        await one.until(lambda: "good" in heard)
        assert "x" not in heard


def test_the_digest_of_a_catalog_does_not_depend_on_where_it_is_mounted(tmp_path: Path) -> None:
    digests = []
    for name in ("a", "b"):
        write_skill(tmp_path / name, "one", files={"x.txt": b"1"})
        write_skill(tmp_path / name, "two")
        digests.append(catalog_digest(Library(explicit_sources([tmp_path / name]), current_environment).catalog))
    assert digests[0] == digests[1]
    (tmp_path / "b" / "one" / "x.txt").write_bytes(b"2")
    changed = Library(explicit_sources([tmp_path / "b"]), current_environment).catalog
    assert catalog_digest(changed) != digests[0]
