"""Background work of a server: it is done between requests, one job at a time, and ends with the server.

Texts of activations, the index of the search and the comparison of all files take processor time that requests would
wait for. Each takes turns here: a job begins when no request has come for a moment, and work in a thread sleeps between
two slices while requests arrive. A server that is never quiet does it all the same, later; and once requests have come
for longer than any client's burst, work in a thread gets about as much of a processor as they do.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from server.hosting.interpreter import give_back_memory

if TYPE_CHECKING:
    from server.hosting.views import View
    from skills_core.catalog.catalog import Catalog
    from skills_core.live.library import Library

logger = logging.getLogger(__name__)

_SLICE_SECONDS: Final = 0.0005
# Most time that work in a thread takes before it yields; a request takes about as long.

_YIELD_SECONDS: Final = 0.003
# Between two slices, so that the work delays few of the requests of a burst.

_SHORT_YIELD_SECONDS: Final = 0.0005
# Between two slices when requests do not cease: changed skills would be told minutes later otherwise.

_BURST_SECONDS: Final = 0.02
# A burst has ended when no request came for so long.

_LOAD_SECONDS: Final = 3.0
# No client's first requests take so long: those that still come are the usual load of the server.

_CALM_SECONDS: Final = 0.25
# Without a request, after which the next ones may be the first of a client again.

_MOST_SECONDS: Final = 0.25
# Longest wait for the end of a burst: a busy server prepares what makes its requests cheaper.

_FIRST_SECONDS: Final = 0.5
# After the start, in which the first requests come, and the texts of activations are prepared.

_REST: Final = 20
# So many times as long as comparing all skills took, they are not compared again, whatever changes.

_LONG_SECONDS: Final = 0.1
# Comparing took so long only if there are thousands of skills.

_INDEX_SECONDS: Final = 5.0
# Without a change, after which the index is written. What changes all the time is loaded again by the next start.

_INDEX_AT_END_SECONDS: Final = 2.0
# What is not written by then is loaded again by the next start.


class StoppedError(Exception):
    """The server ends, so work in a thread is given up."""


class Background:
    """The turns of background work, and when the last request came.

    The event loop uses it, and `pause` worker threads.
    """

    def __init__(self) -> None:
        self._last = -math.inf
        self._busy_since = -math.inf
        self._slice_began = -math.inf
        self._one = anyio.Lock()
        self._has_stopped = False

    def note_request(self) -> None:
        """Note that a request has come."""
        now = time.monotonic()
        if now - self._last >= _CALM_SECONDS:
            self._busy_since = now
        self._last = now

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
            is_load = now - self._busy_since > _LOAD_SECONDS
            time.sleep(_SHORT_YIELD_SECONDS if is_load else _YIELD_SECONDS)
        self._slice_began = time.monotonic()

    async def stop_at_end(self) -> None:
        """Sleep until cancelled, and then let `pause` end all work in threads."""
        try:
            await anyio.sleep_forever()
        finally:
            self._has_stopped = True


class SearchPreparation:
    """Indexes the skills after the start and after each change, before anyone searches, and compares them at times."""

    def __init__(
        self,
        views: Callable[[], Sequence[View]],
        then: Callable[[View], Awaitable[None]],
        background: Background,
        is_whole: Callable[[], bool],
    ) -> None:
        """Do nothing yet; `views` returns those whose search is kept ready, and `then` is called after a comparison.

        Until `is_whole`, skills are not compared, and are indexed only once `ask` is called: either would delay the
        rest of the load, and the comparison would be made again with the rest of the skills.
        """
        self._views = views
        self._then = then
        self._background = background
        self._is_whole = is_whole
        self._due = anyio.Event()
        self._is_asked = False
        self._compare_from = -math.inf

    def refresh(self) -> None:
        """Note that skills have changed."""
        self._due.set()

    def ask(self) -> None:
        """Note that a search has left out skills that are not indexed."""
        self._is_asked = True
        self.refresh()

    async def run(self) -> None:
        """Index and compare in turns of background work, until cancelled."""
        await anyio.sleep(_FIRST_SECONDS)
        while True:
            self._due = anyio.Event()
            for view in self._views() if self._is_asked or self._is_whole() else ():
                await self._prepare(view, compare=False)
            rest = self._compare_from - time.monotonic() if self._is_whole() else math.inf
            if rest <= 0:
                await self._compare()
                rest = math.inf
            with anyio.move_on_after(rest):
                await self._due.wait()

    async def _compare(self) -> None:
        seconds = 0.0
        for view in self._views():
            seconds += await self._prepare(view, compare=True)
            await self._then(view)
        self._compare_from = time.monotonic() + _REST * seconds
        if seconds > _LONG_SECONDS:
            # A load, the index and this have allocated much of what is free now.
            await anyio.to_thread.run_sync(give_back_memory)

    async def _prepare(self, view: View, *, compare: bool) -> float:
        """Return the seconds that it took."""
        prepare = partial(view.prepare_search, self._background.pause, compare=compare)
        async with self._background.turn():
            began = time.monotonic()
            try:
                await anyio.to_thread.run_sync(prepare)
            except StoppedError:
                pass
            except Exception:
                # A search does the same, and reports it.
                logger.exception("cannot index the skills before a search")
            return time.monotonic() - began


async def keep_index(library: Library, pause: Callable[[], None]) -> None:
    """Write what was loaded to the index once nothing changes, and at the end, until cancelled; `pause` may block."""
    if library.index is None:
        return

    async def save(pause: Callable[[], None]) -> None:
        # A process may end in the midst of it: SQLite takes back what is not complete.
        with suppress(StoppedError):
            await anyio.to_thread.run_sync(library.save_index, pause, abandon_on_cancel=True)

    seen: Catalog | None = None
    try:
        while True:
            await anyio.sleep(_INDEX_SECONDS)
            before, seen = seen, library.catalog
            if seen is before:
                await save(pause)
    finally:
        end = time.monotonic() + _INDEX_AT_END_SECONDS

        def stop_late() -> None:
            # The process would wait for its thread.
            if time.monotonic() > end:
                raise StoppedError

        with anyio.move_on_after(_INDEX_AT_END_SECONDS, shield=True):
            await save(stop_late)
