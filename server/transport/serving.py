"""Run a server: the transport that the settings name, beside the tasks that watch the library and keep runs."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections import Counter
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from server import __version__
from server.capabilities.auditlog.recording import recording
from server.capabilities.history.at_start import record_edits
from server.capabilities.replicas.errors import NO_CLIENT, ReplicaSettingsError
from server.capabilities.replicas.settings import ReplicaSettings
from server.capabilities.runs.offered import needs_event_streams, offers_runs
from server.capabilities.runs.telemetry import can_trace, traced
from server.capabilities.schedules.prompts import SchedulePrompts
from server.capabilities.schedules.settings import ScheduleSettings
from server.config.machine import runtime_folders
from server.config.settings.server import LogFormat, Transport
from server.hosting.host import Host
from server.hosting.views import role_rule
from server.logs.text_logs import prepare_logs
from server.protocol.early_answers import EarlyAnswers
from server.requests import Records
from server.transport.early_stdio import answer_while_loading, can_wait_for, claimed_pipes
from server.transport.signals import cancel_when_stopped, interrupted_by_sigterm, reload_when_asked
from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
    from pathlib import Path

    from server.capabilities.replicas.replica import Replica
    from server.config.settings.model import Settings
    from server.hosting.usage import UsageCounts
    from server.protocol.server import SkillServer
    from server.transport.early_stdio import Opening
    from server.transport.http import HttpServer
    from skills_core.live.library import Library

# Addresses to listen on that a client cannot connect to.
_ANY_ADDRESS = frozenset({"0.0.0.0", "[::]"})  # noqa: S104 - compared, not bound

_POLLS_AFTER_EOF = 20
# 10 ms each, so that cancellations which the client sent before it closed stdin are processed.

_CATCH_UP_SECONDS = 5

logger = logging.getLogger(__name__)


def serve(
    library: Library,
    settings: Settings,
    files: Sequence[Path] = (),
    usage: UsageCounts | None = None,
    listener: socket.socket | None = None,
) -> None:
    """Serve `library`, whose gates depend on `files`, until the client closes stdin or a signal comes.

    `usage` counts how often skills are used, earlier servers included. Over HTTP, clients connect to `listener`.

    Raises:
        AuditLogError: the settings demand an audit log, which cannot be written.
    """
    records = Records()
    host = Host(library, settings, files, usage, rule=role_rule(settings.access))
    if listener is not None:
        _serve_http(host, records, listener)
        return
    with _recording(settings, records):
        _serve_stdio(host, records)


async def _run_background(
    host: Host,
    server: SkillServer,
    *others: Callable[[], Coroutine[Any, Any, object]],
    caught_up: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Run the background tasks of both transports, and `others`, until cancelled.

    Changes are announced once the client has `caught_up`, so that it is notified of the first one.
    """
    tasks: list[Callable[[], Coroutine[Any, Any, object]]] = [host.usage.run, host.texts.run, server.runs.run, *others]
    async with anyio.create_task_group() as group:
        for task in tasks:
            group.start_soon(task)
        group.start_soon(record_edits, host.library.sources, host.settings, host.on_change)
        group.start_soon(reload_when_asked, host)
        if caught_up is not None:
            with anyio.move_on_after(_CATCH_UP_SECONDS):
                await caught_up()
        group.start_soon(host.follow)
        group.start_soon(server.schedules.announce)


@contextmanager
def _recording(settings: Settings, records: Records) -> Iterator[None]:
    """Record requests within the block wherever the settings and the environment say."""
    if settings.logging.format is LogFormat.JSON:
        from server.logs.json_logs import log_request

        records.add(log_request)
    with traced(os.environ if _wants_spans(settings) else {}, _report) as exported:
        if exported:
            from server.capabilities.operation.spans import RequestTracer

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
    return offers_runs(settings) or settings.section(ScheduleSettings).enabled


def _report(problem: str) -> None:
    logger.warning("%s", problem)


