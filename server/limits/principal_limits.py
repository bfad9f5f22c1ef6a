"""What each principal may ask of the server: the rate of requests, those in progress, open sessions, and turns."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Final, Self, TypeAlias

from server.limits.pacing import TokenBucket
from skills_core.errors import SkillsError


class LimitReason(StrEnum):
    """Which limit a request exceeds."""

    RATE = "rate"
    """The principal sends requests too fast."""
    CONCURRENCY = "concurrency"
    """The principal has too many requests in progress."""
    SIZE = "size"
    """The bodies of the requests that the principal has in progress are too large together."""
    SESSIONS = "sessions"
    """The principal has too many sessions of the handshake era."""


class LimitExceededError(SkillsError):
    """A request exceeds a limit of its principal; it may be sent again after `seconds`."""

    def __init__(self, reason: LimitReason, message: str, seconds: float) -> None:
        """Describe the limit in `message`, for the client."""
        super().__init__(message)
        self.limit = reason
        self.seconds = seconds


MAX_ACCOUNTS = 10_000
"""With more accounts, those that are as good as new are dropped."""

_BUSY_SECONDS = 1.0
# After this time a client with too many requests in progress should try again: when one of them ends is not known.

_TOKEN_SECONDS = 0.05
_TOKEN_BYTES = 65_536
# A request that costs no more counts as one. Nearly all take some milliseconds, the first ones of a server more.

Key: TypeAlias = tuple[str, str]
"""A principal: how it logged in, and its subject."""


@dataclass(slots=True)
class _Account:
    """The tokens of a principal, and number and bytes of its requests in progress."""

    bucket: TokenBucket
    running: int = 0
    size: int = 0


@dataclass(slots=True)
class AdmittedRequest:
    """A request in progress until the end of its block.

    `size` is the length of its body in bytes: until it is read, the most that it may have.
    """

    principal: Key
    account: _Account
    size: int

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.account.running -= 1
        self.account.size -= self.size

    def charge(self, seconds: float) -> None:
        """Count a request that kept the server busy for so long, or is large, as several."""
        tokens = max(seconds / _TOKEN_SECONDS, self.size / _TOKEN_BYTES)
        if tokens > 1:
            self.account.bucket.tokens -= tokens - 1

    def resize(self, size: int) -> None:
        """Correct the size, once the body is read."""
        self.account.size += size - self.size
        self.size = size


class PrincipalLimits:
    """The limits that hold for each principal on its own."""

    def __init__(
        self,
        rate: float,
        burst: int,
        concurrent: int,
        clock: Callable[[], float] = time.monotonic,
        *,
        size: int = 0,
    ) -> None:
        """Admit `rate` requests a second, `burst` at once, `concurrent` in progress with bodies of `size` bytes in all.

        0 means no limit. `clock` returns seconds and never runs back.
        """
        self._rate = rate
        self._burst = burst
        self._concurrent = concurrent
        self._size = size
        self._clock = clock
        self._accounts: dict[Key, _Account] = {}

    def admitted(self, principal: Key, size: int = 0) -> AdmittedRequest:
        """Count a request with a body of `size` bytes as in progress, until the block of the result ends.

        Raises:
            LimitExceededError: the request exceeds a limit; it is not counted.
        """
        now = self._clock()
        account = self._accounts.get(principal)
        if account is None:
            account = self._opened(principal, now)
        if self._concurrent and account.running >= self._concurrent:
            message = f"too many requests in progress; at most {self._concurrent}, open event streams included"
            raise LimitExceededError(LimitReason.CONCURRENCY, message, _BUSY_SECONDS)
        # A single request may always have the size that the server admits at all.
        if self._size and account.size and account.size + size > self._size:
            message = f"requests in progress are too large; at most {self._size} bytes together, open streams included"
            raise LimitExceededError(LimitReason.SIZE, message, _BUSY_SECONDS)
        if self._rate and (seconds := account.bucket.take(now)):
            message = f"too many requests; at most {self._rate:g} a second for long"
            raise LimitExceededError(LimitReason.RATE, message, seconds)
        account.running += 1
        account.size += size
        return AdmittedRequest(principal, account, size)

    def _opened(self, principal: Key, now: float) -> _Account:
        if len(self._accounts) >= MAX_ACCOUNTS:
            self._accounts = {key: each for key, each in self._accounts.items() if not self._is_as_new(each, now)}
        account = self._accounts[principal] = _Account(TokenBucket(self._rate, self._burst, now))
        return account

    def _is_as_new(self, account: _Account, now: float) -> bool:
        return not account.running and (not self._rate or account.bucket.is_full(now))


@dataclass(slots=True)
class _OpenSession:
    """When a session was used last, and how many of its requests are in progress."""

    used: float
    running: int = 0


@dataclass(slots=True)
class _SessionAccount:
    """The sessions of a principal by id, and how many are being opened."""

    sessions: dict[str, _OpenSession] = field(default_factory=dict)
    opening: int = 0


class OpenSessions:
    """The limit of sessions for each principal.

    All sessions of a server have one limit too, so without this one a single principal could use it up. A session is
    open until it is ended, or has been idle for as long as the server keeps idle sessions.
    """

    def __init__(self, most: int, idle_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Admit `most` sessions; 0 means no limit. `clock` returns seconds and never runs back."""
        self._most = most
        self._idle = idle_seconds
        self._clock = clock
        self._accounts: dict[Key, _SessionAccount] = {}

    @contextmanager
    def opening(self, principal: Key) -> Iterator[Callable[[str], None]]:
        """Admit a request that opens a session, and yield what notes the id of that session.

        Raises:
            LimitExceededError: the principal has as many sessions as it may have.
        """
        if not self._most:
            yield lambda _: None
            return
        now = self._clock()
        self._forget_idle(principal, now)
        account = self._accounts.setdefault(principal, _SessionAccount())
        if len(account.sessions) + account.opening >= self._most:
            message = f"too many sessions; at most {self._most} at a time, so end those that are not needed"
            raise LimitExceededError(LimitReason.SESSIONS, message, self._seconds_to_next(account, now))

        def note(session: str) -> None:
            account.sessions[session] = _OpenSession(self._clock())

        account.opening += 1
        try:
            yield note
        finally:
            account.opening -= 1
            self._drop_if_empty(principal, account)

    @contextmanager
    def used(self, principal: Key, session: str) -> Iterator[None]:
        """Keep a session open while one of its requests is in progress; ignore unknown sessions."""
        account = self._accounts.get(principal)
        found = None if account is None else account.sessions.get(session)
        if found is None:
            yield
            return
        found.running += 1
        try:
            yield
        finally:
            found.running -= 1
            found.used = self._clock()

    def end(self, principal: Key, session: str) -> None:
        """Note that a principal has ended a session."""
        account = self._accounts.get(principal)
        if account is not None:
            account.sessions.pop(session, None)
            self._drop_if_empty(principal, account)

    def _forget_idle(self, principal: Key, now: float) -> None:
        # Accounts of principals that never come back are few: one for each user of the identity provider.
        account = self._accounts.get(principal)
        if account is not None:
            account.sessions = {key: each for key, each in account.sessions.items() if self._left(each, now) > 0}

    def _left(self, session: _OpenSession, now: float) -> float:
        return self._idle if session.running else session.used + self._idle - now

    def _seconds_to_next(self, account: _SessionAccount, now: float) -> float:
        return min((self._left(each, now) for each in account.sessions.values()), default=self._idle)

    def _drop_if_empty(self, principal: Key, account: _SessionAccount) -> None:
        if not account.sessions and not account.opening:
            self._accounts.pop(principal, None)


