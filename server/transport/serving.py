"""Run a server: the transport that the settings name, beside the tasks that watch the library and keep runs."""

from __future__ import annotations

import gc
import json
import logging
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from server import __version__
from server.capabilities import CAPABILITIES
from server.config.machine import own_command
from server.config.settings.server import LogFormat
from server.hosting.background import StoppedError, keep_index
from server.hosting.catalog_log import command_for, notices_of, served_from
from server.hosting.host import Host
from server.hosting.views import role_rule
from server.limits.descriptors import raise_descriptors
from server.logs.text_logs import prepare_logs
from server.protocol.early_answers import EarlyAnswers
from server.transport.client_commands import USUAL_NAME, claude_command, connect_command, login_header
from server.transport.early_stdio import answer_while_loading, can_wait_for, claimed_pipes
from server.transport.signals import cancel_when_stopped, interrupted_by_sigterm, reload_when_asked
from skills_core.diagnostics import counted, one_line

if TYPE_CHECKING:
    import socket

    from server.capability import ServerPart
    from server.config.settings.model import Settings
    from server.hosting.usage import UsageCounts
    from server.protocol.server import SkillServer
    from server.transport.early_stdio import Opening
    from server.transport.http import HttpServer
    from skills_core.live.library import Library

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
    report: Callable[[], None] = lambda: None,
) -> None:
    """Serve `library`, whose gates depend on `files`, until the client closes stdin or a signal comes.

    A library that is not complete is loaded meanwhile; `report` tells the operator of what is wrong in it then.
    `usage` counts how often skills are used, earlier servers included. Over HTTP, clients connect to `listener`.

    Raises:
        AuditLogError: the settings demand an audit log, which cannot be written.
    """
    host = Host(library, settings, files, usage, rule=role_rule(settings.access))
    host.report = report
    try:
        if listener is not None:
            _serve_http(host, listener)
            return
        with _surrounded(host, host.parts):
            _log_served(host)
            _serve_stdio(host)
    finally:
        # The interpreter collects garbage when it ends, which takes seconds with the objects of 100,000 skills.
        gc.freeze()


def _log_served(host: Host) -> None:
    """Log what is served over stdio, and tell a person at the terminal what this waits for."""
    notices = "".join(f"; {heading}: {text}" for heading, text in _notices(host.library))
    logger.info("skillserve %s %s over stdio%s", __version__, _served(host.library), notices)
    if os.isatty(0) and host.settings.logging.format is not LogFormat.JSON:
        lines = [
            "This waits for a client, which starts it and writes messages to its standard input.",
            f"  connect         {command_for(host.everything, 'connect')}",
            f"  over HTTP       {command_for(host.everything, 'serve --transport http')}",
            "  stop            Ctrl-C",
        ]
        print("\n".join(lines), file=sys.stderr, flush=True)  # noqa: T201 - for people, not a log line


@contextmanager
def _surrounded(host: Host, parts: Iterable[ServerPart], port: int | None = None) -> Iterator[None]:
    """Serve within the block, inside of what `parts` set up around a server; over HTTP it listens at `port`."""
    if host.settings.logging.format is LogFormat.JSON:
        from server.logs.json_logs import log_request

        host.records.add(log_request)
    with ExitStack() as stack:
        for part in parts:
            stack.enter_context(part.around(port))
        yield


