"""Background work of a server: it is done between requests, one job at a time, and ends with the server.

Texts of activations, the index of the search and the comparison of all files take processor time that requests would
wait for. Each takes turns here: a job begins when no request has come for a moment, and work in a thread sleeps between
two slices while requests arrive. A server that is never quiet does it all the same, later.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

if TYPE_CHECKING:
    from server.hosting.views import View

logger = logging.getLogger(__name__)

_SLICE_SECONDS: Final = 0.0005
# Most time that work in a thread takes before it yields; a request takes about as long.

_YIELD_SECONDS: Final = 0.003
# Between two slices, so that the work delays few of the requests of a burst.

_BURST_SECONDS: Final = 0.02
# A burst has ended when no request came for so long.

_MOST_SECONDS: Final = 0.25
# Longest wait for the end of a burst: a busy server prepares what makes its requests cheaper.

_FIRST_SECONDS: Final = 0.5
# After the start, in which the first requests come, and the texts of activations are prepared.


class StoppedError(Exception):
    """The server ends, so work in a thread is given up."""


class Background:
    """The turns of background work, and when the last request came.

    The event loop uses it, and `pause` worker threads.
    """

    def __init__(self) -> None:
        self._last = -math.inf
        self._slice_began = -math.inf
        self._one = anyio.Lock()
        self._has_stopped = False

    def note_request(self) -> None:
        """Note that a request has come."""
        self._last = time.monotonic()

    async def wait(self, seconds: float = _BURST_SECONDS, at_most: float = _MOST_SECONDS) -> None:
        """Wait until no request has come for `seconds`, but not longer than `at_most` seconds."""
        end = time.monotonic() + at_most
        # Each request would set an event, which costs it more than this loop costs the server.
        while (left := min(self._last + seconds, end) - time.monotonic()) > 0:  # noqa: ASYNC110
            await anyio.sleep(left)

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        """Do a job within the block: no other one runs meanwhile, and it begins between requests."""
        async with self._one:
            await self.wait()
            yield

    def pause(self) -> None:
        """Let requests pass; called often by work in a thread, it blocks after each slice of work during a burst.

        Raises:
            StoppedError: the server ends.
        """
        if self._has_stopped:
            raise StoppedError
        now = time.monotonic()
        if now - self._slice_began < _SLICE_SECONDS:
            return
        if now - self._last < _BURST_SECONDS:
            time.sleep(_YIELD_SECONDS)
        self._slice_began = time.monotonic()

    async def stop_at_end(self) -> None:
        """Sleep until cancelled, and then let `pause` end all work in threads."""
        try:
            await anyio.sleep_forever()
        finally:
            self._has_stopped = True


class SearchPreparation:
    """Indexes the skills after the start and after each change, before anyone searches."""

    def __init__(
        self,
        views: Callable[[], Sequence[View]],
        then: Callable[[View], Awaitable[None]],
        background: Background,
    ) -> None:
        """Index nothing yet; `views` returns those whose search is kept ready, and `then` is called for each after."""
        self._views = views
        self._then = then
        self._background = background
        self._due = anyio.Event()

    def refresh(self) -> None:
        """Note that skills have changed."""
        self._due.set()

    async def run(self) -> None:
        """Index in turns of background work, until cancelled."""
        await anyio.sleep(_FIRST_SECONDS)
        while True:
            self._due = anyio.Event()
            for view in self._views():
                async with self._background.turn():
                    await self._prepare(view)
                await self._then(view)
            await self._due.wait()

    async def _prepare(self, view: View) -> None:
        try:
            await anyio.to_thread.run_sync(view.prepare_search, self._background.pause)
        except StoppedError:
            return
        except Exception:
            # A search does the same, and reports it.
            logger.exception("cannot index the skills before a search")
