"""A server that is stopped leaves the runs whose clients wait to the next one, over both transports."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.to_thread
import pytest

from tests.conftest import MakeSkill
from tests.model_endpoint import Hang, ModelEndpoint
from tests.server.conversation.clients import Callbacks, client_for
from tests.server.sessions import REPOSITORY, Era, address, server_command, server_environment

Statuses = Callable[[], dict[str, str]]


@pytest.fixture
def settings(tmp_path: Path, endpoint: ModelEndpoint) -> dict[str, str]:
    return {
        "SKILLSERVE_TOOLS": "run_skill",
        "SKILLSERVE_MODEL": endpoint.model,
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }


@pytest.fixture
def statuses(tmp_path: Path) -> Statuses:
    def read() -> dict[str, str]:
        found = [json.loads(path.read_text("utf-8")) for path in (tmp_path / "state/skillserve/runs").glob("*.json")]
        return {trace["run_id"]: trace["status"] for trace in found}

    return read


@asynccontextmanager
async def server(skills: Path, settings: dict[str, str], *flags: str) -> AsyncGenerator[anyio.abc.Process]:
    async with await anyio.open_process(
        server_command(skills, *flags),
        cwd=REPOSITORY,
        env=server_environment(**settings),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if flags else None,
    ) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                process.kill()


def lines(*more: dict[str, Any]) -> bytes:
    """Return what a client of the handshake era says, up to a call of the tool."""
    hello = {"capabilities": {}, "protocolVersion": "2025-11-25", "clientInfo": {"name": "test", "version": "1"}}
    said: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "run_skill", "arguments": {"name": "greeter"}}},
        *more,
    ]
    return b"".join(json.dumps({"jsonrpc": "2.0", **each}).encode() + b"\n" for each in said)


async def is_asked(endpoint: ModelEndpoint) -> None:
    assert await anyio.to_thread.run_sync(endpoint.asked.wait, 60)


async def is_completed_by_the_next(
    skills: Path, settings: dict[str, str], endpoint: ModelEndpoint, statuses: Statuses
) -> None:
    (name,) = statuses()
    assert statuses() == {name: "interrupted"}
    endpoint.script = ["never again", "the end"]
    async with server(skills, settings):
        with anyio.fail_after(120):
            while statuses() != {name: "completed"}:  # noqa: ASYNC110 - another process writes it
                await anyio.sleep(0.05)
    assert len(endpoint.requests) == 2


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "closed"])
async def test_over_stdio_the_run_is_continued_by_the_next_server(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, settings: dict[str, str], statuses: Statuses, how: str
) -> None:
    if sys.platform == "win32" and how != "closed":
        pytest.skip("Windows has no such signal")
    make_skill("greeter")
    endpoint.script = [Hang()]
    async with server(skills, settings) as process:
        assert process.stdin is not None
        await process.stdin.send(lines())
        await is_asked(endpoint)
        if how == "closed":
            await process.stdin.aclose()
        else:
            process.send_signal(getattr(signal, how))
        with anyio.fail_after(120):
            await process.wait()
    await is_completed_by_the_next(skills, settings, endpoint, statuses)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT"])
async def test_over_http_the_run_is_continued_by_the_next_server(
    make_skill: MakeSkill,
    skills: Path,
    endpoint: ModelEndpoint,
    settings: dict[str, str],
    statuses: Statuses,
    era: Era,
    how: str,
) -> None:
    make_skill("greeter")
    endpoint.script = [Hang()]

    async def call(url: str) -> None:
        # The server ends while it answers, which is an error of the connection.
        with suppress(Exception):
            async with client_for(url, era, Callbacks()) as client:
                await client.call_tool("run_skill", {"name": "greeter"})

    async with (
        server(skills, {**settings, "SKILLSERVE_DRAIN_SECONDS": "0"}, "--transport", "http", "--port", "0") as process,
        anyio.create_task_group() as tasks,
    ):
        assert process.stderr is not None
        tasks.start_soon(call, await address(process.stderr))
        await is_asked(endpoint)
        process.send_signal(getattr(signal, how))
        with anyio.fail_after(120):
            await process.wait()
        tasks.cancel_scope.cancel()
    await is_completed_by_the_next(skills, settings, endpoint, statuses)


async def test_what_a_client_cancels_before_it_closes_stdin_is_cancelled_for_good(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, settings: dict[str, str], statuses: Statuses
) -> None:
    make_skill("greeter")
    endpoint.script = [Hang(), "the end"]
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}
    async with server(skills, settings) as process:
        assert process.stdin is not None
        await process.stdin.send(lines())
        await is_asked(endpoint)
        await process.stdin.send(json.dumps(cancel).encode() + b"\n")
        await process.stdin.aclose()
        with anyio.fail_after(120):
            await process.wait()
    assert [*statuses().values()] == ["cancelled"]
    # The next server takes over what is to be continued before it performs a run of its own.
    async with server(skills, settings) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        await process.stdin.send(lines())
        said = b""
        with anyio.fail_after(120):
            while b"the end" not in said:
                said += await process.stdout.receive()
    assert sorted(statuses().values()) == ["cancelled", "completed"]
    assert len(endpoint.requests) == 2
