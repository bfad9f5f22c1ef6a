"""A client that cancels, closes its request or disconnects leaves no work running."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import anyio
import pytest

from tests.server.conversation.clients import (
    Callbacks,
    Connect,
    echo,
    http_program,
    logged,
    program_command,
    until_logged,
)
from tests.server.sessions import REPOSITORY, Era, Transport, server_environment

CLIENT = Path(__file__).with_name("vanishing_client.py")

pytestmark = pytest.mark.every_way

WAITS_FOR_THE_CLIENT = {"sample": "never"}
WORKS_BY_ITSELF = {"hang": 0}


@asynccontextmanager
async def client_process(
    skills: Path, log: Path, transport: Transport, era: Era, step: Mapping[str, object], *more: str
) -> AsyncGenerator[anyio.abc.Process]:
    """Run a client in a process of its own, whose model never answers, in the middle of a call with `step`."""
    async with AsyncExitStack() as stack:
        target = json.dumps(program_command("stdio", skills, log, *more))
        if transport == "http":
            target = await stack.enter_async_context(http_program(skills, log, *more))
        command = [sys.executable, str(CLIENT), era, target, json.dumps([step])]
        async with await anyio.open_process(
            command, cwd=REPOSITORY, env=server_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            try:
                await until_logged(log, "begun")
                if step == WAITS_FOR_THE_CLIENT:
                    assert process.stdout is not None
                    assert (await process.stdout.receive()).startswith(b"asked")
                yield process
            finally:
                with suppress(ProcessLookupError):
                    process.kill()


@pytest.mark.parametrize("step", [WAITS_FOR_THE_CLIENT, WORKS_BY_ITSELF], ids=["waiting", "working"])
async def test_a_client_that_is_killed_leaves_no_work_behind(
    skills: Path, log: Path, transport: Transport, era: Era, step: Mapping[str, object]
) -> None:
    # Between two requests over HTTP the server cannot notice; only the deadline ends the work.
    blind = transport == "http" and era == "modern" and step == WAITS_FOR_THE_CLIENT
    async with client_process(skills, log, transport, era, step, *(["3"] if blind else [])) as process:
        process.kill()
        await until_logged(log, "cancelled")


@pytest.mark.parametrize("step", [WAITS_FOR_THE_CLIENT, WORKS_BY_ITSELF], ids=["waiting", "working"])
async def test_a_client_that_cancels_its_call_cancels_the_work(
    connect: Connect, era: Era, step: Mapping[str, object]
) -> None:
    async def never(_: object) -> None:
        await anyio.sleep_forever()

    between_requests = era == "modern" and step == WAITS_FOR_THE_CLIENT
    async with connect(Callbacks(sample=never), *(["3"] if between_requests else [])) as connection:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.run, step)
            await connection.until_logged("begun")
            await anyio.sleep(0.3)
            tasks.cancel_scope.cancel()
        await connection.until_logged("cancelled")
        connection.callbacks.sample = echo
        assert await connection.said({"sample": "a"}) == ["said a"]


async def test_a_server_that_stops_cancels_the_work(skills: Path, log: Path, era: Era) -> None:
    async with client_process(skills, log, "http", era, WORKS_BY_ITSELF):
        pass  # the program receives SIGTERM
    await until_logged(log, "cancelled")


async def test_work_that_waits_for_its_client_ends_as_soon_as_the_client_closes_stdin(skills: Path, log: Path) -> None:
    sampling: dict[str, object] = {"capabilities": {"sampling": {}}, "protocolVersion": "2025-11-25"}
    hello = {**sampling, "clientInfo": {"name": "test", "version": "1"}}
    call = {"name": "run_skill", "arguments": {"steps": [WAITS_FOR_THE_CLIENT]}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    ]
    async with await anyio.open_process(
        program_command("stdio", skills, log), cwd=REPOSITORY, env=server_environment(), stderr=None
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in lines:
            await process.stdin.send(json.dumps(line).encode() + b"\n")
        text = b""
        while b"sampling/createMessage" not in text:
            text += await process.stdout.receive()
        await process.stdin.aclose()
        async for chunk in process.stdout:
            text += chunk
        assert await process.wait() == 0
    answers = {answer.get("id"): answer for answer in map(json.loads, text.splitlines())}
    assert answers[2]["result"]["content"][0]["text"] == "the run was ended: the client is gone"
    assert logged(log) == ["begun", "cancelled"]
