"""One fixture that connects a client to the scripted server over each transport."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters

from tests.server.conversation.clients import Callbacks, Connect, Connection, client_for, http_program, program_command
from tests.server.sessions import REPOSITORY, Era, Transport, server_environment


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def connect(skills: Path, log: Path, transport: Transport, era: Era) -> Connect:
    """Connect a client to the program, over each transport in each era."""

    @asynccontextmanager
    async def connect(callbacks: Callbacks, *more: str, **options: Any) -> AsyncGenerator[Connection]:
        if transport == "stdio":
            command, *arguments = program_command("stdio", skills, log, *more)
            parameters = StdioServerParameters(
                command=command, args=arguments, cwd=REPOSITORY, env=server_environment()
            )
            async with client_for(parameters, era, callbacks, **options) as client:
                yield Connection(client, era, callbacks, log)
            return
        async with http_program(skills, log, *more) as url, client_for(url, era, callbacks, **options) as client:
            yield Connection(client, era, callbacks, log)

    return connect
