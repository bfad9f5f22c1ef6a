"""Turns of the requests of each principal: one of them begins when the one before has done its work.

All requests share one event loop. If each began as soon as it arrives, a principal with two hundred of them would make
the only request of another wait for all of these. A turn lasts until a request is answered, or waits for something else
than the event loop, such as a run, a client or a disk.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from time import thread_time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Generator

    from server.limits.principal_limits import Key

__all__ = ["MeteredWork", "Turn", "RequestTurns"]

_WAITS_SECONDS: Final = 0.02
"""A request that is not answered after so long waits for something else."""

_LATE_SECONDS: Final = 0.005
"""If the event loop calls so late, the request may be waiting for the loop: its turn goes on."""

_MOST_EXTENSIONS: Final = 50

_FREE_SECONDS: Final = 0.0005
_PAUSES: Final = 40
"""After a request that costs more than `_FREE_SECONDS` to read, the next turn of its principal waits for so many times
as long: expensive requests of one principal keep the event loop busy for a fortieth of the time at most."""

_MAX_PAUSE_SECONDS: Final = 5.0


@dataclass(slots=True)
class _Lane:
    """Whether a request of a principal has its turn, and those that wait for theirs."""

    taken: bool = True
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)


class Turn:
    """The turn of one request; `cost` is how many seconds it takes to read the request, about.

    A turn within another one, `outer`, ends that too, and leaves the pause after it to that.
    """

    def __init__(self, end: Callable[[float], None]) -> None:
        """Call `end` with the cost when the turn is over."""
        self._end: Callable[[float], None] | None = end
        self.outer: Turn | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._extensions = 0
        self._due = 0.0
        self.cost = 0.0

    def begin_work(self) -> None:
        """Let the turn end soon, also if the request is not answered: it waits for something else then."""
        loop = asyncio.get_running_loop()
        self._due = loop.time() + _WAITS_SECONDS
        self._timer = loop.call_at(self._due, self._look)

    def end(self) -> None:
        """Let the next request begin."""
        end, self._end = self._end, None
        if self._timer is not None:
            self._timer.cancel()
        if end is None:
            return
        if self.outer is None:
            end(self.cost)
        else:
            end(0.0)
            self.outer.cost = self.cost
            self.outer.end()

    def _look(self) -> None:
        late = asyncio.get_running_loop().time() - self._due > _LATE_SECONDS
        if late and self._extensions < _MOST_EXTENSIONS:
            self._extensions += 1
            self.begin_work()
        else:
            self.end()


class RequestTurns:
    """The turns of all principals; a principal has a lane only while a request of it has a turn or pauses."""

    def __init__(self) -> None:
        self._lanes: dict[Key, _Lane] = {}

    def __len__(self) -> int:
        """Return how many principals have a lane."""
        return len(self._lanes)

    @asynccontextmanager
    async def turn(self, principal: Key) -> AsyncGenerator[Turn]:
        """Wait for the turn of a request, in the order of arrival; it ends within the block, or with it."""
        lane = self._lanes.get(principal)
        if lane is None:
            lane = self._lanes[principal] = _Lane()
        elif lane.taken or lane.waiting:
            await self._wait(principal, lane)
        lane.taken = True
        turn = Turn(lambda cost: self._ended(principal, lane, cost))
        try:
            yield turn
        finally:
            turn.end()

    async def _wait(self, principal: Key, lane: _Lane) -> None:
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lane.waiting.append(mine)
        try:
            await mine
        except BaseException:
            if mine.done() and not mine.cancelled():
                self._next(principal, lane)  # it was called in the same moment
            else:
                with suppress(ValueError):
                    lane.waiting.remove(mine)
            raise

    def _ended(self, principal: Key, lane: _Lane, cost: float) -> None:
        # Not at once: most requests are answered in one step, and whoever has become ready meanwhile comes first.
        loop = asyncio.get_running_loop()
        if cost <= _FREE_SECONDS:
            loop.call_soon(self._next, principal, lane)
        else:
            loop.call_later(min(_PAUSES * cost, _MAX_PAUSE_SECONDS), self._next, principal, lane)

    def _next(self, principal: Key, lane: _Lane) -> None:
        while lane.waiting:
            first = lane.waiting.popleft()
            if not first.done():
                first.set_result(None)
                return
        lane.taken = False
        self._lanes.pop(principal, None)


class MeteredWork:
    """Awaits a coroutine, and counts the seconds of the processor that it takes from the event loop."""

    def __init__(self, work: Coroutine[Any, Any, None]) -> None:
        """Prepare to await `work`."""
        self._work = work
        self.seconds = 0.0

    def __await__(self) -> Generator[Any, Any, None]:
        """Drive the coroutine as `await` does."""
        step: Callable[[Any], Any] = self._work.send
        given: Any = None
        while True:
            begin = thread_time()
            try:
                wanted = step(given)
            except StopIteration:
                return
            finally:
                self.seconds += thread_time() - begin
            try:
                given, step = (yield wanted), self._work.send
            except GeneratorExit:
                self._work.close()
                raise
            except BaseException as error:  # noqa: BLE001 - the coroutine decides what to do with it
                given, step = error, self._work.throw
