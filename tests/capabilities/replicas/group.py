"""Three real servers that are replicas of each other, behind a real proxy."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.abc

from tests.capabilities.replicas.redis_server import SECRET, RedisServer
from tests.server.sessions import REPOSITORY, address, server_command, server_environment

PROXY = shutil.which("haproxy") or next(iter(map(str, Path("/usr/sbin").glob("haproxy"))), None)


@dataclass
class Member:
    """One replica: its process, its address and what it logs."""

    process: anyio.abc.Process
    url: str
    log: list[str] = field(default_factory=list)

    @property
    def place(self) -> str:
        return self.url.removeprefix("http://").removesuffix("/mcp")

    def send(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    async def read_log(self) -> None:
        assert self.process.stderr is not None
        async for chunk in self.process.stderr:
            self.log.append(chunk.decode(errors="replace"))


@asynccontextmanager
async def member(skills: Path, redis_server: RedisServer, **settings: str) -> AsyncGenerator[Member]:
    """Run a replica; its secret comes from a file."""
    secret = skills.parent / "secret"
    secret.write_text(f"{SECRET}\n")
    command = server_command(skills, "--transport", "http", "--port", "0")
    environment = server_environment(
        SKILLSERVE_REPLICAS_REDIS_URL=redis_server.url,
        SKILLSERVE_REPLICAS_SECRET_FILE=str(secret),
        SKILLSERVE_STRUCTURED_RESULTS="true",
        **settings,
    )
    async with (
        await anyio.open_process(
            command, cwd=REPOSITORY, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as process,
        anyio.create_task_group() as tasks,
    ):
        assert process.stderr is not None
        try:
            with anyio.fail_after(60):
                found = Member(process, await address(process.stderr))
            tasks.start_soon(found.read_log)
            yield found
        finally:
            tasks.cancel_scope.cancel()
            with suppress(ProcessLookupError):
                process.kill()


@asynccontextmanager
async def group(skills: Path, redis_server: RedisServer, *each: dict[str, str]) -> AsyncGenerator[list[Member]]:
    """Run a replica with each of these settings."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(member(skills, redis_server, **settings)) for settings in each]


@asynccontextmanager
async def proxy(members: list[Member]) -> AsyncGenerator[str]:
    """Run the proxy of the documentation in front of three replicas; yield its URL."""
    assert PROXY is not None
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(100)
        places = {f"SKILLPROXY_REPLICA_{number}": each.place for number, each in enumerate(members, start=1)}
        process = subprocess.Popen(  # noqa: ASYNC220 - it starts at once
            [PROXY, "-db", "-f", str(REPOSITORY / "deploy" / "haproxy.cfg")],
            env={**os.environ, **places, "SKILLPROXY_BIND": f"fd@{listener.fileno()}"},
            pass_fds=[listener.fileno()],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        finally:
            process.kill()
            process.wait()
