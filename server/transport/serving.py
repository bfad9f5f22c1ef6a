"""Run a server: the transport that the settings name, beside the tasks that watch the library and keep runs."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections import Counter
from typing import TYPE_CHECKING

import anyio

from server import __version__
from server.auditlog.recording import recording
from server.config.machine import runtime_folders
from server.config.settings import Settings, Transport
from server.history.at_start import record_edits
from server.hosting.host import Host
from server.hosting.role_views import role_rule
from server.listing.runs import needs_event_streams, offers_runs
from server.operation.records import Records
from server.protocol.early_answers import EarlyAnswers
from server.run.telemetry import traced
from server.transport.early_stdio import answer_while_loading
from server.transport.signals import interrupted_by_sigterm, reload_when_asked
from server.transport.standard_pipes import can_wait_for, claimed_pipes

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from server.hosting.usage import Usage
    from server.transport.http import HttpServer
    from server.transport.standard_pipes import Opening
    from skills_core.library import Library

__all__ = ["serve"]

# Addresses to listen on that a client cannot connect to.
_ANY_ADDRESS = frozenset({"0.0.0.0", "[::]"})  # noqa: S104 - compared, not bound

logger = logging.getLogger(__name__)


def serve(library: Library, settings: Settings, files: Sequence[Path] = (), usage: Usage | None = None) -> None:
    """Serve `library`, whose gates depend on `files`, until the client closes stdin or a signal comes.

    `usage` counts how often skills are used, earlier servers included.

    Raises:
        AddressInUseError: the server cannot listen on the HTTP address.
        AuditLogError: the settings demand an audit log, which cannot be written.
    """
    # Only runs make spans, so a server without runs does not import the tracing libraries.
    spans = traced(os.environ if offers_runs(settings) or settings.schedules.enabled else {})
    if settings.server.transport is Transport.STDIO:
        records = Records()
        with recording(settings, records), spans:
            _serve_stdio(Host(library, settings, files, usage, rule=role_rule(settings.access)), records)
        return
    from server.admin.sockets import admin_socket
    from server.protocol.server import SkillServer
    from server.transport.http import HttpServer, checks_host, listen, require_protection

    require_protection(settings)
    _collect_garbage()
    with listen(settings.http) as listener:
        port = listener.getsockname()[1]
        host = Host(library, settings, files, usage, rule=role_rule(settings.access))
        records = Records()
        server = HttpServer(
            SkillServer(host, local=False, records=records), host, streams=needs_event_streams(settings)
        )
        # Outermost, so that a signal ends the process only after everything inside has been cleaned up.
        with (
            server.stopped_by_signals(),
            recording(settings, records),
            spans,
            admin_socket(runtime_folders(), port) as admin,
        ):
            _announce(library, settings, port)
            if not checks_host(settings.http):
                logger.warning("requests with any Host header are accepted; name the allowed hosts with --allowed-host")
            anyio.run(_serve_http, host, server, listener, admin, records)


def _serve_stdio(host: Host, records: Records) -> None:
    """Serve over stdio; where stdin and stdout are pipes, answer the first requests while the SDK is imported."""
    # Not every system can wait for a terminal together with other descriptors, and a person is in no such hurry.
    if host.views_differ or os.isatty(0) or not (can_wait_for(0) and can_wait_for(1)):
        run = _load_stdio_server()
        _collect_garbage()
        run(host, None, records)
        return
    with claimed_pipes() as (source, sink):
        with interrupted_by_sigterm():
            opening = answer_while_loading(_load_stdio_server, EarlyAnswers(host).answer, source, sink)
        _collect_garbage()
        _load_stdio_server()(host, opening, records)


def _load_stdio_server() -> Callable[[Host, Opening | None, Records], None]:
    from server.transport.stdio_server import run

    return run


def _collect_garbage() -> None:
    """Collect garbage from here on, except what the imports made, which lives as long as the process."""
    gc.freeze()
    gc.enable()


async def _serve_http(
    host: Host, server: HttpServer, listener: socket.socket, admin: socket.socket | None, records: Records
) -> None:
    import asyncio

    from server.protocol.schedule_prompts import announce_schedules
    from server.transport.accept_faults import AcceptFaults
    from server.transport.http import serve_locally

    asyncio.get_running_loop().set_exception_handler(AcceptFaults())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.follow)
        tasks.start_soon(host.usage.run)
        tasks.start_soon(host.texts.run)
        tasks.start_soon(server.runs.run)
        tasks.start_soon(server.keep_login)
        tasks.start_soon(announce_schedules, host)
        tasks.start_soon(record_edits, host.library.sources, host.settings)
        tasks.start_soon(reload_when_asked, host)
        if admin is not None:
            tasks.start_soon(serve_locally, host, admin, records)
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
