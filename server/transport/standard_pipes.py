"""The process's own stdin and stdout, where these are pipes that can be waited for."""

from __future__ import annotations

import os
import select
import stat
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["READ_SIZE", "Opening", "can_wait_for", "claimed_pipes"]

READ_SIZE = 1 << 16


class Opening(NamedTuple):
    """A connection over two pipes, and what was read and written before the SDK's server serves it.

    `received` are the bytes for the server, `silent` the ids of those requests in it that have been answered, `streams`
    the ids of streams that have been acknowledged, `unsent` the rest of an answer, and `ended` tells whether the client
    has closed its end.
    """

    source: int
    sink: int
    received: bytes = b""
    silent: frozenset[str] = frozenset()
    streams: frozenset[str | int] = frozenset()
    unsent: bytes = b""
    ended: bool = False


def can_wait_for(descriptor: int) -> bool:
    """Tell whether the event loop can wait for a descriptor: not on Windows, not for files, not for /dev/null."""
    if not hasattr(select, "poll"):
        return False
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


@contextmanager
def claimed_pipes() -> Generator[tuple[int, int]]:
    """Reserve stdin and stdout for the protocol; within the block, all other output to stdout goes to stderr."""
    sys.stdout.flush()
    source, sink = os.dup(0), os.dup(1)
    try:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)
        yield source, sink
    finally:
        os.dup2(source, 0)
        os.dup2(sink, 1)
        os.close(source)
        os.close(sink)
