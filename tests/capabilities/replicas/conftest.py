"""A Redis for each test that needs one, where the system has its program."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("redis", reason="the extra `team` is not installed")

from tests.capabilities.replicas.redis_server import RedisServer, program


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    command = program()
    if command is None:
        pytest.skip("there is no Redis server on this machine")
    server = RedisServer(command)
    yield server
    server.remove()
