"""Descriptors of this process: each connection, file and pipe takes one, and without any a server answers nobody."""

from __future__ import annotations

import contextlib
from typing import Final

_WANTED: Final = 65_536
# For some ten thousand clients that wait for events. Many systems allow 1,024, and more to a process that asks.

_UNKNOWN: Final = 1024
_SHARE_OF_CONNECTIONS: Final = 2


def raise_descriptors() -> None:
    """Have the system allow this process more descriptors, as far as it does without further rights."""
    try:
        import resource  # noqa: PLC0415 - not on Windows
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED if hard == resource.RLIM_INFINITY else min(_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def most_connections() -> int:
    """Return how many connections may wait for their clients: half of the descriptors of this process."""
    try:
        import resource  # noqa: PLC0415 - not on Windows
    except ImportError:
        return _UNKNOWN // _SHARE_OF_CONNECTIONS
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _WANTED if soft == resource.RLIM_INFINITY else soft
    return max(1, most // _SHARE_OF_CONNECTIONS)
