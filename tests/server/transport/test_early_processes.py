"""A server process before, while and after the SDK is imported: the import waits until the test lets it go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

if sys.platform == "win32":
    pytest.skip("the pipes of Windows cannot be waited for", allow_module_level=True)

from tests.conftest import MakeSkill
from tests.server.openings import INITIALIZED, Message, envelope, initialize, line_of, request
from tests.server.sessions import REPOSITORY, server_environment

pytestmark = pytest.mark.cold_start

# The import of the SDK says so on stderr, and then waits for a byte on a pipe; an `x` makes it fail.
HELD = """
import os, sys
from importlib.abc import MetaPathFinder

gate = int(sys.argv.pop())

class Hold(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "mcp_types":
            sys.meta_path.remove(self)
            os.write(2, b"importing\\n")
            if os.read(gate, 1) == b"x":
                raise ImportError("held up")

sys.meta_path.insert(0, Hold())
from server.__main__ import main
main()
"""


class HeldServer:
    def __init__(self, process: anyio.abc.Process, gate: int) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.process = process
        self._gate = gate
        self._lines = BufferedByteReceiveStream(process.stdout)
        self._log = BufferedByteReceiveStream(process.stderr)

    async def until_importing(self) -> None:
        with anyio.fail_after(60):
            while await self._log.receive_until(b"\n", 1 << 16) != b"importing":
                pass

    async def send(self, *messages: Message) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send(b"".join(line_of(message) + b"\n" for message in messages))

    async def receive(self) -> Message:
        with anyio.fail_after(60):
            message: Message = json.loads(await self._lines.receive_until(b"\n", 1 << 24))
            return message

    def go_on(self, how: bytes = b"y") -> None:
        os.write(self._gate, how)

    async def end(self) -> tuple[int, bytes]:
        """Wait for the end of the process; return its exit code and the rest of its log."""
        log = b""
        with anyio.fail_after(60):
            try:
                while True:
                    log += await self._log.receive()
            except anyio.EndOfStream:
                return await self.process.wait(), log


@asynccontextmanager
async def held_server(skills: Path, *flags: str, **settings: str) -> AsyncGenerator[HeldServer]:
    gate, hand = os.pipe()
    words = [sys.executable, "-c", HELD, "serve", str(skills), *flags, str(gate)]
    try:
        async with await anyio.open_process(
            words, cwd=REPOSITORY, env=server_environment(**settings), stderr=subprocess.PIPE, pass_fds=[gate]
        ) as process:
            try:
                yield HeldServer(process, hand)
            finally:
                if process.returncode is None:
                    process.kill()
    finally:
        os.close(gate)
        os.close(hand)


LIST = request(1, "tools/list", {"_meta": envelope("anyone", {})})
CALL = request(2, "tools/call", {"name": "activate_skill", "arguments": {"name": "one"}})


@pytest.mark.parametrize("flags", [(), ("--pin=one",)], ids=["plain", "full"])
async def test_the_first_requests_are_answered_before_the_sdk_is_imported(
    flags: tuple[str, ...], skills: Path, make_skill: MakeSkill
) -> None:
    make_skill("one")
    async with held_server(skills, *flags) as server:
        await server.until_importing()
        await server.send(initialize("anyone", "2025-11-25", {}), INITIALIZED)
        assert (await server.receive())["result"]["protocolVersion"] == "2025-11-25"
        await server.send(request(1, "tools/list"), CALL)
        assert (await server.receive())["result"]["tools"]
        server.go_on()
        answer = await server.receive()
        assert (answer["id"], answer["result"]["isError"]) == (2, False)
        # The client of the handshake is known, and hears of changes.
        make_skill("two")
        assert (await server.receive())["method"] == "notifications/tools/list_changed"


OPENED: dict[str, list[Message]] = {
    "handshake": [initialize("anyone", "2025-11-25", {}), INITIALIZED, request(1, "tools/list")],
    "modern": [
        request(
            0, "subscriptions/listen", {"_meta": envelope("anyone", {}), "notifications": {"toolsListChanged": True}}
        ),
        LIST,
    ],
}


@pytest.mark.parametrize("era", OPENED)
async def test_a_change_before_the_server_watches_is_announced(era: str, skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    async with held_server(skills) as server:
        await server.until_importing()
        await server.send(*OPENED[era])
        for _ in range(2):
            await server.receive()
        make_skill("two")
        server.go_on()
        assert (await server.receive())["method"] == "notifications/tools/list_changed"


async def test_a_failed_import_is_reported_and_ends_the_process(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    async with held_server(skills) as server:
        await server.until_importing()
        await server.send(LIST)
        assert (await server.receive())["id"] == 1
        server.go_on(b"x")
        code, log = await server.end()
        assert code == 1
        assert b"ImportError: held up" in log


async def test_requests_of_a_client_that_has_gone_are_answered(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    async with held_server(skills) as server:
        await server.until_importing()
        call = {**CALL, "params": {**CALL["params"], "_meta": envelope("anyone", {})}}
        await server.send(LIST, call)
        assert server.process.stdin is not None
        await server.process.stdin.aclose()
        assert (await server.receive())["id"] == 1
        server.go_on()
        assert (await server.receive())["id"] == 2
        assert (await server.end())[0] == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_during_the_import_ends_the_server_cleanly(
    number: signal.Signals, skills: Path, make_skill: MakeSkill
) -> None:
    make_skill("one")
    async with held_server(skills) as server:
        await server.until_importing()
        await server.send(LIST)
        await server.receive()
        server.process.send_signal(number)
        server.go_on()
        assert (await server.end())[0] == 0


async def test_a_wrong_setting_is_reported_before_anything_is_answered(skills: Path) -> None:
    async with held_server(skills, SKILLSERVE_PORT="wrong") as server:
        code, log = await server.end()
        assert code == 2
        assert b"SKILLSERVE_PORT" in log


def test_the_first_answers_import_neither_the_sdk_nor_the_command_line_library() -> None:
    code = (
        "import sys, server.cli.start_server, server.hosting.catalog_log, server.transport.serving\n"
        "late = ('asyncio', 'mcp', 'mcp_types', 'pydantic', 'starlette', 'typer', 'watchfiles')\n"
        "print([name for name in late if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    assert done.stdout == "[]\n"
