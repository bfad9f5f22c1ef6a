"""Signals: cancel async work or interrupt other work, and reload a server's skills on SIGHUP.

By default these signals end a process at once, and leave the processes that it has started running.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import anyio

from server.hosting.catalog_log import log_reload

if TYPE_CHECKING:
    from server.hosting.host import Host

_ResultT = TypeVar("_ResultT")

SIGNAL_EXIT_BASE = 128
"""Shells add this to the number of the signal that ended a program."""


def until_signalled(work: Callable[[], Awaitable[_ResultT]], closing: Callable[[], None] = lambda: None) -> _ResultT:
    """Return the result of `work`; on SIGTERM or SIGHUP call `closing`, cancel the work and end the process.

    A signal that was ignored before stays ignored, for `nohup`.

    Raises:
        SystemExit: a signal came; the code is 128 plus its number, as in shells.
    """
    results: list[_ResultT] = []
    faults: list[Exception] = []
    received: list[int] = []

    async def cancel(signals: AsyncIterator[signal.Signals], scope: anyio.CancelScope) -> None:
        async for number in signals:
            received.append(number)
            closing()
            scope.cancel()

    async def watched() -> None:
        handled = _handled_signals()
        if not handled:
            results.append(await work())
            return
        with anyio.open_signal_receiver(*handled) as signals:
            async with anyio.create_task_group() as tasks:
                # Signals are received to the end, so that a second one does not interrupt the clean-up.
                with anyio.CancelScope() as scope:
                    tasks.start_soon(cancel, signals, scope)
                    try:
                        results.append(await work())
                    except Exception as error:  # noqa: BLE001 - raised below, where no task group wraps it
                        faults.append(error)
                tasks.cancel_scope.cancel()

    anyio.run(watched)
    if received:
        raise SystemExit(SIGNAL_EXIT_BASE + received[0])
    if faults:
        raise faults[0]
    return results[0]


def _handled_signals() -> list[signal.Signals]:
    if sys.platform == "win32":
        return []
    return [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is not signal.SIG_IGN]


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt within the block, as SIGINT does; for the main thread only.

    The first process of a container ignores SIGTERM without a handler.
    """
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def hang_ups_held() -> Iterator[None]:
    """Hold SIGHUP back within the block, until `reload_when_asked` takes it: it must not end a server that starts.

    It does end one whose terminal is closed.
    """
    if sys.platform == "win32" or _ends_with_terminal():
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


async def reload_when_asked(host: Host) -> None:
    """Reload all skills on SIGHUP, for servers that do not watch the disk; also if it came while it was held back.

    A server whose terminal has been closed gets the same signal, and stops, unless `nohup` started it.
    """
    if sys.platform == "win32":
        return
    ends_with_terminal = _ends_with_terminal()
    with anyio.open_signal_receiver(signal.SIGHUP) as received:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
        async for _ in received:
            if ends_with_terminal and not _has_terminal():
                signal.raise_signal(signal.SIGTERM)
                return
            change = await host.try_reload()
            if change is not None:
                log_reload(change)


def _ends_with_terminal() -> bool:
    return _has_terminal() and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN


def _has_terminal() -> bool:
    """Tell whether this process belongs to a terminal that is open."""
    try:
        with Path("/dev/tty").open("rb", buffering=0):
            return True
    except OSError:
        return False


async def cancel_when_stopped(scope: anyio.CancelScope, closing: Callable[[], None]) -> None:
    """Call `closing` and cancel on SIGTERM and SIGINT; the first process of a container ignores SIGTERM otherwise."""
    if sys.platform == "win32":
        return
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
        async for _ in received:
            closing()
            scope.cancel()
