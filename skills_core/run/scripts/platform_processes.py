"""What a child process needs that each system does in its own way: a session of its own, its end, its output.

On POSIX a child leads a session, and so has no terminal and is ended with all that it started and that did not leave.
On Windows it has no console, and its tree is ended as far as parents are still there to lead to their children.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import anyio
import anyio.to_thread

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["HAS_SUBREAPER", "OWN_SESSION", "Pipe", "kill_all", "pipe_with", "terminate"]

PIPES_ARE_POLLABLE = sys.platform != "win32"
"""Whether the event loop can wait for a pipe."""

OWN_SESSION: dict[str, Any] = (
    # The number is that of CREATE_NO_WINDOW and CREATE_NEW_PROCESS_GROUP, which only Windows defines.
    {"creationflags": 0x0800_0000 | 0x0000_0200} if sys.platform == "win32" else {"start_new_session": True}
)
"""How to start a child that has no terminal, and that can be ended with its children."""

HAS_SUBREAPER = sys.platform == "linux"
"""Whether a process can ask for the orphans among its descendants, so that none of them gets away."""

_PIECE = 1 << 16
_CLOSED = -1


async def terminate(leader: int) -> None:
    """Ask the child that leads a session, and those that it started, to end."""
    if sys.platform == "win32":
        await kill_all(leader)
    else:
        _signal(leader, signal.SIGTERM)
        # What is stopped, at times by a process that it keeps, cannot end before it goes on.
        _signal(leader, signal.SIGCONT)


async def kill_all(leader: int) -> None:
    """End the child that leads a session, and all in its group; it may be gone already, and others still there.

    A number is given to another process only after all others were, so it is the group's for as long as this takes.
    """
    if sys.platform == "win32":
        with suppress(OSError):
            await anyio.run_process(
                ["taskkill", "/T", "/F", "/PID", str(leader)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
    else:
        _signal(leader, signal.SIGKILL)


class Pipe:
    """The way from a child to here; use it as a context manager."""

    def __init__(self) -> None:
        """Open both ends."""
        self._reader, self.writer = os.pipe()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_writer()
        _close(self._taken())

    def close_writer(self) -> None:
        """Leave the end that is written to, to the child."""
        writer, self.writer = self.writer, _CLOSED
        _close(writer)

    async def drain(self, take: Callable[[bytes], bool]) -> None:
        """Hand over what comes out until the pipe's end, or until `take` says no."""
        if not PIPES_ARE_POLLABLE:
            # The thread may have to wait longer for the pipe's end than anybody waits for the thread.
            limiter = anyio.CapacityLimiter(1)
            await anyio.to_thread.run_sync(self._drain, take, abandon_on_cancel=True, limiter=limiter)
            return
        os.set_blocking(self._reader, False)
        while True:
            await anyio.wait_readable(self._reader)
            piece = os.read(self._reader, _PIECE)
            if not piece or not take(piece):
                return

    def _drain(self, take: Callable[[bytes], bool]) -> None:
        with open(self._taken(), "rb", buffering=0) as file:  # noqa: PTH123 - it is a descriptor
            while (piece := file.read(_PIECE)) and take(piece):
                pass

    def _taken(self) -> int:
        reader, self._reader = self._reader, _CLOSED
        return reader


def pipe_with(content: bytes) -> int:
    """Return a descriptor from which a child reads `content`, which must fit into a pipe; the caller closes it."""
    reader, writer = os.pipe()
    try:
        os.write(writer, content)
    except OSError:
        os.close(reader)
        raise
    finally:
        os.close(writer)
    return reader


def _close(descriptor: int) -> None:
    if descriptor != _CLOSED:
        os.close(descriptor)


if sys.platform != "win32":

    def _signal(leader: int, number: signal.Signals) -> None:
        # macOS says that it is not permitted where all that is left of a group has ended.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, number)
