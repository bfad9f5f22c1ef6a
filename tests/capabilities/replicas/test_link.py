"""Whatever answers at the address of Redis, a replica goes on, and connects again."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import pytest

from server.capabilities.replicas.link import LinkLostError, RedisLink
from server.capabilities.replicas.settings import ReplicaSettings, ReplicaSettingsError
from server.limits.pacing import Backoff
from tests.capabilities.replicas.redis_server import PASSWORD, SECRET, RedisServer
from tests.server.settings import make_settings

CONNECTIONS = 4
"""How often the server is asked; the client of Redis asks twice before it reports some faults."""

URL_AND_SECRET: dict[str, Any] = {"replicas_redis_url": "redis://127.0.0.1", "replicas_secret": SECRET}

SUBSCRIBED = b"*3\r\n$9\r\nsubscribe\r\n$18\r\nskillserve:catalog\r\n:1\r\n"


@asynccontextmanager
async def linked(answer: bytes, after: bytes, asked: Callable[[], None]) -> AsyncGenerator[None]:
    """Run a link to a server that answers with `answer` to a request with `after`, and then hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked()
        with suppress(ConnectionError):
            while request := await reader.read(65536):
                if after in request:
                    writer.write(answer)
                    await writer.drain()
                    break
                writer.write(b"+OK\r\n" * request.count(b"SETINFO"))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        settings = make_settings(**{**URL_AND_SECRET, "replicas_redis_url": f"redis://127.0.0.1:{port}"})
        link = RedisLink(settings.section(ReplicaSettings), [SECRET])
        link.listen("catalog", lambda message: pytest.fail(f"nobody sealed {message}"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(link.run)
            yield
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b":many\r\n",
        b"$many\r\n",
        b"*many\r\n",
        b"$-7\r\n",
        b"*-7\r\n",
        b"*0\r\n",
        b"*1\r\n:1\r\n",
        b"*3\r\n:1\r\n:2\r\n:3\r\n",
        b"*3\r\n*0\r\n*0\r\n*0\r\n",
        b"*1\r\n" * 5000,
        b"+" + b"\xff" * 100 + b"\r\n",
        b"\r\n\r\n",
        b"_\r\n",
        SUBSCRIBED + b"*3\r\n$7\r\nmessage\r\n$18\r\nskillserve:catalog\r\n*0\r\n",
        SUBSCRIBED + b"*3\r\n$7\r\nmessage\r\n$18\r\nskillserve:catalog\r\n$6\r\n\xff\xfe\xfd\xfc\xfb\xfa\r\n",
        SUBSCRIBED + b"*3\r\n$7\r\nmessage\r\n:5\r\n:6\r\n",
        SUBSCRIBED + b"*2\r\n$7\r\nmessage\r\n$1\r\nx\r\n",
    ],
    ids=itertools.count(),
)
@pytest.mark.parametrize("after", [b"", b"SUBSCRIBE"])
async def test_a_server_that_is_no_redis_does_not_end_a_replica(
    answer: bytes, after: bytes, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.capabilities.replicas.link.Backoff", lambda *_: itertools.repeat(0.01))
    caplog.set_level(logging.WARNING)
    connections = 0
    again = anyio.Event()

    def asked() -> None:
        nonlocal connections
        connections += 1
        if connections > CONNECTIONS:
            again.set()

    async with linked(answer, after, asked):
        with anyio.fail_after(60):
            await again.wait()
    assert caplog.messages != []
    known = ("Redis cannot be reached: ", "messages on the channel skillserve:catalog of Redis are not sealed with ")
    assert all(message.startswith(known) for message in caplog.messages)


async def test_a_server_that_accepts_and_hangs_up_is_asked_more_and_more_rarely_and_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    pauses: list[float] = []
    again = anyio.Event()

    def backoff(first: float, limit: float) -> Iterator[float]:
        for pause in Backoff(first, limit):
            pauses.append(pause)
            if len(pauses) > CONNECTIONS:
                again.set()
            yield 0.01

    monkeypatch.setattr("server.capabilities.replicas.link.Backoff", backoff)
    async with linked(SUBSCRIBED, b"SUBSCRIBE", lambda: None):
        with anyio.fail_after(60):
            await again.wait()
    assert pauses == sorted({*pauses})
    (warned,) = caplog.messages
    assert warned.startswith("Redis cannot be reached: ")


def link_to(url: str) -> RedisLink:
    link = RedisLink(make_settings(**{**URL_AND_SECRET, "replicas_redis_url": url}).section(ReplicaSettings), [SECRET])
    link.listen("catalog", lambda _: None)
    return link


@asynccontextmanager
async def attempts(url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[anyio.Event]:
    """Run a link that sends at each connection; the event tells that it has tried several times."""
    again = anyio.Event()

    def backoff(*_: float) -> Iterator[float]:
        for _attempt in range(CONNECTIONS):
            yield 0.01
        again.set()
        yield from itertools.repeat(0.01)

    monkeypatch.setattr("server.capabilities.replicas.link.Backoff", backoff)
    link = link_to(url)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(link.run)
        yield again
        tasks.cancel_scope.cancel()


def wrong_password(server: RedisServer) -> str:
    return server.url.replace(PASSWORD, "hidden-parole")


def missing_password(server: RedisServer) -> str:
    return server.url.replace(f":{PASSWORD}@", "")


def unknown_user(server: RedisServer) -> str:
    return server.url.replace("://:", "://hidden-parole:")


@pytest.mark.parametrize("address", [wrong_password, missing_password, unknown_user])
async def test_a_login_that_redis_refuses_is_called_so_in_one_warning_and_tried_again(
    address: Callable[[RedisServer], str],
    redis_server: RedisServer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.INFO)
    async with attempts(address(redis_server), monkeypatch) as again:
        with anyio.fail_after(60):
            await again.wait()
    (warned,) = caplog.messages
    assert warned.startswith("Redis refuses the login: check the user and password in replicas.redis_url. ")
    assert "hidden-parole" not in caplog.text
    assert PASSWORD not in caplog.text


@pytest.mark.parametrize(
    "rights", ["resetchannels &other:* +@all", "resetchannels +@all", "allchannels +@all -subscribe"]
)
async def test_missing_rights_at_redis_are_called_so_in_one_warning_that_names_the_channels(
    rights: str, redis_server: RedisServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with redis_server.client as client:
        client.execute_command("ACL", "SETUSER", "replica", "on", f">{PASSWORD}", *rights.split())
    caplog.set_level(logging.INFO)
    url = redis_server.url.replace("://:", "://replica:")
    async with attempts(url, monkeypatch) as again:
        with anyio.fail_after(60):
            await again.wait()
    (warned,) = caplog.messages
    assert warned.startswith("Redis does not allow this user the channels skillserve:*, ")
    assert "docs/guides/replicas.md" in warned
    assert PASSWORD not in caplog.text


async def test_a_replica_that_may_listen_and_not_send_says_that_it_lacks_rights(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    with redis_server.client as client:
        client.execute_command("ACL", "SETUSER", "replica", "on", f">{PASSWORD}", "allchannels", "+@all", "-publish")
    caplog.set_level(logging.INFO)
    link = link_to(redis_server.url.replace("://:", "://replica:"))
    ready = anyio.Event()
    link.on_subscribed = ready.set
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(link.run)
        with anyio.fail_after(60):
            await ready.wait()
        for _ in range(2):
            with pytest.raises(LinkLostError):
                await link.publish("catalog", {})
        tasks.cancel_scope.cancel()
    (warned,) = caplog.messages
    assert warned.startswith("Redis does not allow this user the channels skillserve:*, ")


async def test_a_login_is_refused_in_the_log_though_redis_was_away_before(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    redis_server.stop()
    refused = anyio.Event()

    class Noting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "refuses the login" in record.getMessage():
                refused.set()

    noting, logger = Noting(), logging.getLogger("server.capabilities.replicas.link")
    logger.addHandler(noting)
    try:
        async with attempts(wrong_password(redis_server), monkeypatch) as again:
            with anyio.fail_after(60):
                await again.wait()
                redis_server.start()
                await refused.wait()
    finally:
        logger.removeHandler(noting)
    assert [message.partition(":")[0] for message in caplog.messages] == [
        "Redis cannot be reached",
        "Redis refuses the login",
    ]


@pytest.mark.parametrize("option", ["foo=bar", "protocol=9", "socket_timeout=600", "db=1&retry=5", "ssl_nothing=1"])
def test_an_option_of_the_address_that_would_change_the_connection_is_refused(option: str) -> None:
    scheme = "rediss" if option.startswith("ssl_") else "redis"
    settings = make_settings(**{**URL_AND_SECRET, "replicas_redis_url": f"{scheme}://:hidden@127.0.0.1/0?{option}"})
    with pytest.raises(ReplicaSettingsError) as refused:
        RedisLink(settings.section(ReplicaSettings), [SECRET])
    assert "hidden" not in str(refused.value)


def test_an_address_may_name_the_database_and_certificates() -> None:
    url = "rediss://127.0.0.1?db=1&ssl_cert_reqs=required&ssl_ca_certs=/etc/ssl/redis.pem"
    assert not RedisLink(
        make_settings(**{**URL_AND_SECRET, "replicas_redis_url": url}).section(ReplicaSettings), [SECRET]
    ).is_connected
