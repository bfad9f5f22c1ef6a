"""Run a server: the transport that the settings name, with the library followed on the disk beside it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import anyio

from server import __version__
from server.admin.actions import log_reload
from server.config.machine import runtime_folders
from server.config.settings import Settings, Transport
from server.hosting.host import Host
from server.listing.runs import may_ask, offers_runs
from server.protocol.server import SkillServer
from server.run.telemetry import traced

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence
    from pathlib import Path

    from server.hosting.usage import Usage
    from server.transport.http import HttpServer
    from skills_core.library import Library

__all__ = ["serve"]

# Addresses that a client cannot connect to.
_EVERYWHERE = frozenset({"0.0.0.0", "[::]"})  # noqa: S104 - compared, not bound

_LAST_WORDS = 20
# How often others may go on before a client that closed stdin has said nothing more: what it said last is on its way.

logger = logging.getLogger(__name__)


def serve(library: Library, settings: Settings, files: Sequence[Path] = (), usage: Usage | None = None) -> None:
    """Serve `library`, whose gates depend on `files`, until the client (over stdio) or the user ends it.

    `usage` is how often its skills were used before, and takes note of the use from now on.

    Raises:
        AddressInUseError: the address for HTTP cannot be listened on.
    """
    # Who performs no skills has no spans that are worth the libraries for them.
    spans = traced(os.environ if offers_runs(settings) else {})
    if settings.server.transport is Transport.STDIO:
        with spans:
            anyio.run(_serve_stdio, Host(library, settings, files, usage))
        return
    from server.admin.sockets import admin_socket
    from server.transport.http import HttpServer, checks_host, listen

    with listen(settings.http) as listener:
        port = listener.getsockname()[1]
        host = Host(library, settings, files, usage)
        server = HttpServer(SkillServer(host, local=False), host, streams=may_ask(settings))
        # A signal that ends the process does so when all else has ended: nothing is left behind.
        with server.stopped_by_signals(), spans, admin_socket(runtime_folders(), port) as admin:
            _announce(library, settings, port)
            if not checks_host(settings.http):
                logger.warning("requests are taken under any Host name; name yours with --allowed-host")
            anyio.run(_serve_http, host, server, listener, admin)


async def _serve_stdio(host: Host) -> None:
    from server.transport.stdio import serve_stdio

    server = SkillServer(host, local=True)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.follow)
        tasks.start_soon(host.usage.keep)
        tasks.start_soon(server.runs.run)
        tasks.start_soon(_cancel_when_asked_to_stop, server, tasks.cancel_scope)
        tasks.start_soon(_reload_when_asked, host)
        async with server.exchanges.serving():
            await serve_stdio(server, at_end=partial(_hang_up, server))
        # What was cancelled is recorded by now.
        tasks.cancel_scope.cancel()


async def _hang_up(server: SkillServer) -> None:
    """End what waits for the client, which sends nothing any more."""
    if server.exchanges.is_busy:
        # What it cancelled with its last words is cancelled; all else is continued by the next server.
        for _ in range(_LAST_WORDS):
            await anyio.sleep(0.01)
    server.runs.close()
    server.exchanges.client_disconnected()


async def _cancel_when_asked_to_stop(server: SkillServer, scope: anyio.CancelScope) -> None:
    """End orderly on SIGTERM, which the first process of a container ignores unless it is handled."""
    if sys.platform == "win32":
        return
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
        async for _ in received:
            server.runs.close()
            scope.cancel()


async def _reload_when_asked(host: Host) -> None:
    """Compare everything with the disk on SIGHUP, as where nothing is watched nobody else does."""
    if sys.platform == "win32":
        return
    with anyio.open_signal_receiver(signal.SIGHUP) as received:
        async for _ in received:
            change = await host.try_reload()
            if change is not None:
                log_reload(change)


async def _serve_http(host: Host, server: HttpServer, listener: socket.socket, admin: socket.socket | None) -> None:
    from server.transport.accept_faults import AcceptFaults
    from server.transport.http import serve_locally

    asyncio.get_running_loop().set_exception_handler(AcceptFaults())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.follow)
        tasks.start_soon(host.usage.keep)
        tasks.start_soon(server.runs.run)
        tasks.start_soon(_reload_when_asked, host)
        if admin is not None:
            tasks.start_soon(serve_locally, host, admin)
        async with server.exchanges.serving():
            await server.serve(sockets=[listener])
        tasks.cancel_scope.cancel()


def _announce(library: Library, settings: Settings, port: int) -> None:
    """Say on stderr what is served, where, and how to connect."""
    counts = Counter(str(skill.state) for skill in library.catalog.skills)
    states = ", ".join(f"{counts[state]} {state}" for state in ("active", "excluded", "shadowed", "invalid"))
    name = f"[{settings.http.host}]" if ":" in settings.http.host else settings.http.host
    url = f"http://{'localhost' if name in _EVERYWHERE else name}:{port}{settings.http.path}"
    lines = [
        f"skillserve {__version__} serves {_roots(library)} ({states})",
        f"  address         {url}",
        f"  Claude Code     claude mcp add --transport http skills {url}",
        f'  other clients   {{"mcpServers": {{"skills": {{"type": "http", "url": "{url}"}}}}}}',
        "  stop            Ctrl-C",
    ]
    print("\n".join(lines), file=sys.stderr, flush=True)  # noqa: T201 - for people; logs have their own form


def _roots(library: Library) -> str:
    sources = library.catalog.sources
    present = [str(found.source.root) for found in sources if not found.source.optional or found.exists]
    return ", ".join(present) or "whatever comes into the default directories"
