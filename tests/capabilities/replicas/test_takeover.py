"""The runs of a replica that dies or freezes are completed by another one, without anything done twice."""

from __future__ import annotations

import json
import signal
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from mcp import Client

pytest.importorskip("dbos", reason="the extra `run` is not installed")

from skills_core.testing import Call
from tests.capabilities.replicas.group import group
from tests.capabilities.replicas.redis_server import RedisServer
from tests.conftest import write_skill
from tests.core.runs.durable.conftest import cluster
from tests.core.runs.durable.postgres import PrivateCluster
from tests.model_endpoint import Hang, ModelEndpoint

__all__ = ["cluster"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals"),
]

TOOL = """tools:
- name: note
  description: Notes.
  script: note.py
  parameters: {type: object, properties: {}}
"""


async def call(url: str) -> None:
    # The replica ends before it answers, so the connection fails.
    with suppress(Exception):
        async with Client(url, mode="2026-07-28", cache=None) as client:
            await client.call_tool("run_skill", {"name": "noter", "message": "now"})


def outputs(state: Path) -> list[str]:
    """Return the outputs of the runs whose traces say that they are completed."""
    traces = [json.loads(path.read_text()) for path in (state / "skillserve/runs").glob("*.json")]
    return [trace["output"] for trace in traces if trace["status"] == "completed"]


@pytest.mark.parametrize("how", ["SIGKILL", "SIGSTOP"])
async def test_another_replica_completes_the_run_of_one_that_is_killed_or_frozen(
    how: str, redis_server: RedisServer, cluster: PrivateCluster, skills: Path, endpoint: ModelEndpoint, tmp_path: Path
) -> None:
    notes, state = tmp_path / "notes", tmp_path / "state"
    script = f"open({str(notes)!r}, 'a').write('noted\\n'); print('noted')"
    write_skill(skills, "noter", fields=TOOL, files={"note.py": script.encode()})
    held = Hang(then="it is noted")
    endpoint.script = [Call("note"), held, "it is noted"]
    settings = {
        "SKILLSERVE_TOOLS": "run_skill",
        "SKILLSERVE_MODEL": endpoint.model,
        "SKILLSERVE_SKILL_TOOLS": "noter/*",
        "SKILLSERVE_SCRIPT_WORKSPACE": str(tmp_path),
        "SKILLSERVE_RUN_STORE": cluster.new_database(),
        "XDG_STATE_HOME": str(state),
    }
    async with group(skills, redis_server, settings, settings, settings) as members, anyio.create_task_group() as tasks:
        tasks.start_soon(call, members[0].url)
        with anyio.fail_after(60):
            while len(endpoint.requests) < 2:  # noqa: ASYNC110 - another process asks
                await anyio.sleep(0.05)
        members[0].send(getattr(signal, how))
        with anyio.fail_after(90):
            while not outputs(state):  # noqa: ASYNC110 - another process writes it
                await anyio.sleep(0.1)
        # A replica that wakes up late gets the model's answer too, and has lost the run.
        held.go.set()
        members[0].send(signal.SIGCONT) if how == "SIGSTOP" else None
        tasks.cancel_scope.cancel()
    assert outputs(state) == ["it is noted"]
    # The recorded answer of the model and the tool call were not repeated.
    assert len(endpoint.requests) == 3
    assert notes.read_text() == "noted\n"
