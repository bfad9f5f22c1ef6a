"""`skillserve watch`: servers of both transports, on a screen and as lines, across a restart."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import psutil
import pytest
from anyio.abc import Process
from mcp.client.stdio import StdioServerParameters, stdio_client

from server.capabilities.operation.watch_screen import line_of
from server.capabilities.operation.watching import WatchedEvent, shown
from tests.conftest import MakeSkill
from tests.processes import becomes
from tests.server.server_processes import served_by_process
from tests.server.sessions import REPOSITORY, open_session, server_command, server_environment

if sys.platform == "win32":
    pytest.skip("Windows has no local control socket", allow_module_level=True)

import pty
import termios

pyte: Any = pytest.importorskip("pyte")


@pytest.fixture
def where() -> Iterator[dict[str, str]]:
    """Settings that have sockets in a folder of the test's own; the paths of sockets must be short."""
    folder = Path(tempfile.mkdtemp()).resolve()
    yield {"XDG_RUNTIME_DIR": str(folder), "TMPDIR": str(folder)}
    shutil.rmtree(folder)


def sockets(where: dict[str, str]) -> list[str]:
    return sorted(path.name for path in Path(where["XDG_RUNTIME_DIR"], "skillserve").glob("*"))


@dataclass
class Watching:
    process: Process
    out: list[bytes] = field(default_factory=list)
    err: list[bytes] = field(default_factory=list)

    @property
    def told(self) -> list[tuple[str, str]]:
        events = [json.loads(line) for line in b"".join(self.out).splitlines(keepends=True) if line.endswith(b"\n")]
        return [(event["kind"], event["skill"]) for event in events]

    @property
    def notices(self) -> str:
        return b"".join(self.err).decode()


@asynccontextmanager
async def watching(*flags: str, **environment: str) -> AsyncGenerator[Watching]:
    command = [sys.executable, "-m", "server", "watch", *flags]
    async with (
        await anyio.open_process(command, cwd=REPOSITORY, env=server_environment(**environment)) as process,
        anyio.create_task_group() as tasks,
    ):
        watched = Watching(process)

        async def keep(stream: Any, chunks: list[bytes]) -> None:
            async for chunk in stream:
                chunks.append(chunk)  # noqa: PERF401 - a test reads the list meanwhile

        tasks.start_soon(keep, process.stdout, watched.out)
        tasks.start_soon(keep, process.stderr, watched.err)
        try:
            yield watched
        finally:
            if process.returncode is None:
                process.kill()


async def test_events_of_a_server_are_lines_and_a_restart_is_noticed(
    skills: Path, make_skill: MakeSkill, where: dict[str, str]
) -> None:
    make_skill("one")
    async with served_by_process(skills, **where) as served:
        port = str(urlsplit(served.url).port)
        async with watching("--json", "--port", port, **where) as watched:
            async with open_session(served.url, "handshake") as session:
                await session.client.call_tool("activate_skill", {"name": "one"})
                assert await becomes(lambda: ("activation", "one") in watched.told), watched.notices
                make_skill("two")
                assert await becomes(lambda: ("added", "two") in watched.told)
            served.process.send_signal(signal.SIGTERM)
            assert await becomes(lambda: f"port {port} has ended; waiting for it" in watched.notices)
            await served.end()
            async with served_by_process(skills, "--port", port, **where) as again:
                assert await becomes(lambda: "answers again" in watched.notices)
                async with open_session(again.url, "handshake") as session:
                    await session.client.call_tool("activate_skill", {"name": "two"})
                assert await becomes(lambda: ("activation", "two") in watched.told)
            watched.process.send_signal(signal.SIGINT)
            with anyio.fail_after(60):
                assert await watched.process.wait() == 0
            assert watched.told.count(("activation", "one")) == 1
            assert "Traceback" not in watched.notices


async def test_a_watch_that_a_signal_ends_as_its_server_ends_prints_no_exception(
    skills: Path, make_skill: MakeSkill, where: dict[str, str]
) -> None:
    make_skill("one")
    async with served_by_process(skills, **where) as served:
        port = str(urlsplit(served.url).port)
        async with watching("--json", "--port", port, **where) as watched:
            async with open_session(served.url, "handshake") as session:
                await session.client.call_tool("activate_skill", {"name": "one"})
            assert await becomes(lambda: ("activation", "one") in watched.told), watched.notices
            # Suspended, it gets both at once: the end of the connection and the signal.
            watched.process.send_signal(signal.SIGSTOP)
            assert await becomes(lambda: psutil.Process(watched.process.pid).status() == psutil.STATUS_STOPPED)
            served.process.kill()
            await served.end()
            watched.process.send_signal(signal.SIGINT)
            watched.process.send_signal(signal.SIGCONT)
            with anyio.fail_after(60):
                assert await watched.process.wait() == 0
    assert "Exception" not in watched.notices


