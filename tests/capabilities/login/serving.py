"""Serve with a login in this process, on a socket whose address is the audience."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from server.config.machine import current_environment
from server.config.settings.server import Transport
from server.hosting.host import Host
from server.hosting.views import role_rule
from server.protocol.server import SkillServer
from server.requests import Records
from server.transport.http import HttpServer
from server.transport.listening import listen
from skills_core.disk.sources import explicit_sources
from skills_core.live.library import Library
from skills_core.live.watch_options import WatchMode
from tests.server.settings import make_settings


def write_skill(folder: Path) -> Path:
    skill = folder / "greeting"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: greeting\ndescription: Greets.\n---\nSay hello.\n", encoding="utf-8")
    return folder


@asynccontextmanager
async def serving(skills: Path, **options: Any) -> AsyncIterator[str]:
    """Yield the URL of the MCP endpoint, which is `login_audience` where an issuer is set.

    `records` may be among the options.
    """
    records: Records | None = options.pop("records", None)
    given = {"watch": WatchMode.OFF, "usage": False, "transport": Transport.HTTP, "port": 0, **options}
    with listen(make_settings(port=0).http) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        if "login_issuer" in given:
            given.setdefault("login_audience", url)
        settings = make_settings(**given)
        library = Library(explicit_sources([skills]), current_environment)
        host = Host(library, settings, rule=role_rule(settings.access))
        server = SkillServer(host, local=False, records=records)
        running = HttpServer(server, host)
        async with anyio.create_task_group() as tasks, server.exchanges.serving():

            async def serve() -> None:
                await running.serve(sockets=[listener])

            tasks.start_soon(serve)
            async with anyio.create_task_group() as beside:
                beside.start_soon(server.runs.run)
                beside.start_soon(running.keep_login)
                yield url
                beside.cancel_scope.cancel()
            running.should_exit = True
