"""Whatever answers at the address of Redis, a replica goes on, and connects again."""

from __future__ import annotations

import itertools
import logging
from contextlib import suppress

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from server.replicas.link import RedisLink
from tests.server.replicas.redis_server import SECRET
from tests.server.settings import make_settings

CONNECTIONS = 4
"""How often the server is asked; the client of Redis asks twice before it reports some faults."""

SUBSCRIBED = b"*3\r\n$9\r\nsubscribe\r\n$18\r\nskillserve:catalog\r\n:1\r\n"


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
    monkeypatch.setattr("server.replicas.link.Backoff", lambda *_: itertools.repeat(0.01))
    caplog.set_level(logging.WARNING)
    connections = 0
    again = anyio.Event()

    async def no_redis(stream: SocketStream) -> None:
        nonlocal connections
        connections += 1
        if connections > CONNECTIONS:
            again.set()
        async with stream:
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                while after not in (request := await stream.receive()):
                    await stream.send(b"+OK\r\n" * request.count(b"SETINFO"))
                await stream.send(answer)
                await stream.send_eof()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - this is no query
    settings = make_settings(replicas_redis_url=f"redis://127.0.0.1:{port}", replicas_secret=SECRET)
    link = RedisLink(settings.replicas, [SECRET])
    link.listen("catalog", lambda message: pytest.fail(f"nobody sealed {message}"))
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, no_redis)
        tasks.start_soon(link.run)
        with anyio.fail_after(60):
            await again.wait()
        tasks.cancel_scope.cancel()
    assert caplog.messages != []
    assert all(message.startswith("Redis cannot be reached: ") for message in caplog.messages)