def _serve_stdio(host: Host, records: Records) -> None:
    """Serve over stdio; where stdin and stdout are pipes, answer the first requests while the SDK is imported."""
    # Not every system can wait for a terminal together with other descriptors, and a person is in no such hurry.
    if host.views_differ or os.isatty(0) or not (can_wait_for(0) and can_wait_for(1)):
        _import_stdio_server()
        _collect_garbage()
        anyio.run(_serve_one_client, host, None, records, None)
        return
    with claimed_pipes() as (source, sink):
        with interrupted_by_sigterm():
            schedules = SchedulePrompts(host)
            answers = EarlyAnswers(host, schedules)
            opening = answer_while_loading(_import_stdio_server, answers.answer, source, sink)
        _collect_garbage()
        anyio.run(_serve_one_client, host, opening, records, schedules)


def _import_stdio_server() -> None:
    import server.protocol.server
    import server.transport.stdio  # noqa: F401 - used once this is done


async def _serve_one_client(
    host: Host, opening: Opening | None, records: Records, schedules: SchedulePrompts | None
) -> None:
    """Serve until the client closes stdin or a signal comes; the first answers have listed the prompts of `schedules`.

    `opening` is as in `serve_stdio`.
    """
    from server.protocol.server import SkillServer
    from server.transport.stdio import Answered, serve_stdio

    server = SkillServer(host, local=True, records=records, schedules=schedules)
    answered = Answered(opening.silent, opening.streams) if opening else Answered()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(_run_background, host, server, caught_up=answered.wait))
        tasks.start_soon(cancel_when_stopped, tasks.cancel_scope, server.runs.close)
        async with server.exchanges.serving():
            await serve_stdio(server, partial(_on_stdin_closed, server), opening, answered)
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


def _collect_garbage() -> None:
    """Collect garbage from here on, except what the imports made, which lives as long as the process."""
    gc.freeze()
    gc.enable()


def _replica(host: Host) -> Replica | None:
    """Return this server as one of several replicas, None if it is the only one.

    Raises:
        ReplicaSettingsError: the Redis client is not installed, or the settings cannot be used.
    """
    if not host.settings.section(ReplicaSettings).enabled:
        return None
    try:
        from server.capabilities.replicas.replica import Replica
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "redis":
            raise
        raise ReplicaSettingsError(NO_CLIENT) from None
    return Replica(host)


def _serve_http(host: Host, records: Records, listener: socket.socket) -> None:
    """Serve over HTTP until a signal comes."""
    from server.capabilities.operation.admin_sockets import admin_socket
    from server.protocol.server import SkillServer
    from server.transport.http import HttpServer
    from server.transport.listening import checks_host, name_faults

    prepare_logs()
    _collect_garbage()
    settings, port = host.settings, listener.getsockname()[1]
    replica = _replica(host)
    skill_server = SkillServer(host, local=False, records=records)
    if replica is not None:
        replica.share(skill_server.exchanges)
    server = HttpServer(skill_server, host, streams=needs_event_streams(settings), replica=replica)
    # Outermost, so that a signal ends the process only after everything inside has been cleaned up.
    with server.stopped_by_signals(), _recording(settings, records), admin_socket(runtime_folders(), port) as admin:
        _announce(host.library, settings, port)
        if not checks_host(settings.http):
            logger.warning("requests with any Host header are accepted; name the allowed hosts with --allowed-host")
        for key, _, fault in name_faults(settings.http):
            logger.warning("http.%s: %s", key, fault)
        anyio.run(_serve_clients, host, skill_server, server, listener, admin, replica)


async def _serve_clients(
    host: Host,
    skill_server: SkillServer,
    server: HttpServer,
    listener: socket.socket,
    admin: socket.socket | None,
    replica: Replica | None,
) -> None:
    import asyncio

    from server.transport.http import serve_locally
    from server.transport.listening import AcceptFaults

    asyncio.get_running_loop().set_exception_handler(AcceptFaults())
    others: list[Callable[[], Coroutine[Any, Any, object]]] = [server.keep_login]
    if replica is not None:
        others.append(replica.run)
    if admin is not None:
        others.append(partial(serve_locally, host, admin, skill_server.records, server.operation.open()))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_run_background, host, skill_server, *others)
        async with skill_server.exchanges.serving():
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