async def test_a_server_over_stdio_is_found_and_leaves_no_socket(
    skills: Path, make_skill: MakeSkill, where: dict[str, str]
) -> None:
    make_skill("one")
    command, *flags = server_command(skills)
    parameters = StdioServerParameters(command=command, args=flags, env=server_environment(**where))
    async with open_session(stdio_client(parameters), "handshake") as session:
        await session.client.call_tool("activate_skill", {"name": "one"})
        assert await becomes(lambda: len(sockets(where)) == 1)
        async with watching("--json", **where) as watched:
            assert await becomes(lambda: ("activation", "one") in watched.told), watched.notices
            make_skill("two")
            assert await becomes(lambda: ("added", "two") in watched.told)
            async with served_by_process(skills, **where) as later, open_session(later.url, "modern") as other:
                assert await becomes(lambda: len(sockets(where)) == 2)
                await other.client.call_tool("activate_skill", {"name": "two"})
                assert await becomes(lambda: ("activation", "two") in watched.told), watched.notices
    assert await becomes(lambda: not [name for name in sockets(where) if name.startswith("stdio-")])


async def test_the_socket_of_a_killed_server_is_removed_and_without_servers_there_is_nothing_to_watch(
    skills: Path, where: dict[str, str]
) -> None:
    process = await anyio.open_process(
        server_command(skills), cwd=REPOSITORY, env=server_environment(**where), stderr=subprocess.DEVNULL
    )
    async with process:
        assert await becomes(lambda: len(sockets(where)) == 1)
        process.kill()
        await process.wait()
    async with watching(**where) as watched:
        with anyio.fail_after(60):
            assert await watched.process.wait() == 1
        assert "none of your servers runs on this machine" in watched.notices
    assert not sockets(where)


class Screen:
    """`skillserve watch` at a terminal."""

    def __init__(self, **environment: str) -> None:
        self._controller, end = pty.openpty()
        termios.tcsetwinsize(end, (24, 120))
        self.before = termios.tcgetattr(end)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.server.cli.terminal_program", "watch"],
            cwd=REPOSITORY,
            env=server_environment(TERM="xterm-256color", COLUMNS="120", LINES="24", **environment),
            stdin=end,
            stdout=end,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.end = end
        self._screen = pyte.Screen(120, 24)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        os.set_blocking(self._controller, False)

    @property
    def text(self) -> str:
        try:
            while chunk := os.read(self._controller, 65536):
                self.raw += chunk
                self._stream.feed(chunk)
        except BlockingIOError:
            pass
        return "\n".join(self._screen.display)

    def types(self, keys: bytes) -> None:
        os.write(self._controller, keys)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._controller)
        os.close(self.end)


@pytest.mark.parametrize("key", [b"q", b"\x03"])
async def test_the_screen_has_the_server_the_events_and_their_counts(
    skills: Path, make_skill: MakeSkill, where: dict[str, str], key: bytes
) -> None:
    make_skill("one")
    async with served_by_process(skills, **where) as served, open_session(served.url, "handshake") as session:
        await session.client.call_tool("activate_skill", {"name": "one"})
        screen = Screen(**where)
        try:
            assert await becomes(lambda: "one activated" in screen.text), screen.text
            await session.client.call_tool("activate_skill", {"name": "a\x1b[2J\u202eb"})
            assert await becomes(lambda: "1 invalid" in screen.text), screen.text
            lines = screen.text.splitlines()
            assert "1 skill of" in lines[0]
            assert "up 0m" in lines[0]
            assert "1 activation" in lines[1]
            assert "clients so far: 1" in lines[1]
            invalid = next(line for line in lines if "invalid" in line and "is not possible" in line)
            # The sign is there without the colour, and the name moves nothing.
            assert " ! " in invalid
            assert "a\\x1b[2J\\u202eb" in invalid
            screen.types(key)
            assert await becomes(lambda: screen.process.poll() is not None), screen.text
            assert screen.process.returncode == 0
            assert "Traceback" not in screen.text
            assert termios.tcgetattr(screen.end)[3] == screen.before[3]
        finally:
            screen.close()


def test_a_line_marks_trouble_by_a_sign_and_shows_hidden_characters() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    event = WatchedEvent("port 1", at, "denied", shown("x\u202ey"), "claude 1", 2.0, True, {})
    assert line_of(event, several=False) == "03:04:05 ! denied     x[U+202E]y  (claude 1, 2.0 ms)"
    assert line_of(event, several=True).endswith("(claude 1, 2.0 ms, port 1)")
