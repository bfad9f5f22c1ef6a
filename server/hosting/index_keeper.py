"""Keep the index of skills up to date while a server runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core.live.library import Library


_SECONDS: Final = 5.0
# An index that is some seconds old costs the next start to load what changed in these.

_AT_END_SECONDS: Final = 2.0
# What is not written by then is loaded again by the next start.


async def keep_index(library: Library, pause: Callable[[], None]) -> None:
    """Write what was loaded to the index from time to time and at the end, until cancelled; `pause` may block."""
    if library.index is None:
        return

    async def save(pause: Callable[[], None] | None) -> None:
        # A process may end in the midst of it: SQLite takes back what is not complete.
        await anyio.to_thread.run_sync(library.save_index, pause, abandon_on_cancel=True)

    try:
        while True:
            await anyio.sleep(_SECONDS)
            await save(pause)
    finally:
        with anyio.move_on_after(_AT_END_SECONDS, shield=True):
            await save(None)
