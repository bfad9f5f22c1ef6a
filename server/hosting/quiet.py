"""Background work that yields to requests: when the last request came, and how to wait for a moment without any.

Requests come in bursts: a client that connects lists everything at once, and a model calls tools one after the other.
Work that nobody waits for, such as comparing all files with the catalog, would slow down each request of a burst, and
there is enough time between bursts.
"""

from __future__ import annotations

import math
import time

import anyio

__all__ = ["Quiet"]

_SLICE_SECONDS = 0.0005
# Most time that work in a thread takes before it yields; a request takes about as long.

_YIELD_SECONDS = 0.003
# Between two slices, so that the work delays few of the requests of a burst.

_BURST_SECONDS = 0.02
# A burst has ended when no request came for so long.


class Quiet:
    """Knows when the last request came; used by the event loop, and `pause` by one worker thread at a time."""

    def __init__(self) -> None:
        """Begin in quiet."""
        self._last = -math.inf
        self._slice_began = -math.inf

    def note_request(self) -> None:
        """Note that a request has come."""
        self._last = time.monotonic()

    @property
    def _is_burst(self) -> bool:
        return time.monotonic() - self._last < _BURST_SECONDS

    async def wait(self, seconds: float = _BURST_SECONDS, at_most: float = math.inf) -> None:
        """Wait until no request has come for `seconds`, but not longer than `at_most` seconds."""
        end = time.monotonic() + at_most
        # Each request would set an event, which costs it more than this loop costs the server.
        while (left := min(self._last + seconds, end) - time.monotonic()) > 0:  # noqa: ASYNC110
            await anyio.sleep(left)

    def pause(self) -> None:
        """Let requests pass; called often by work in a thread, it blocks after each slice of work during a burst."""
        now = time.monotonic()
        if now - self._slice_began < _SLICE_SECONDS:
            return
        if self._is_burst:
            time.sleep(_YIELD_SECONDS)
        self._slice_began = time.monotonic()
