"""Clients that are slow, silent or gone cost a connection for a limited time, and one line of the log at most."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.abc
import httpx2
import pytest

from server.capabilities.login.static_tokens import TokenFile
from server.config.machine import tokens_file
from server.transport import connections
from server.transport.connections import WaitingClients
from tests.capabilities.login.serving import serving, write_skill
from tests.capabilities.login.test_http_login import ACCEPT, bearer
from tests.capabilities.login.test_limits import MODERN, MODERN_HEADERS

QUICK = {"limits_receive_seconds": 0.4}


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    return write_skill(tmp_path / "skills")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TokenFile:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return TokenFile(tokens_file())


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[anyio.abc.SocketStream]:
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    async with await anyio.connect_tcp(parts.hostname, parts.port) as stream:
        yield stream


def head(url: str, length: int, **headers: str) -> bytes:
    lines = ["POST /mcp HTTP/1.1", f"Host: {urlsplit(url).netloc}", f"Content-Length: {length}"]
    given = {**MODERN_HEADERS, "Content-Type": "application/json", **headers}
    return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in given.items()), "\r\n"]).encode()


async def until_closed(stream: anyio.abc.SocketStream) -> bytes:
    """Return what the server sends before it closes the connection."""
    answer = b""
    with anyio.fail_after(30):
        try:
            while True:
                answer += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return answer


@pytest.mark.parametrize("begin", [b"", b"POST /mcp HT", b"POST /mcp HTTP/1.1\r\nHost: x\r\nX-A: "])
async def test_a_connection_whose_request_does_not_begin_is_closed(skills: Path, begin: bytes) -> None:
    async with serving(skills, **QUICK) as url, connected(url) as stream:
        if begin:
            await stream.send(begin)
        assert await until_closed(stream) == b""


async def test_a_request_that_begins_slowly_on_a_used_connection_ends_it(skills: Path) -> None:
    async with serving(skills, **QUICK) as url, connected(url) as stream:
        body = json.dumps(MODERN).encode()
        await stream.send(head(url, len(body)) + body)
        assert (await stream.receive()).startswith(b"HTTP/1.1 200")
        await stream.send(b"POST")
        assert b"HTTP/1.1" not in await until_closed(stream)


async def test_a_body_that_trickles_is_answered_and_its_connection_closed(skills: Path) -> None:
    async with serving(skills, **QUICK) as url, connected(url) as stream:
        await stream.send(head(url, 5000) + b"{")

        async def trickle() -> None:
            while True:
                await anyio.sleep(0.05)
                await stream.send(b" ")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(trickle)
            answer = await until_closed(stream)
            tasks.cancel_scope.cancel()
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"not complete after 0.4 seconds" in answer


async def test_a_body_that_trickles_behind_its_answer_ends_the_connection(skills: Path) -> None:
    async with serving(skills, login_tokens=True, **QUICK) as url, connected(url) as stream:
        await stream.send(head(url, 5000) + b"{")
        answer = await until_closed(stream)
    assert answer.startswith(b"HTTP/1.1 401")


@pytest.mark.parametrize("sent", ["at once", "in parts"])
async def test_a_head_with_more_lines_than_it_may_have_is_refused(skills: Path, sent: str) -> None:
    lines = [f"X-{number}: {number}\r\n".encode() for number in range(300)]
    async with serving(skills) as url, connected(url) as stream:
        begin = head(url, 0).removesuffix(b"\r\n")
        for part in [begin, *lines, b"\r\n"] if sent == "in parts" else [begin + b"".join(lines) + b"\r\n"]:
            try:
                await stream.send(part)
            except anyio.BrokenResourceError:
                break
        assert (await until_closed(stream)).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize("login", [False, True])
async def test_a_client_that_hangs_up_in_its_body_is_one_line_of_the_log(
    skills: Path, file: TokenFile, caplog: pytest.LogCaptureFixture, *, login: bool
) -> None:
    caplog.set_level(logging.INFO)
    headers = bearer(file.add("anna", (), None)) if login else {}
    async with serving(skills, login_tokens=login) as url:
        async with connected(url) as stream:
            await stream.send(head(url, 200_000, **headers) + b"{" + b" " * 100_000)
        with anyio.fail_after(30):
            while not (said := [each for each in caplog.records if "hung up" in each.getMessage()]):  # noqa: ASYNC110
                await anyio.sleep(0.01)
        async with httpx2.AsyncClient() as client:
            answer = await client.post(url, json=MODERN, headers={**MODERN_HEADERS, **headers})
            assert answer.status_code == 200
    assert len(said) == 1
    assert not [each for each in caplog.records if each.exc_info and "Exception in ASGI" in each.getMessage()]


@pytest.mark.parametrize("size", [70_000, 130_000, 200_000])
@pytest.mark.parametrize("login", [False, True])
async def test_a_large_body_is_read_whole_or_refused(skills: Path, file: TokenFile, size: int, *, login: bool) -> None:
    headers = bearer(file.add("anna", (), None)) if login else {}
    body = json.dumps({**MODERN, "params": {**MODERN["params"], "x": "y" * size}}).encode()  # type: ignore[dict-item]

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 1000):
            yield body[start : start + 1000]

    async with serving(skills, login_tokens=login, limits_request_bytes=131_072) as url, httpx2.AsyncClient() as client:
        for content in (body, chunks()):
            sent = {**MODERN_HEADERS, **headers, "Content-Type": "application/json"}
            answer = await client.post(url, content=content, headers=sent)
            assert answer.status_code == (200 if len(body) <= 131_072 else 413), answer.text


BODIES: dict[str, Any] = {
    "objects": {"params": {"_meta": {"x": [{"a": {}}] * 20_000}}},
    "depth": '{"params":' + "[" * 400 + "]" * 400 + "}",
    "batch": [MODERN, MODERN],
    "fields": {"params": {"arguments": {f"{number}": 0 for number in range(20_000)}}},
    "repeated": '{"params":{' + ",".join(['"a":0'] * 20_000) + "}}",
    "number": '{"params":{"x":' + "9" * 5000 + "}}",
    "broken": '{"params":',
}


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25"])
@pytest.mark.parametrize("name", BODIES)
async def test_what_costs_too_much_is_refused_in_both_eras_with_an_error(
    skills: Path, caplog: pytest.LogCaptureFixture, name: str, version: str
) -> None:
    given = BODIES[name]
    body = given if isinstance(given, str) else json.dumps({**MODERN, **given} if isinstance(given, dict) else given)
    headers = {**ACCEPT, "MCP-Protocol-Version": version, "Content-Type": "application/json"}
    async with serving(skills) as url, httpx2.AsyncClient() as client:
        answer = await client.post(url, content=body, headers=headers)
    assert answer.status_code in {400, 413}, answer.text
    assert answer.json()["error"]["message"]
    assert "Exception in ASGI application" not in caplog.text


async def test_the_oldest_connections_make_room_once_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_PATIENT_SECONDS", 0.05)
    waiting, closed = WaitingClients(60, most=3), list[int]()
    each: list[Any] = [object() for _ in range(5)]
    for number, connection in enumerate(each):
        waiting.add(connection, partial(closed.append, number))
    with anyio.fail_after(30):
        while len(waiting) > 3:  # noqa: ASYNC110 - the event loop closes them
            await anyio.sleep(0.01)
    assert closed == [0, 1]
    for connection in each:
        waiting.discard(connection)
