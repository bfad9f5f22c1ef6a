"""Run a server: the transport that the settings name, beside the tasks that watch the library and keep runs."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio

from server import __version__
from server.auditlog.recording import recording
from server.config.machine import runtime_folders
from server.config.settings import LogFormat, Settings, Transport
from server.history.at_start import record_edits
from server.hosting.host import Host
from server.hosting.role_views import role_rule
from server.listing.runs import needs_event_streams, offers_runs
from server.operation.records import Records
from server.operation.text_logs import prepare_logs
from server.protocol.early_answers import EarlyAnswers
from server.protocol.schedule_prompts import SchedulePrompts
from server.replicas.errors import NO_CLIENT, ReplicaSettingsError
from server.run.telemetry import can_trace, traced
from server.transport.early_stdio import answer_while_loading
from server.transport.signals import interrupted_by_sigterm, reload_when_asked
from server.transport.standard_pipes import can_wait_for, claimed_pipes
from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from server.hosting.usage import Usage
    from server.replicas.replica import Replica
    from server.transport.early_probes import EarlyListener
    from server.transport.hang_ups import HangUps
    from server.transport.http import HttpServer
    from server.transport.standard_pipes import Opening
    from skills_core.library import Library

__all__ = ["serve"]

# Addresses to listen on that a client cannot connect to.
_ANY_ADDRESS = frozenset({"0.0.0.0", "[::]"})  # noqa: S104 - compared, not bound

logger = logging.getLogger(__name__)


def serve(
    library: Library,
    settings: Settings,
    files: Sequence[Path] = (),
    usage: Usage | None = None,
    early: EarlyListener | None = None,
) -> None:
    """Serve `library`, whose gates depend on `files`, until the client closes stdin or a signal comes.

    `usage` counts how often skills are used, earlier servers included. `early` is a listener that answers probes until
    now, and has connections that wait.

    Raises:
        AddressInUseError: the server cannot listen on the HTTP address.
        AuditLogError: the settings demand an audit log, which cannot be written.
    """
    records = Records()
    if settings.server.transport is Transport.STDIO:
        with _recording(settings, records):
            _serve_stdio(Host(library, settings, files, usage, rule=role_rule(settings.access)), records)
        return
    from server.admin.sockets import admin_socket
    from server.protocol.server import SkillServer
    from server.transport.allowed_names import name_faults
    from server.transport.http import HttpServer, checks_host, listen, require_protection

    require_protection(settings)
    prepare_logs()
    _collect_garbage()
    listener, waiting = early.take() if early is not None else (listen(settings.http), [])
    with listener:
        port = listener.getsockname()[1]
        host = Host(library, settings, files, usage, rule=role_rule(settings.access))
        replica = _replica(host)
        skill_server = SkillServer(host, local=False, records=records)
        if replica is not None:
            replica.share(skill_server.exchanges)
        server = HttpServer(skill_server, host, streams=needs_event_streams(settings), waiting=waiting, replica=replica)
        # Outermost, so that a signal ends the process only after everything inside has been cleaned up.
        with (
            server.stopped_by_signals(),
            _recording(settings, records),
            admin_socket(runtime_folders(), port) as admin,
        ):
            _announce(library, settings, port)
            if not checks_host(settings.http):
                logger.warning("requests with any Host header are accepted; name the allowed hosts with --allowed-host")
            for key, _, fault in name_faults(settings.http):
                logger.warning("http.%s: %s", key, fault)
            anyio.run(_serve_http, host, server, listener, admin, replica, None if early is None else early.hang_ups)


@contextmanager
def _recording(settings: Settings, records: Records) -> Iterator[None]:
    """Record requests within the block wherever the settings and the environment say."""
    if settings.logging.format is LogFormat.JSON:
        from server.operation.json_logs import log_request

        records.add(log_request)
    with traced(os.environ if _wants_spans(settings) else {}, _report) as exported:
        if exported:
            from server.operation.spans import RequestTracer

            records.tracer = RequestTracer()
        # Within the export of spans, because the last anchor of the audit log is one.
        with recording(settings, records):
            yield


def _wants_spans(settings: Settings) -> bool:
    """Tell whether to look for a collector of spans.

    The tracing libraries would delay the start of a server over stdio, so only one that has runs imports them.
    """
    if settings.server.transport is Transport.HTTP:
        return can_trace()
    return offers_runs(settings) or settings.schedules.enabled


def _report(problem: str) -> None:
    logger.warning("%s", problem)


def _serve_stdio(host: Host, records: Records) -> None:
    """Serve over stdio; where stdin and stdout are pipes, answer the first requests while the SDK is imported."""
    # Not every system can wait for a terminal together with other descriptors, and a person is in no such hurry.
    if host.views_differ or os.isatty(0) or not (can_wait_for(0) and can_wait_for(1)):
        run = _load_stdio_server()
        _collect_garbage()
        run(host, None, records, None)
        return
    with claimed_pipes() as (source, sink):
        with interrupted_by_sigterm():
            schedules = SchedulePrompts(host)
            answers = EarlyAnswers(host, schedules)
            opening = answer_while_loading(_load_stdio_server, answers.answer, source, sink)
        _collect_garbage()
        _load_stdio_server()(host, opening, records, schedules)


def _load_stdio_server() -> Callable[[Host, Opening | None, Records, SchedulePrompts | None], None]:
    from server.transport.stdio_server import run

    return run


def _collect_garbage() -> None:
    """Collect garbage from here on, except what the imports made, which lives as long as the process."""
    gc.freeze()
    gc.enable()


def _replica(host: Host) -> Replica | None:
    """Return this server as one of several replicas, None if it is the only one.

    Raises:
        ReplicaSettingsError: the Redis client is not installed, or the settings cannot be used.
    """
    if not host.settings.replicas.enabled:
        return None
    try:
        from server.replicas.replica import Replica
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "redis":
            raise
        raise ReplicaSettingsError(NO_CLIENT) from None
    return Replica(host)


async def _serve_http(
    host: Host,
    server: HttpServer,
    listener: socket.socket,
    admin: socket.socket | None,
    replica: Replica | None,
    hang_ups: HangUps | None,
) -> None:
    import asyncio

    from server.transport.accept_faults import AcceptFaults
    from server.transport.http import serve_locally

    asyncio.get_running_loop().set_exception_handler(AcceptFaults())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.follow)
        tasks.start_soon(host.usage.run)
        tasks.start_soon(host.texts.run)
        tasks.start_soon(server.runs.run)
        tasks.start_soon(server.keep_login)
        tasks.start_soon(server.schedules.announce)
        tasks.start_soon(record_edits, host.library.sources, host.settings, host.on_change)
        tasks.start_soon(reload_when_asked, host, hang_ups)
        if replica is not None:
            tasks.start_soon(replica.run)
        if admin is not None:
            tasks.start_soon(serve_locally, host, admin, server.records, server.operation.open())
        async with server.exchanges.serving():
            await server.serve(sockets=[listener])
        tasks.cancel_scope.cancel()


def _announce(library: Library, settings: Settings, port: int) -> None:
    """Print to stderr what is served, where, and how to connect."""
    counts = Counter(str(skill.state) for skill in library.catalog.skills)
    states = ", ".join(f"{counts[state]} {state}" for state in ("active", "excluded", "shadowed", "invalid"))
    name = f"[{settings.http.host}]" if ":" in settings.http.host else settings.http.host
    url = f"http://{'localhost' if name in _ANY_ADDRESS else name}:{port}{settings.http.path}"
    about = f"skillserve {__version__} serves {_roots(library)} ({states})"
    if settings.logging.format is LogFormat.JSON:
        # It is there at every level, as the text is.
        started = logger.makeRecord(logger.name, logging.INFO, __file__, 0, "%s at %s", (one_line(about), url), None)
        logger.handle(started)
        return
    lines = [
        about,
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
