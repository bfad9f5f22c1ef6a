"""Servers on one PostgreSQL database complete each other's interrupted runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest
from mcp import Client

from skills_core.testing import Call
from tests.conftest import MakeSkill
from tests.core.runs.durable.conftest import cluster
from tests.core.runs.durable.postgres import PrivateCluster
from tests.model_endpoint import Hang, ModelEndpoint
from tests.server.sessions import REPOSITORY, address, server_command, server_environment

__all__ = ["cluster"]

TOOL = """tools:
- name: note
  description: Notes.
  script: note.py
  parameters: {type: object, properties: {}}
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signal")
async def test_another_server_finishes_the_run_of_a_killed_server(
    cluster: PrivateCluster, make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    script = f"open({str(notes)!r}, 'a').write('noted\\n'); print('noted')"
    make_skill("noter", body="Note it, then say so.", fields=TOOL, files={"note.py": script.encode()})
    endpoint.script = [Call("note"), Hang(), "it is noted"]
    settings = {
        "SKILLSERVE_TOOLS": "run_skill",
        "SKILLSERVE_MODEL": endpoint.model,
        "SKILLSERVE_SKILL_TOOLS": "noter/*",
        "SKILLSERVE_SCRIPT_WORKSPACE": str(tmp_path),
        "SKILLSERVE_RUN_STORE": cluster.new_database(),
        "SKILLSERVE_RUN_LEASE_SECONDS": "4",
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    async with (
        _server(skills, settings) as (first, url),
        _server(skills, settings),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(_call, url)
        with anyio.fail_after(60):
            while len(endpoint.requests) < 2:  # noqa: ASYNC110 - another process asks
                await anyio.sleep(0.05)
        os.kill(first.pid, signal.SIGKILL)
        with anyio.fail_after(90):
            while not (found := _completed(tmp_path)):  # noqa: ASYNC110 - another process writes it
                await anyio.sleep(0.2)
        tasks.cancel_scope.cancel()
    (trace,) = found
    assert trace["output"] == "it is noted"
    # The recorded model answer and tool call were not repeated.
    assert len(endpoint.requests) == 3
    assert notes.read_text() == "noted\n"


async def _call(url: str) -> None:
    # The server is killed before it answers, so the connection fails.
    with suppress(Exception):
        async with Client(url, mode="2026-07-28", cache=None) as client:
            await client.call_tool("run_skill", {"name": "noter", "message": "now"})


@asynccontextmanager
async def _server(skills: Path, settings: dict[str, str]) -> AsyncGenerator[tuple[anyio.abc.Process, str]]:
    """Run a server process; yield it and its URL."""
    command = server_command(skills, "--transport", "http", "--port", "0")
    async with await anyio.open_process(
        command, cwd=REPOSITORY, env=server_environment(**settings), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        try:
            with anyio.fail_after(60):
                url = await address(process.stderr)
            yield process, url
        finally:
            with suppress(ProcessLookupError):
                process.kill()


def _completed(folder: Path) -> list[dict[str, Any]]:
    paths = (folder / "state/skillserve/runs").glob("*.json")
    return [trace for path in paths if (trace := json.loads(path.read_text()))["status"] == "completed"]
