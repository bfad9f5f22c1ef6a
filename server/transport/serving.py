"""Run a server: the transport that the settings name, beside the tasks that watch the library and keep runs."""

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
from server.listing.runs import needs_event_streams, offers_runs
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

# Addresses to listen on that a client cannot connect to.
_ANY_ADDRESS = frozenset({"0.0.0.0", "[::]"})  # noqa: S104 - compared, not bound

_POLLS_AFTER_EOF = 20
# 10 ms each, so that cancellations which the client sent before it closed stdin are processed.

logger = logging.getLogger(__name__)


def serve(library: Library, settings: Settings, files: Sequence[Path] = (), usage: Usage | None = None) -> None:
    """Serve `library`, whose gates depend on `files`, until the client closes stdin or a signal comes.

    `usage` counts how often skills are used, earlier servers included.

    Raises:
        AddressInUseError: the server cannot listen on the HTTP address.
    """
    # Only runs make spans, so a server without runs does not import the tracing libraries.
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
        server = HttpServer(SkillServer(host, local=False), host, streams=needs_event_streams(settings))
        # Outermost, so that a signal ends the process only after everything inside has been cleaned up.
        with server.stopped_by_signals(), spans, admin_socket(runtime_folders(), port) as admin:
            _announce(library, settings, port)
            if not checks_host(settings.http):
                logger.warning("requests with any Host header are accepted; name the allowed hosts with --allowed-host")
            anyio.run(_serve_http, host, server, listener, admin)


async def _serve_stdio(host: Host) -> None:
    from server.transport.stdio import serve_stdio

    server = SkillServer(host, local=True)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.follow)
        tasks.start_soon(host.usage.run)
        tasks.start_soon(server.runs.run)
        tasks.start_soon(_cancel_when_asked_to_stop, server, tasks.cancel_scope)
        tasks.start_soon(_reload_when_asked, host)
        async with server.exchanges.serving():
            await serve_stdio(server, at_end=partial(_on_stdin_closed, server))
        # The outcome of cancelled runs is recorded by now.
        tasks.cancel_scope.cancel()


async def _on_stdin_closed(server: SkillServer) -> None:
    """Stop the exchanges that wait for the client, which has closed stdin."""
    if server.exchanges.is_busy:
        # The client's last cancellations are processed first; the next server continues all other runs.
        for _ in range(_POLLS_AFTER_EOF):
            await anyio.sleep(0.01)
    server.runs.close()
    server.exchanges.client_disconnected()


async def _cancel_when_asked_to_stop(server: SkillServer, scope: anyio.CancelScope) -> None:
    """Stop cleanly on SIGTERM and SIGINT; the first process of a container ignores SIGTERM without a handler."""
    if sys.platform == "win32":
        return
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
        async for _ in received:
            server.runs.close()
            scope.cancel()


async def _reload_when_asked(host: Host) -> None:
    """Reload all skills on SIGHUP, for servers that do not watch the disk."""
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
        tasks.start_soon(host.usage.run)
        tasks.start_soon(server.runs.run)
        tasks.start_soon(_reload_when_asked, host)
        if admin is not None:
            tasks.start_soon(serve_locally, host, admin)
        async with server.exchanges.serving():
            await server.serve(sockets=[listener])
        tasks.cancel_scope.cancel()


def _announce(library: Library, settings: Settings, port: int) -> None:
    """Print to stderr what is served, where, and how to connect."""
    counts = Counter(str(skill.state) for skill in library.catalog.skills)
    states = ", ".join(f"{counts[state]} {state}" for state in ("active", "excluded", "shadowed", "invalid"))
    name = f"[{settings.http.host}]" if ":" in settings.http.host else settings.http.host
    url = f"http://{'localhost' if name in _ANY_ADDRESS else name}:{port}{settings.http.path}"
    lines = [
        f"skillserve {__version__} serves {_roots(library)} ({states})",
        f"  address         {url}",
        f"  Claude Code     claude mcp add --transport http skills {url}",
        f'  other clients   {{"mcpServers": {{"skills": {{"type": "http", "url": "{url}"}}}}}}',
        "  stop            Ctrl-C",
    ]
    print("\n".join(lines), file=sys.stderr, flush=True)  # noqa: T201 - for people, not a log line


def _roots(library: Library) -> str:
    sources = library.catalog.sources
    present = [str(found.source.root) for found in sources if not found.source.optional or found.exists]
    return ", ".join(present) or "the default directories, none of which exists yet"