async def _run_background(
    host: Host, parts: Iterable[ServerPart], caught_up: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Run the background tasks of both transports, and those of `parts`, until cancelled.

    Changes are announced once the client has `caught_up`, so that it is notified of the first one.
    """
    async with anyio.create_task_group() as group:
        group.start_soon(host.work)
        group.start_soon(keep_index, host.library, host.background.pause)
        group.start_soon(reload_when_asked, host)
        for part in parts:
            if not part.needs_skills:
                group.start_soon(part.run)
        if not host.library.is_complete:
            await _load(host)
        for part in parts:
            if part.needs_skills:
                group.start_soon(part.run)
        if caught_up is not None:
            with anyio.move_on_after(_CATCH_UP_SECONDS):
                await caught_up()
        group.start_soon(host.follow)
        for part in parts:
            group.start_soon(part.announce)


async def _load(host: Host) -> None:
    """Load the rest of the library, and tell the operator of it."""
    try:
        await host.load()
    except StoppedError:
        # The tasks are being cancelled.
        await anyio.sleep_forever()
    await anyio.to_thread.run_sync(host.report)


def _serve_stdio(host: Host) -> None:
    """Serve over stdio; where stdin and stdout are pipes, answer the first requests while the SDK is imported."""
    # Not every system can wait for a terminal together with other descriptors, and a person is in no such hurry.
    if host.views_differ or os.isatty(0) or not (can_wait_for(0) and can_wait_for(1)):
        _import_stdio_server()
        _collect_garbage()
        anyio.run(_serve_one_client, host, None)
        return
    with claimed_pipes() as (source, sink):
        with interrupted_by_sigterm():
            opening = answer_while_loading(_import_stdio_server, EarlyAnswers(host).answer, source, sink)
        _collect_garbage()
        anyio.run(_serve_one_client, host, opening)


def _import_stdio_server() -> None:
    import server.protocol.server
    import server.transport.stdio  # noqa: F401 - used once this is done


async def _serve_one_client(host: Host, opening: Opening | None) -> None:
    """Serve until the client closes stdin or a signal comes; `opening` is as in `serve_stdio`."""
    from server.protocol.server import SkillServer
    from server.transport.stdio import Answered, serve_stdio

    server = SkillServer(host, local=True)
    _attach(host.parts, server)
    answered = Answered(opening.silent, opening.streams) if opening else Answered()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_run_background, host, host.parts, answered.wait)
        tasks.start_soon(cancel_when_stopped, tasks.cancel_scope, server.close_parts)
        async with server.exchanges.serving():
            await serve_stdio(server, partial(_on_stdin_closed, server), opening, answered)
        # The outcome of cancelled runs is recorded by now.
        tasks.cancel_scope.cancel()


def _attach(parts: Iterable[ServerPart], server: SkillServer) -> None:
    for part in parts:
        part.attach(server)


async def _on_stdin_closed(server: SkillServer) -> None:
    """Stop the exchanges that wait for the client, which has closed stdin."""
    if server.exchanges.is_busy:
        # The client's last cancellations are processed first; the next server continues all other runs.
        for _ in range(_POLLS_AFTER_EOF):
            await anyio.sleep(0.01)
    server.close_parts()
    server.exchanges.client_disconnected()


def _collect_garbage() -> None:
    """Collect garbage from here on, except what the imports made, which lives as long as the process."""
    gc.freeze()
    gc.enable()


def _serve_http(host: Host, listener: socket.socket) -> None:
    """Serve over HTTP until a signal comes."""
    from server.protocol.server import SkillServer
    from server.transport.http import HttpServer
    from server.transport.listening import checks_host, name_faults

    prepare_logs()
    _collect_garbage()
    raise_descriptors()
    settings, port = host.settings, listener.getsockname()[1]
    parts = (*host.parts, *host.http_parts)
    skill_server = SkillServer(host, local=False)
    _attach(parts, skill_server)
    streams = any(each.asks_clients(settings) for each in CAPABILITIES if each.asks_clients is not None)
    server = HttpServer(skill_server, host, streams=streams)
    # Outermost, so that a signal ends the process only after everything inside has been cleaned up.
    with server.stopped_by_signals(), _surrounded(host, parts, port):
        _announce(host.library, settings, port)
        if not checks_host(settings.http):
            logger.warning("requests with any Host header are accepted; name the allowed hosts with --allowed-host")
        for key, _, fault in name_faults(settings.http):
            logger.warning("http.%s: %s", key, fault)
        anyio.run(_serve_clients, host, skill_server, server, listener)


async def _serve_clients(host: Host, skill_server: SkillServer, server: HttpServer, listener: socket.socket) -> None:
    import asyncio

    from server.transport.listening import AcceptFaults

    asyncio.get_running_loop().set_exception_handler(AcceptFaults())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_run_background, host, (*host.parts, *host.http_parts))
        async with skill_server.exchanges.serving():
            await server.serve(sockets=[listener])
        tasks.cancel_scope.cancel()


def _announce(library: Library, settings: Settings, port: int) -> None:
    """Print to stderr what is served, where, and how to connect."""
    from server.transport.listening import local_origin

    counts = Counter(str(skill.state) for skill in library.catalog.skills)
    states = ", ".join(f"{counts[state]} {state}" for state in ("active", "excluded", "shadowed", "invalid"))
    states = states if library.is_complete else "still being loaded"
    origin = local_origin(settings.http, port)
    url = origin + settings.http.path
    if settings.logging.format is LogFormat.JSON:
        # It is there at every level, as the text is.
        about = one_line(f"skillserve {__version__} serves {served_from(library)} ({states})")
        started = logger.makeRecord(logger.name, logging.INFO, __file__, 0, "%s at %s", (about, url), None)
        logger.handle(started)
        return
    lines = [
        f"skillserve {__version__} {_served(library)}",
        *(f"  {heading:<15} {text}" for heading, text in _notices(library)),
        f"  address         {url}",
        *_client_lines(url, settings),
        *(
            f"  {heading:<15} {one_line(text)}"
            for each in CAPABILITIES
            if each.start_lines is not None
            for heading, text in each.start_lines(settings, origin)
        ),
        "  stop            Ctrl-C",
    ]
    print("\n".join(lines), file=sys.stderr, flush=True)  # noqa: T201 - for people, not a log line


def _served(library: Library) -> str:
    source = one_line(served_from(library))
    if not library.is_complete:
        return f"serves the skills of {source}, which are still being loaded"
    return f"serves {counted(len(library.catalog.active), 'skill')} of {source}"


def _notices(library: Library) -> Iterable[tuple[str, str]]:
    """Return the notices of a catalog that is complete; later ones go to the log."""
    return notices_of(library.catalog) if library.is_complete else ()


def _client_lines(url: str, settings: Settings) -> Iterator[str]:
    """Yield how to connect clients; where users give them a token, with its header."""
    header = login_header(settings)
    entry: dict[str, object] = {"type": "http", "url": url}
    if header:
        name, _, value = header.partition(": ")
        entry["headers"] = {name: value}
    yield f"  Claude Code     {claude_command(url, header)}"
    yield f"  other clients   {connect_command(url, header, program=own_command())}"
    yield f"  by hand         {json.dumps({'mcpServers': {USUAL_NAME: entry}})}"
    if header:
        yield f"  login           instead of $TOKEN, a token that `{own_command()} token add NAME` prints"
