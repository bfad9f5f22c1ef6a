"""Fixtures that connect clients over each transport in each era."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from blockbuster import blockbuster_ctx
from mcp import Client, StdioServerParameters
from mcp.client.client import ConnectMode
from mcp_types import Implementation

from server.config.machine import current_environment
from server.hosting.host import Host
from server.protocol.server import SkillServer
from skills_core.disk.sources import explicit_sources
from skills_core.live.library import Library
from skills_core.live.watch_options import WatchMode
from tests.server.sessions import (
    PROGRAM,
    REPOSITORY,
    Connect,
    ConnectHosted,
    Era,
    HostedSession,
    Session,
    Transport,
    http_server,
    open_session,
    server_command,
    server_environment,
)
from tests.server.settings import make_settings
from tests.thoroughness import EVERY_CASE

BOTH: list[tuple[Transport, Era]] = [("stdio", "handshake"), ("http", "modern")]
"""Each transport and each era once: enough for tests of message contents."""
CROSSED: list[tuple[Transport, Era]] = [("stdio", "modern"), ("http", "handshake")]
"""The other combinations. Tests with the mark `every_way`, of requests, streams and notifications, need all."""


def _ways(definition: pytest.Function) -> list[tuple[Transport, Era]]:
    if not (definition.get_closest_marker("every_way") and {"transport", "era"} <= {*definition.fixturenames}):
        return BOTH
    if EVERY_CASE:
        return [*BOTH, *CROSSED]
    # Half of the tests for each pair, so that each of the four ways is used by many.
    return (BOTH, CROSSED)[len(definition.name) % 2]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "client_way" in metafunc.fixturenames:
        metafunc.parametrize("client_way", _ways(metafunc.definition), ids="-".join)


@pytest.fixture
def transport(client_way: tuple[Transport, Era]) -> Transport:
    return client_way[0]


@pytest.fixture
def era(client_way: tuple[Transport, Era]) -> Era:
    return client_way[1]


@pytest.fixture
def connect(skills: Path, transport: Transport, era: Era) -> Connect:
    """Connect to a server process that serves `skills`, over each transport in each era."""

    @asynccontextmanager
    async def connect(
        subscribe: tuple[str, ...] = (), *, client_name: str = PROGRAM, **settings: str
    ) -> AsyncGenerator[Session]:
        if transport == "stdio":
            command, *arguments = server_command(skills)
            parameters = StdioServerParameters(
                command=command, args=arguments, cwd=REPOSITORY, env=server_environment(**settings)
            )
            async with open_session(parameters, era, subscribe, client_name=client_name) as session:
                yield session
            return
        async with (
            http_server(skills, **settings) as url,
            open_session(url, era, subscribe, client_name=client_name) as session,
        ):
            yield session

    return connect


@asynccontextmanager
async def _nothing_blocks() -> AsyncGenerator[None]:
    """Fail if the product blocks the event loop, for example by waiting for a disk or a lock."""
    with blockbuster_ctx(scanned_modules=["server", "skills_core"]) as blocking:
        # The stat of a local file takes less time than the switch to a thread.
        blocking.functions["os.stat"].can_block_in("server/hosting/verified_reader.py", "_from_memory")
        yield


@pytest.fixture
def in_memory() -> ConnectHosted:
    """Connect to a server in this process, for rules that do not depend on the transport."""

    @asynccontextmanager
    async def connect(
        skills: Path,
        *,
        watch: bool = True,
        client_name: str = PROGRAM,
        modern: bool = False,
        on_sample: Any = None,
        **settings: Any,
    ) -> AsyncGenerator[HostedSession]:
        library = Library(explicit_sources([skills]), current_environment)
        watching = WatchMode.AUTO if watch else WatchMode.OFF
        host = Host(library, make_settings(watch=watching, watch_debounce_ms=60, **settings))
        mode: ConnectMode = "2026-07-28" if modern else "legacy"
        name = Implementation(name=client_name, version="99.0")
        session: HostedSession

        async def on_message(message: object) -> None:
            await session.on_message(message)

        server = SkillServer(host, local=True)
        async with (
            _nothing_blocks(),
            anyio.create_task_group() as tasks,
            server.exchanges.serving(),
            Client(
                server,
                mode=mode,
                message_handler=on_message,
                sampling_callback=on_sample,
                client_info=name,
                cache=None,
            ) as client,
        ):
            tasks.start_soon(host.follow)
            session = HostedSession(client, "modern" if modern else "handshake", host=host)
            await anyio.wait_all_tasks_blocked()
            yield session
            tasks.cancel_scope.cancel()

    return connect
