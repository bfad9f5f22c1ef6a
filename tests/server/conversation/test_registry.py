"""When a registry accepts work, and how much at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken

from server.config.machine import current_environment
from server.config.settings.model import Settings
from server.conversation.client_exchange import ClientExchange, ExchangeLimits
from server.conversation.errors import RunEndedError
from server.conversation.registry import ExchangeRegistry
from server.hosting.host import Host
from skills_core.disk.sources import explicit_sources
from skills_core.live.library import Library
from tests.server.conversation.clients import Callbacks, Connection, client_for, echo
from tests.server.conversation.scripted_server import ScriptedServer
from tests.server.conversation.simulation import VERSIONS, Call, Context


def hosted(skills: Path, log: Path, limits: ExchangeLimits) -> ScriptedServer:
    host = Host(Library(explicit_sources([skills]), current_environment), Settings())
    return ScriptedServer(host, log, limits, local=True)


async def test_more_runs_than_allowed_are_refused_until_one_ends(skills: Path, log: Path) -> None:
    server, callbacks = hosted(skills, log, ExchangeLimits(concurrent=1)), Callbacks(sample=echo)
    async with server.exchanges.serving(), client_for(server, "handshake", callbacks) as client:
        connection = Connection(client, "handshake", callbacks, log)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.run, {"hang": 0})
            await connection.until_logged("begun")
            refused: Any = await connection.run({"sample": "a"})
            assert refused.is_error
            assert "already has 1 runs" in refused.content[0].text
            tasks.cancel_scope.cancel()
        await connection.until_logged("cancelled")
        assert await connection.said({"sample": "a"}) == ["said a"]


async def test_no_work_is_accepted_before_or_after_serving(skills: Path, log: Path) -> None:
    server = hosted(skills, log, ExchangeLimits())
    async with client_for(server, "handshake", Callbacks()) as client:
        async with server.exchanges.serving():
            assert not (await client.call_tool("run_skill", {"steps": []})).is_error
        assert (await client.call_tool("run_skill", {"steps": []})).is_error


async def test_one_user_leaves_runs_to_the_others() -> None:
    limits = ExchangeLimits(concurrent=3, concurrent_per_principal=1)
    exchanges, release = ExchangeRegistry(limits), anyio.Event()

    async def wait(_: ClientExchange) -> dict[str, Any]:
        await release.wait()
        return {}

    async def call(name: str, answers: list[str]) -> None:
        user = AccessToken(token="t", client_id="app", scopes=[], subject=name)  # noqa: S106 - made up
        auth_context_var.set(AuthenticatedUser(user))
        request: Any = Call(0, None)
        context: Any = Context({"name": "run_skill"}, request, VERSIONS["modern"], None)  # type: ignore[arg-type]
        try:
            await exchanges.handle_call(context, {}, wait)
        except RunEndedError as error:
            answers.append(f"{name}: {error}")
        else:
            answers.append(f"{name} was served")

    answers: list[str] = []
    async with exchanges.serving(), anyio.create_task_group() as tasks:
        for name in ("anna", "anna", "ben"):
            tasks.start_soon(call, name, answers)
        await anyio.wait_all_tasks_blocked()
        assert [answer.partition(",")[0] for answer in answers] == ["anna: you already have 1 runs"]
        release.set()
        await anyio.wait_all_tasks_blocked()
        await call("anna", answers)
    assert sorted(answers[1:]) == ["anna was served", "anna was served", "ben was served"]
