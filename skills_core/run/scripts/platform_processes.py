"""The platform-specific parts of child processes: their session, their termination, and their pipes.

On POSIX a child leads a session, so it has no terminal, and is killed with all descendants that did not leave its
process group. On Windows it has no console, and its tree is killed as far as living parents lead to their children.
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
    # CREATE_NO_WINDOW and CREATE_NEW_PROCESS_GROUP, which only Windows defines.
    {"creationflags": 0x0800_0000 | 0x0000_0200} if sys.platform == "win32" else {"start_new_session": True}
)
"""Arguments that start a child without a terminal, so that it can be killed with its children."""

HAS_SUBREAPER = sys.platform == "linux"
"""Whether a process can adopt the orphans among its descendants, so that none of them escapes."""

_PIECE = 1 << 16
_CLOSED = -1


async def terminate(leader: int) -> None:
    """Send SIGTERM to the child that leads a session, and to its process group."""
    if sys.platform == "win32":
        await kill_all(leader)
    else:
        _signal(leader, signal.SIGTERM)
        # A stopped process cannot end before it continues.
        _signal(leader, signal.SIGCONT)


async def kill_all(leader: int) -> None:
    """Kill the child that leads a session, and its process group, also if the child itself has ended.

    The system does not reuse the number for another process while the group exists.
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
    """A pipe from a child to this process; use it as a context manager."""

    def __init__(self) -> None:
        """Open both ends."""
        self._reader, self.writer = os.pipe()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_writer()
        _close(self._taken())

    def close_writer(self) -> None:
        """Close the write end here, so that only the child has it."""
        writer, self.writer = self.writer, _CLOSED
        _close(writer)

    async def drain(self, take: Callable[[bytes], bool]) -> None:
        """Pass the data to `take` until the pipe ends, or `take` returns false."""
        if not PIPES_ARE_POLLABLE:
            # The thread may outlive its caller while it waits for the pipe's end.
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
        # macOS reports a missing permission if all processes of a group have ended.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, number)