_WAITS_SECONDS: Final = 0.02
"""A request that is not answered after so long waits for something else."""

_LATE_SECONDS: Final = 0.005
"""If the event loop calls so late, the request may be waiting for the loop: its turn goes on."""

_MOST_EXTENSIONS: Final = 50

FREE_SECONDS: Final = 0.0005
_PAUSES: Final = 40
"""After a request that costs more than `FREE_SECONDS` to read, the next turn of its principal waits for so many times
as long: expensive requests of one principal keep the event loop busy for a fortieth of the time at most."""

_MAX_PAUSE_SECONDS: Final = 5.0


@dataclass(slots=True)
class _Lane:
    """Whether a request of a principal has its turn, which one, and those that wait for theirs.

    One `timer` looks after all turns of the lane: starting and cancelling one for each takes longer than a turn's rest.
    """

    taken: bool = True
    turn: Turn | None = None
    waiting: list[asyncio.Future[None]] = field(default_factory=list)
    timer: asyncio.TimerHandle | None = None

    def look(self) -> None:
        """Look for the end of the turn that a request has now."""
        self.timer = None
        if self.turn is not None:
            self.turn.look()


class Turn:
    """The turn of one request; `cost` is how many seconds it takes to read the request, about.

    A turn within another one, `outer`, ends that too, and leaves the pause after it to that.
    """

    def __init__(self, turns: RequestTurns, principal: Key, lane: _Lane) -> None:
        """Begin the turn of a request of a principal, which has this lane."""
        self._turns = turns
        self._principal = principal
        self._lane = lane
        self._is_over = False
        self.outer: Turn | None = None
        self._extensions = 0
        self._due = 0.0
        self.cost = 0.0

    def begin_work(self) -> None:
        """Let the turn end soon, also if the request is not answered: it waits for something else then."""
        self._due = asyncio.get_running_loop().time() + _WAITS_SECONDS
        if self._lane.waiting or self.outer is not None:
            self.end_when_due()

    def end_when_due(self) -> None:
        """Look for the end of a turn that another request waits for; until one does, there is no need to."""
        if self._due and self._lane.timer is None:
            self._lane.timer = asyncio.get_running_loop().call_at(self._due, self._lane.look)

    def end(self) -> None:
        """Let the next request begin."""
        if self._is_over:
            return
        self._is_over = True
        self._turns.ended(self._principal, self._lane, self.cost if self.outer is None else 0.0)
        if self.outer is not None:
            self.outer.cost = self.cost
            self.outer.end()

    def look(self) -> None:
        """End if it is time, or look again when it will be; the timer may be that of an earlier turn."""
        late = asyncio.get_running_loop().time() - self._due
        if late < 0:
            self.end_when_due()
        elif late > _LATE_SECONDS and self._extensions < _MOST_EXTENSIONS:
            self._extensions += 1
            self.begin_work()
            self.end_when_due()
        else:
            self.end()


