"""Descriptors of this process: each connection, file and pipe takes one, and a server without any accepts no client."""

from __future__ import annotations

import contextlib
from typing import Final

_WANTED: Final = 65_536
# For some ten thousand clients that wait for events. Many systems allow 1,024, and more to a process that asks.

_UNKNOWN: Final = 1024
_SHARE_OF_CONNECTIONS: Final = 2


def raise_descriptors() -> None:
    """Have the system allow this process more descriptors, as far as it does without further rights."""
    soft, hard = _allowed()
    wanted = min(_WANTED, hard)
    if soft < wanted:
        import resource  # noqa: PLC0415 - not on Windows, where both are the same

        _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, limit))


def most_connections() -> int:
    """Return how many connections may wait for their clients: half of the descriptors of this process."""
    return max(1, _allowed()[0] // _SHARE_OF_CONNECTIONS)


def _allowed() -> tuple[int, int]:
    """Return how many descriptors the system allows, and how many to a process that asks; no limit counts as enough."""
    try:
        import resource  # noqa: PLC0415 - not on Windows
    except ImportError:
        return _UNKNOWN, _UNKNOWN
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (_WANTED if each == resource.RLIM_INFINITY else each for each in limits)
    return soft, hard
