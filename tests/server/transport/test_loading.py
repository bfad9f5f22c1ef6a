"""A server process answers while its library is loaded, says so, and ends at once if it is told to."""

from __future__ import annotations

import json
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

if sys.platform == "win32":
    pytest.skip("processes are stopped otherwise on Windows", allow_module_level=True)

from tests.server.openings import INITIALIZED, Message, initialize, line_of, request
from tests.server.sessions import REPOSITORY, server_environment

pytestmark = pytest.mark.cold_start

# A skill takes 50 ms, until the file GATE exists.
SLOW = """
import os, sys, time
from skills_core.loading import discovery, processes

load_content = discovery.load_content

def slowly(*args):
    if not os.path.exists(os.environ["GATE"]):
        time.sleep(0.05)
    return load_content(*args)

discovery.load_content = slowly
"""
LOADER = f"import sys; sys.path.insert(0, sys.argv[1])\n{SLOW}processes.main()\n"
SERVER = f"{SLOW}processes._START = {LOADER!r}\nfrom server.__main__ import main\nmain()\n"
OPENING = initialize("probe", "2025-06-18", {})


# The server loads the fewer by itself, and the more with several processes.
@pytest.fixture(params=[900, 1200])
def count(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


@pytest.fixture
def gate(count: int, skills: Path, tmp_path: Path) -> Path:
    for number in range(count):
        folder = skills / f"skill-{number:04}"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {folder.name}\ndescription: Does {number}.\n---\nDo it.\n")
    return tmp_path / "gate"


@asynccontextmanager
async def slow_server(skills: Path, gate: Path, *options: str) -> AsyncGenerator[anyio.abc.Process]:
    command = [sys.executable, "-c", SERVER, "serve", str(skills), *options]
    environment = server_environment() | {"GATE": str(gate)}
    async with await anyio.open_process(command, cwd=REPOSITORY, env=environment) as process:
        try:
            with anyio.fail_after(60):
                yield process
        finally:
            with suppress(ProcessLookupError):
                process.kill()


class Client:
    """Sends requests over stdio, and notes which notifications come before the answers."""

    def __init__(self, process: anyio.abc.Process) -> None:
        assert process.stdout is not None
        self._process = process
        self._lines = BufferedByteReceiveStream(process.stdout)
        self.notified: list[str] = []

    async def send(self, *messages: Message) -> None:
        assert self._process.stdin is not None
        await self._process.stdin.send(b"".join(line_of(message) + b"\n" for message in messages))

    async def receive(self) -> Message:
        found: Message = json.loads(await self._lines.receive_until(b"\n", 1 << 24))
        return found

    async def result(self, number: int) -> dict[str, Any]:
        while (found := await self.receive()).get("id") != number:
            self.notified.append(str(found["method"]))
        result: dict[str, Any] = found["result"]
        return result

    async def notification(self, method: str) -> None:
        while method not in self.notified:
            self.notified.append(str((await self.receive())["method"]))
        self.notified.clear()


async def test_lists_say_that_they_are_not_whole_until_they_are(skills: Path, gate: Path, count: int) -> None:
    async with slow_server(skills, gate) as process:
        client = Client(process)
        await client.send(OPENING, INITIALIZED, request(2, "ping"), request(3, "tools/list"))
        assert "still being loaded" in (await client.result(0))["instructions"]
        assert await client.result(2) == {}
        tools = {tool["name"]: tool for tool in (await client.result(3))["tools"]}
        assert "still being loaded" in tools["activate_skill"]["description"]
        assert "enum" not in tools["activate_skill"]["inputSchema"]["properties"]["name"]
        last = {"name": "activate_skill", "arguments": {"name": f"skill-{count - 1:04}"}}
        await client.send(request(4, "tools/call", last))
        assert "try again" in json.dumps(await client.result(4))
        gate.touch()
        number, description = 5, "still being loaded"
        while "still being loaded" in description:
            await client.notification("notifications/tools/list_changed")
            await client.send(request(number, "tools/list"))
            tools = {tool["name"]: tool for tool in (await client.result(number))["tools"]}
            description, number = tools["activate_skill"]["description"], number + 1
        await client.send(request(number, "tools/call", last))
        assert "Do it." in json.dumps(await client.result(number))


@pytest.mark.parametrize("how", [signal.SIGTERM, None])
async def test_a_server_that_is_loading_ends_at_once(skills: Path, gate: Path, how: signal.Signals | None) -> None:
    async with slow_server(skills, gate) as process:
        client = Client(process)
        await client.send(OPENING, INITIALIZED, request(2, "tools/list"))
        await client.result(0)
        await client.result(2)
        if how is None:
            assert process.stdin is not None
            await process.stdin.aclose()
        else:
            process.send_signal(how)
        assert await process.wait() in {0, 128 + signal.SIGTERM, -signal.SIGTERM}
        assert process.stderr is not None
        log = b"".join([chunk async for chunk in process.stderr])
        assert b"Traceback" not in log


async def test_a_probe_tells_when_the_library_is_complete(skills: Path, gate: Path, count: int) -> None:
    async with slow_server(skills, gate, "--transport", "http", "--port", "0") as process:
        assert process.stderr is not None
        log = BufferedByteReceiveStream(process.stderr)
        while b"address" not in (line := await log.receive_until(b"\n", 1 << 16)):
            pass
        origin = line.split()[-1].decode().removesuffix("/mcp")

        def status(path: str) -> tuple[int, dict[str, Any]]:
            try:
                with urllib.request.urlopen(origin + path, timeout=30) as answer:  # noqa: S310 - our own server
                    return answer.status, json.load(answer)
            except urllib.error.HTTPError as error:
                return error.code, json.load(error)

        assert (await anyio.to_thread.run_sync(status, "/health"))[0] == 200
        code, found = await anyio.to_thread.run_sync(status, "/ready")
        assert (code, found["status"]) == (503, "loading")
        assert found["skills"] < count
        assert 0 <= found["percent"] < 100
        gate.touch()
        while (await anyio.to_thread.run_sync(status, "/ready"))[0] != 200:  # noqa: ASYNC110 - another process
            await anyio.sleep(0.05)
        assert (await anyio.to_thread.run_sync(status, "/health"))[1]["skills"] == count
        process.send_signal(signal.SIGTERM)
        await process.wait()