class RequestTurns:
    """The turns of all principals; a principal has a lane only while a request of it has a turn or pauses."""

    def __init__(self) -> None:
        self._lanes: dict[Key, _Lane] = {}
        self._ended: list[tuple[Key, _Lane]] = []

    async def begin(self, principal: Key) -> Turn:
        """Wait for the turn of a request, in the order of arrival; the caller ends it."""
        lane = self._lanes.get(principal)
        if lane is None:
            lane = self._lanes[principal] = _Lane()
        elif lane.taken or lane.waiting:
            await self._wait(principal, lane)
        lane.taken = True
        lane.turn = turn = Turn(self, principal, lane)
        return turn

    @asynccontextmanager
    async def turn(self, principal: Key) -> AsyncGenerator[Turn]:
        """Wait for the turn of a request, as `begin` does; it ends within the block, or with it."""
        turn = await self.begin(principal)
        try:
            yield turn
        finally:
            turn.end()

    async def _wait(self, principal: Key, lane: _Lane) -> None:
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lane.waiting.append(mine)
        if lane.turn is not None:
            lane.turn.end_when_due()
        try:
            await mine
        except BaseException:
            if mine.done() and not mine.cancelled():
                self._next(principal, lane)  # it was called in the same moment
            else:
                with suppress(ValueError):
                    lane.waiting.remove(mine)
            raise

    def ended(self, principal: Key, lane: _Lane, cost: float) -> None:
        """Let the next request of a lane begin, after a turn of this cost."""
        lane.turn = None
        if cost > FREE_SECONDS:
            pause = min(_PAUSES * cost, _MAX_PAUSE_SECONDS)
            asyncio.get_running_loop().call_later(pause, self._next, principal, lane)
        elif lane.waiting:
            # It runs behind those of others that are ready.
            self._next(principal, lane)
        else:
            # Not at once: most requests are answered in one step, and requests that became ready meanwhile come first.
            # One callback serves all turns that end before it: one for each costs as much as the rest of a turn.
            if not self._ended:
                asyncio.get_running_loop().call_soon(self._next_of_ended)
            self._ended.append((principal, lane))

    def _next_of_ended(self) -> None:
        ended, self._ended = self._ended, []
        for principal, lane in ended:
            self._next(principal, lane)

    def _next(self, principal: Key, lane: _Lane) -> None:
        while lane.waiting:
            first = lane.waiting.pop(0)
            if not first.done():
                first.set_result(None)
                return
        lane.taken = False
        self._lanes.pop(principal, None)


_EXACT_SECONDS: Final = 0.005
"""A step that takes so long is counted by the clock of the processor, which costs more to ask than many a request."""


class MeteredWork:
    """Awaits a coroutine, and counts about how many seconds of the processor it takes from the event loop.

    All this happens in the thread of the event loop: `_last` is when its processor time was read, and that time.
    """

    _last: ClassVar[tuple[float, float]] = (-math.inf, 0.0)

    def __init__(self, work: Coroutine[Any, Any, None]) -> None:
        """Prepare to await `work`."""
        self._work = work
        self.seconds = 0.0

    def __await__(self) -> Generator[Any, Any, None]:
        """Drive the coroutine as `await` does."""
        step: Callable[[Any], Any] = self._work.send
        given: Any = None
        while True:
            begin = time.perf_counter()
            if begin - self._last[0] > _EXACT_SECONDS:
                MeteredWork._last = begin, time.thread_time()
            try:
                wanted = step(given)
            except StopIteration:
                return
            finally:
                seconds = time.perf_counter() - begin
                # Others may have had the processor during a long step.
                is_long = seconds >= _EXACT_SECONDS
                self.seconds += min(seconds, time.thread_time() - self._last[1]) if is_long else seconds
            try:
                given, step = (yield wanted), self._work.send
            except GeneratorExit:
                self._work.close()
                raise
            except BaseException as error:  # noqa: BLE001 - the coroutine decides what to do with it
                given, step = error, self._work.throw
