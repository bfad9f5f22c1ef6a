"""Count what agents and models use in a file that all processes share, and stop at the bounds that a user gave."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from skills_core.runs.spending import RENEW_SECONDS, BoundReachedError, Bounds, SpendingError, SpendingFile, Use

logger = logging.getLogger(__name__)

SPENDING_FILE: Final = "spending.sqlite"
"""The name of the file beside the work."""

_LOOK_SECONDS: Final = 0.2
# How often work that waits looks whether others have ended.


@dataclass(slots=True)
class PieceOfWork:
    """One piece of work; who performs it sets what it has used. Nothing is known of one that sets nothing."""

    used: Use | None = None


@dataclass(slots=True)
class Meter:
    """Counts the work of this process, within `bounds`; `stopped` tells which bound let no further work begin."""

    file: SpendingFile
    bounds: Bounds
    stopped: str = ""
    _failed: bool = field(default=False, init=False)

    @asynccontextmanager
    async def piece(self, kind: str, requests: int | None = None) -> AsyncGenerator[PieceOfWork]:
        """Set aside what a piece of work may use, and count what it has used when the block ends.

        Raises:
            BoundReachedError: the bounds leave no room for it; then also for each later piece of this process.
            SpendingError: there are bounds, and the file cannot be used.
        """
        number = await self._begin(kind, requests)
        piece = PieceOfWork()
        try:
            yield piece
        finally:
            if number is not None:
                with anyio.CancelScope(shield=True):
                    await self._end(number, piece.used)

    async def _begin(self, kind: str, requests: int | None) -> int | None:
        while True:
            if self.stopped:
                raise BoundReachedError(self.stopped)
            try:
                number = await anyio.to_thread.run_sync(self.file.begin, kind, self.bounds, requests)
            except BoundReachedError as error:
                self.stopped = str(error)
                raise
            except SpendingError as error:
                self._complain(error)
                return None
            if number is not None:
                return number
            await anyio.sleep(_LOOK_SECONDS)

    async def _end(self, number: int, used: Use | None) -> None:
        try:
            await anyio.to_thread.run_sync(self.file.end, number, used)
        except SpendingError as error:
            self._complain(error)

    def _complain(self, error: SpendingError) -> None:
        if self.bounds:
            raise error
        if not self._failed:
            self._failed = True
            logger.warning("%s", error)

    async def renew(self) -> None:
        """Say again and again that this process works, until cancelled."""
        while True:
            await anyio.sleep(RENEW_SECONDS)
            # Whoever begins or ends a piece of work reports what is wrong.
            with suppress(SpendingError):
                await anyio.to_thread.run_sync(self.file.renew)


@asynccontextmanager
async def open_meter(folder: Path, bounds: Bounds) -> AsyncGenerator[Meter]:
    """Yield the meter for work whose results are in `folder`.

    Raises:
        SpendingError: there are bounds, and the file cannot be used.
    """
    meter, failure = Meter(SpendingFile(folder / SPENDING_FILE), bounds), None
    if bounds:
        await anyio.to_thread.run_sync(meter.file.renew)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(meter.renew)
        try:
            yield meter
        except Exception as error:  # noqa: BLE001 - raised below, where no task group wraps it
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
