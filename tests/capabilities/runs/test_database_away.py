"""What callers learn when PostgreSQL goes away under a server, or under a command, and when it is back."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from tests.conftest import MakeSkill
from tests.core.runs.durable.conftest import away, own_cluster
from tests.core.runs.durable.postgres import Away, PrivateCluster
from tests.model_endpoint import Hang, ModelEndpoint
from tests.server.cli.test_cli import run
from tests.server.sessions import http_server

__all__ = ["away", "own_cluster"]

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")]

AWAY = ["stopped", "suspended"]
PATIENCE = 40.0
"""Far less than a database is away, and more than the ten seconds that a call may take on a busy machine."""


async def call(client: Client, message: str) -> Any:
    with anyio.fail_after(PATIENCE):
        return await client.call_tool("run_skill", {"name": "noter", "message": message})


@pytest.mark.parametrize("how", AWAY)
async def test_callers_are_told_and_not_kept_while_the_database_is_away_and_runs_go_on_when_it_is_back(
    own_cluster: PrivateCluster,
    away: Away,
    make_skill: MakeSkill,
    skills: Path,
    endpoint: ModelEndpoint,
    tmp_path: Path,
    how: str,
) -> None:
    make_skill("noter", body="Note it.")
    hang = Hang(then="noted")
    endpoint.script = [hang, "noted again"]
    store = own_cluster.new_database()
    settings = {
        "SKILLSERVE_TOOLS": "run_skill",
        "SKILLSERVE_MODEL": endpoint.model,
        "SKILLSERVE_RUN_STORE": store,
        "SKILLSERVE_RUN_LEASE_SECONDS": "4",
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    answers: list[Any] = []

    async with http_server(skills, **settings) as url, Client(url, mode="2026-07-28", cache=None) as client:

        async def first() -> None:
            answers.append(await client.call_tool("run_skill", {"name": "noter", "message": "one"}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first)
            with anyio.fail_after(PATIENCE):
                await anyio.to_thread.run_sync(endpoint.asked.wait)
            away.go(how)
            # More of them than a user may have in progress: none keeps its place.
            for number in range(3):
                async with anyio.create_task_group() as calls:
                    for each in range(10):
                        calls.start_soon(refused, client, f"{number}.{each}", store)
        (under_way,) = answers
        assert under_way.is_error
        text = under_way.content[0].text
        assert "its record of runs cannot be reached now" in text
        assert "goes on when the database is back" in text
        assert str(own_cluster.url("")) not in text
        away.back()
        hang.go.set()
        with anyio.fail_after(PATIENCE):
            while (again := await call(client, "two")).is_error:  # noqa: ASYNC110 - the server tries by itself
                await anyio.sleep(0.2)
        assert "noted" in again.content[0].text
        with anyio.fail_after(PATIENCE):
            while {trace["status"] for trace in traces(tmp_path)} != {"completed"}:  # noqa: ASYNC110 - a process writes
                await anyio.sleep(0.2)
    # The calls that were refused have left no run behind.
    assert sorted(trace["request"] for trace in traces(tmp_path)) == ["one", "two"]


async def refused(client: Client, message: str, store: str) -> None:
    result = await call(client, message)
    assert result.is_error
    assert "is not started. Try again" in result.content[0].text
    assert store not in result.content[0].text


def traces(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in (folder / "state/skillserve/runs").glob("*.json")]


@pytest.mark.parametrize("how", AWAY)
def test_a_command_says_that_the_database_is_away_and_where_it_looked(
    own_cluster: PrivateCluster,
    away: Away,
    make_skill: MakeSkill,
    skills: Path,
    endpoint: ModelEndpoint,
    tmp_path: Path,
    how: str,
) -> None:
    make_skill("noter", body="Note it.")
    endpoint.script = ["noted"]
    settings = {"XDG_STATE_HOME": str(tmp_path / "state"), "SKILLSERVE_RUN_STORE": own_cluster.new_database()}

    def perform(*arguments: object) -> subprocess.CompletedProcess[str]:
        return run(*arguments, **settings)

    assert perform("run", "noter", "now", skills, "--model", endpoint.model).stdout == "noted\n"
    away.go(how)
    began = perform("run", "noter", "now", skills, "--model", endpoint.model)
    assert began.returncode != 0
    assert "Traceback" not in began.stderr
    listed = perform("runs", "list")
    assert "noter" in listed.stdout  # from the traces
    for done in (began, listed):
        assert "cannot be used" in done.stderr
        assert "Check that PostgreSQL runs there" in done.stderr
    cancelled = perform("runs", "cancel", "any")
    assert cancelled.returncode != 0
    assert "Check that PostgreSQL runs there" in cancelled.stderr
    away.back()
    assert perform("run", "noter", "now", skills, "--model", endpoint.model).stdout == "noted\n"
