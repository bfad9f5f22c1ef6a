"""Run a server over stdio, beside the tasks that watch the library and keep runs."""

from __future__ import annotations

import signal
import sys
from functools import partial
from typing import TYPE_CHECKING

import anyio

from server.history.at_start import record_edits
from server.protocol.server import SkillServer
from server.transport.answered import Answered
from server.transport.signals import reload_when_asked
from server.transport.stdio import serve_stdio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from server.hosting.host import Host
    from server.operation.records import Records
    from server.protocol.schedule_prompts import SchedulePrompts
    from server.transport.standard_pipes import Opening

__all__ = ["run"]

_POLLS_AFTER_EOF = 20
# 10 ms each, so that cancellations which the client sent before it closed stdin are processed.

_CATCH_UP_SECONDS = 5


def run(host: Host, opening: Opening | None, records: Records, schedules: SchedulePrompts | None = None) -> None:
    """Serve until the client closes stdin or a signal comes; `opening` is as in `serve_stdio`.

    `schedules` are the prompts that the first answers have listed.
    """
    anyio.run(_serve, host, opening, records, schedules)


async def _serve(host: Host, opening: Opening | None, records: Records, schedules: SchedulePrompts | None) -> None:
    server = SkillServer(host, local=True, records=records, schedules=schedules)
    answered = Answered(opening.silent, opening.streams) if opening else Answered()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_follow, host.follow, answered)
        tasks.start_soon(host.usage.run)
        tasks.start_soon(host.texts.run)
        tasks.start_soon(server.runs.run)
        tasks.start_soon(_follow, server.schedules.announce, answered)
        tasks.start_soon(record_edits, host.library.sources, host.settings, host.on_change)
        tasks.start_soon(_cancel_when_asked_to_stop, server, tasks.cancel_scope)
        tasks.start_soon(reload_when_asked, host)
        async with server.exchanges.serving():
            await serve_stdio(server, partial(_on_stdin_closed, server), opening, answered)
        # The outcome of cancelled runs is recorded by now.
        tasks.cancel_scope.cancel()


async def _follow(changes: Callable[[], Awaitable[None]], answered: Answered) -> None:
    """Follow changes once the server knows the client that got answers before, so that it is notified of the first."""
    with anyio.move_on_after(_CATCH_UP_SECONDS):
        await answered.wait()
    await changes()


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
