"""The program of the tests, behind one fixture for each way to connect."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters

from tests.server.exchange.talking import Converse, Peer, Talk, client_for, http_program, program_command
from tests.server.sessions import REPOSITORY, Era, Transport, server_environment


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def converse(skills: Path, log: Path, transport: Transport, era: Era) -> Converse:
    """Connect a client to the program, over each transport in each era."""

    @asynccontextmanager
    async def converse(peer: Peer, *more: str, **options: Any) -> AsyncGenerator[Talk]:
        if transport == "stdio":
            command, *arguments = program_command("stdio", skills, log, *more)
            parameters = StdioServerParameters(
                command=command, args=arguments, cwd=REPOSITORY, env=server_environment()
            )
            async with client_for(parameters, era, peer, **options) as client:
                yield Talk(client, era, peer, log)
            return
        async with http_program(skills, log, *more) as url, client_for(url, era, peer, **options) as client:
            yield Talk(client, era, peer, log)

    return converse
