"""Keep the index of skills up to date while a server runs."""

from __future__ import annotations

from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from server.hosting.background import StoppedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core.catalog.catalog import Catalog
    from skills_core.live.library import Library


_SECONDS: Final = 5.0
# Without a change, after which the index is written. What changes all the time is loaded again by the next start.

_AT_END_SECONDS: Final = 2.0
# What is not written by then is loaded again by the next start.


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
            await anyio.sleep(_SECONDS)
            before, seen = seen, library.catalog
            if seen is before:
                await save(pause)
    finally:
        end = monotonic() + _AT_END_SECONDS

        def stop_late() -> None:
            # The process would wait for its thread.
            if monotonic() > end:
                raise StoppedError

        with anyio.move_on_after(_AT_END_SECONDS, shield=True):
            await save(stop_late)
