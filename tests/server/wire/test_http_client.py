"""Single requests and their limits."""

from __future__ import annotations

from base64 import b64encode

import anyio
import pytest

from server.wire.address import Address
from server.wire.http_client import HttpAnswer, HttpCallError, HttpCalls
from skills_core import Reason
from tests.server.wire.answering import OK, answering

ANSWERS = {
    "answered": OK + b"content-length: 2\r\n\r\n{}",
    "redirected": b"HTTP/1.1 302 Found\r\nlocation: /other\r\ncontent-length: 0\r\n\r\n",
    "failed": b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n",
    "broken": b"no HTTP\r\n\r\n",
}


async def sent(url: str, *, seconds: float = 30, max_bytes: int = 1000) -> HttpAnswer:
    async with HttpCalls(seconds, max_bytes) as calls:
        return await calls.send("POST", Address.parse(url), content=b"{}")


async def failure(url: str, *, seconds: float = 30, max_bytes: int = 1000) -> Reason:
    with pytest.raises(HttpCallError) as caught:
        await sent(url, seconds=seconds, max_bytes=max_bytes)
    return caught.value.reason


async def test_an_answer_has_its_status_and_the_body_of_a_success() -> None:
    found = [await answer_to(name) for name in ("answered", "redirected", "failed")]
    assert found == [(200, b"{}"), (302, b""), (500, b"")]


async def answer_to(name: str) -> HttpAnswer:
    async with answering(ANSWERS[name]) as url:
        return await sent(url)


async def test_an_answer_that_is_late_too_large_or_compressed_is_refused() -> None:
    async with answering(b"", silent=True) as url:
        assert await failure(url, seconds=0.1) is Reason.TIMED_OUT
    async with answering(OK + b"\r\n", endless=True) as url:
        assert await failure(url) is Reason.TOO_LARGE
    async with answering(OK + b"content-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}") as url:
        assert await failure(url) is Reason.SERVER_ERROR
        assert (await sent(url, max_bytes=0)).status == 200
    assert await failure(url) is Reason.UNREACHABLE


async def test_user_and_password_of_an_address_are_sent() -> None:
    received = b""

    async def handle(stream: anyio.abc.SocketStream) -> None:
        nonlocal received
        async with stream:
            received = await stream.receive()
            await stream.send(ANSWERS["answered"])

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - anyio's
        await sent(f"http://user:p%40ss@127.0.0.1:{port}/")
        tasks.cancel_scope.cancel()
    assert b"authorization: basic " + b64encode(b"user:p@ss").lower() in received.lower()
