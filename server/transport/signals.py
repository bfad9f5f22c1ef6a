"""Work that is done in an event loop of its own until a signal asks the process to end.

By default SIGTERM and SIGHUP end a process where it stands, and leave what it has started running.
"""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, TypeVar

import anyio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

__all__ = ["until_signalled"]

_Result = TypeVar("_Result")

_BY_SIGNAL = 128
"""What shells add to the number of the signal that ended a program."""


def until_signalled(work: Callable[[], Awaitable[_Result]], closing: Callable[[], None] = lambda: None) -> _Result:
    """Return what `work` comes to; SIGTERM and SIGHUP cancel it, after `closing`, and then end the process.

    A signal that was ignored before stays ignored, as `nohup` wants it.

    Raises:
        SystemExit: a signal came; the code is 128 and its number, as shells tell it.
    """
    results: list[_Result] = []
    faults: list[Exception] = []
    received: list[int] = []

    async def cancel(signals: AsyncIterator[signal.Signals], scope: anyio.CancelScope) -> None:
        async for number in signals:
            received.append(number)
            closing()
            scope.cancel()

    async def watched() -> None:
        handled = _handled()
        if not handled:
            results.append(await work())
            return
        with anyio.open_signal_receiver(*handled) as signals:
            async with anyio.create_task_group() as tasks:
                # Signals are received to the end: a second one must not cut off what puts things in order.
                with anyio.CancelScope() as scope:
                    tasks.start_soon(cancel, signals, scope)
                    try:
                        results.append(await work())
                    except Exception as error:  # noqa: BLE001 - raised below, where no task group wraps it
                        faults.append(error)
                tasks.cancel_scope.cancel()

    anyio.run(watched)
    if received:
        raise SystemExit(_BY_SIGNAL + received[0])
    if faults:
        raise faults[0]
    return results[0]


def _handled() -> list[signal.Signals]:
    if sys.platform == "win32":
        return []
    return [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is not signal.SIG_IGN]
