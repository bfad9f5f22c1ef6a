"""Serve over HTTP in this process, with the routes of operators and the records of requests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2

from server.access import METRICS_ROLE
from server.config.machine import current_environment
from server.config.settings.server import Transport
from server.hosting.host import Host
from server.hosting.views import role_rule
from server.protocol.server import SkillServer
from server.requests import Records, RequestRecord
from server.transport.http import HttpServer
from server.transport.listening import listen
from skills_core import Library, explicit_sources
from skills_core.live.watch_options import WatchMode
from tests.server.settings import make_settings

__all__ = ["METRICS_ROLE", "MODERN_META", "Served", "bearer", "modern", "modern_headers", "serving", "until"]

MODERN_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
}


def modern(method: str, params: Mapping[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    """Return a request of the modern era."""
    given = {**(params or {}), "_meta": {**MODERN_META, **meta}}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": given}


def modern_headers(message: Mapping[str, Any], **more: str) -> dict[str, str]:
    """Return the headers that go with a request of the modern era."""
    params = message["params"]
    named = {"Mcp-Name": str(name)} if (name := params.get("name") or params.get("uri")) else {}
    return {
        "Accept": "application/json, text/event-stream",
        "Mcp-Protocol-Version": "2026-07-28",
        "Mcp-Method": message["method"],
        **named,
        **more,
    }


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a condition that a server brings about, by asking it again and again."""
    with anyio.fail_after(60):
        while not await holds():  # noqa: ASYNC110 - there is no event
            await anyio.sleep(0.02)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@dataclass(frozen=True)
class Served:
    """A server of this process, a client without a token, and the records of its requests."""

    url: str
    host: Host
    server: SkillServer
    running: HttpServer
    client: httpx2.AsyncClient
    found: list[RequestRecord]

    def at(self, path: str) -> str:
        """Return the URL of a route."""
        return self.url.removesuffix("/mcp") + path

    async def ask(self, method: str, params: Mapping[str, Any] | None = None, token: str = "") -> httpx2.Response:
        """Send a request of the modern era."""
        message = modern(method, params)
        headers = {**modern_headers(message), **(bearer(token) if token else {})}
        return await self.client.post(self.url, json=message, headers=headers)

    async def call(self, tool: str, token: str = "", /, **arguments: Any) -> httpx2.Response:
        """Call a tool in the modern era."""
        return await self.ask("tools/call", {"name": tool, "arguments": arguments}, token)


@asynccontextmanager
async def serving(
    skills: Path, *, streams: bool = False, records: Records | None = None, **options: Any
) -> AsyncGenerator[Served]:
    """Serve on a free port; `options` are settings. The URL is the audience of tokens unless they name another."""
    given = {"watch": WatchMode.OFF, "usage": False, "transport": Transport.HTTP, "port": 0, **options}
    found: list[RequestRecord] = []
    if records is None:
        records = Records()
        records.add(found.append)
    without_login = {name: value for name, value in given.items() if not name.startswith("login_")}
    with listen(make_settings(**without_login).http) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        if "login_issuer" in given:
            given.setdefault("login_audience", url)
        settings = make_settings(**given)
        library = Library(explicit_sources([skills]), current_environment)
        host = Host(library, settings, rule=role_rule(settings.access), records=records)
        server = SkillServer(host, local=False)
        running = HttpServer(server, host, streams=streams)
        async with anyio.create_task_group() as tasks, server.exchanges.serving():

            async def serve() -> None:
                await running.serve(sockets=[listener])

            tasks.start_soon(serve)
            async with anyio.create_task_group() as beside, httpx2.AsyncClient(timeout=60) as client:
                for part in (*host.parts, *host.http_parts):
                    beside.start_soon(part.run)
                yield Served(url, host, server, running, client, found)
                beside.cancel_scope.cancel()
            running.should_exit = True
