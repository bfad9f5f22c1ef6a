"""Server processes of which the tests read all of stderr."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio.abc import Process

from tests.processes import becomes
from tests.server.sessions import REPOSITORY, server_command, server_environment


@dataclass
class ServerProcess:
    """A process that serves over HTTP; `lines` is what it has written to stderr, in whole lines at its end."""

    process: Process
    url: str = ""
    chunks: list[bytes] = field(default_factory=list)

    @property
    def root(self) -> str:
        return self.url.removesuffix("/mcp")

    @property
    def log(self) -> str:
        return b"".join(self.chunks).decode()

    async def logs(self, text: str) -> None:
        """Wait until the log has a text."""
        assert await becomes(lambda: text in self.log), self.log

    async def end(self) -> int:
        """Wait for the end of the process, and return its exit code."""
        with anyio.fail_after(60):
            return await self.process.wait()


@asynccontextmanager
async def served_by_process(skills: Path, *flags: str, **settings: str) -> AsyncGenerator[ServerProcess]:
    """Serve over HTTP on a free port; a process that has not ended is killed."""
    command = server_command(skills, "--transport", "http", "--port", "0", *flags)
    environment = server_environment(**settings)
    async with (
        await anyio.open_process(
            command, cwd=REPOSITORY, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as process,
        anyio.create_task_group() as tasks,
    ):
        served = ServerProcess(process)
        tasks.start_soon(_read, served)
        try:
            assert await becomes(lambda: "/mcp" in served.log and served.log.endswith("\n")), served.log
            found = next(line for line in served.log.splitlines() if "/mcp" in line)
            served.url = "http://" + found.split("http://")[1].split("/mcp")[0] + "/mcp"
            yield served
        finally:
            if process.returncode is None:
                process.kill()


async def _read(served: ServerProcess) -> None:
    assert served.process.stderr is not None
    async for chunk in served.process.stderr:
        served.chunks.append(chunk)
