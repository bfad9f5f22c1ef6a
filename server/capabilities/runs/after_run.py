"""Follow the runs of skills with a hook of the rooms above, once their outcomes are recorded.

A hook that ran before would delay the outcome, be repeated with a run that is continued, and could change skills that
a workflow still needs.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio

from skills_core.runs.durable.recorded_run import RunNotDoneError, StoreError, UnknownRunError

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    from server.capability import AfterRun, FinishedRun
    from skills_core.runs.durable.engine import Engine

    FinishedRuns = Callable[[], Awaitable[Sequence["FinishedRun"]]]

logger = logging.getLogger(__name__)


def no_follow_up(run: FinishedRun) -> None:
    """Follow no run."""
    del run


async def improvements_of_none(run_ids: Sequence[str]) -> Sequence[Mapping[str, Any]]:
    """Return nothing: no run is followed."""
    del run_ids
    return ()


@dataclass(slots=True)
class _FollowedRun:
    """A recorded run, or workflow, whose end is followed; `runs` returns the finished runs of skills in it."""

    run_id: str
    runs: FinishedRuns
    done: anyio.Event = field(default_factory=anyio.Event)


class FollowUps:
    """Awaits `hook`, if there is one, after recorded runs, whether a caller waits for them or not."""

    def __init__(self, hook: AfterRun | None) -> None:
        """Follow nothing before `open` is entered."""
        self._hook = hook
        self._added: MemoryObjectSendStream[_FollowedRun] | None = None
        self._pending: dict[str, _FollowedRun] = {}

    @asynccontextmanager
    async def open(self, engine: Engine, is_closing: Callable[[], bool]) -> AsyncGenerator[None]:
        """Follow runs of `engine` until the block ends; then complete what has begun, unless the process closes."""
        failure: Exception | None = None
        send, receive = anyio.create_memory_object_stream[_FollowedRun](math.inf)
        try:
            async with anyio.create_task_group() as tasks:
                # The tasks are started here and not by jobs, whose context says that they are part of a run.
                if self._hook is not None:
                    tasks.start_soon(self._follow_all, engine, receive, self._hook)
                self._added = send
                try:
                    yield
                except Exception as error:  # noqa: BLE001 - raised again below, outside the group
                    failure = error
                self._added = None
                send.close()
                if failure is not None or is_closing():
                    tasks.cancel_scope.cancel()
        finally:
            self._added = None
            send.close()
            receive.close()
            for each in self._pending.values():
                each.done.set()
            self._pending.clear()
        if failure is not None:
            raise failure

    def add(self, run_id: str, runs: FinishedRuns) -> None:
        """Follow the recorded run with this ID, once its outcome is recorded."""
        if self._hook is None or self._added is None:
            return
        self._pending[run_id] = recorded = _FollowedRun(run_id, runs)
        self._added.send_nowait(recorded)

    async def wait(self, run_id: str) -> None:
        """Wait until the hook has ended for a run of this process."""
        if (recorded := self._pending.get(run_id)) is not None:
            await recorded.done.wait()

    async def _follow_all(self, engine: Engine, added: MemoryObjectReceiveStream[_FollowedRun], hook: AfterRun) -> None:
        async with anyio.create_task_group() as tasks:
            async for recorded in added:
                tasks.start_soon(self._follow, engine, recorded, hook)

    async def _follow(self, engine: Engine, recorded: _FollowedRun, hook: AfterRun) -> None:
        try:
            await engine.wait(recorded.run_id)
            for run in await recorded.runs():
                await hook(run)
        except (RunNotDoneError, UnknownRunError, StoreError) as error:
            logger.debug("run %s is not followed: %s", recorded.run_id, error)
        except Exception:
            logger.exception("after the run %s", recorded.run_id)
        finally:
            recorded.done.set()
            if self._pending.get(recorded.run_id) is recorded:
                del self._pending[recorded.run_id]
