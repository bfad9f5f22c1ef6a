"""Accounts of the requests of each principal: a token bucket for their rate, number and size of those in progress."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from server.limits.errors import LimitExceededError, LimitReason
from server.limits.pacing import TokenBucket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["AdmittedRequest", "Key", "PrincipalLimits"]

MAX_ACCOUNTS = 10_000
"""Accounts after which those are dropped that are as good as new."""

_BUSY_SECONDS = 1.0
# When a client should try again that has too many requests in progress; nobody knows when one of them ends.

_TOKEN_SECONDS = 0.05
_TOKEN_BYTES = 65_536
# What a request may cost that counts as one. Nearly all take some milliseconds, the first ones of a server more.

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
    """A request in progress; `size` are the bytes of its body, as long as it is not read those that it may have."""

    account: _Account
    size: int

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

    def __len__(self) -> int:
        """Return how many principals have an account."""
        return len(self._accounts)

    @contextmanager
    def admitted(self, principal: Key, size: int = 0) -> Iterator[AdmittedRequest]:
        """Count a request with a body of `size` bytes as in progress within the block.

        Raises:
            LimitExceededError: the request exceeds a limit; it is not counted.
        """
        account = self._admit(principal, size)
        request = AdmittedRequest(account, size)
        try:
            yield request
        finally:
            account.running -= 1
            account.size -= request.size

    def _admit(self, principal: Key, size: int) -> _Account:
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
        return account

    def _opened(self, principal: Key, now: float) -> _Account:
        if len(self._accounts) >= MAX_ACCOUNTS:
            self._accounts = {key: each for key, each in self._accounts.items() if not self._is_as_new(each, now)}
        account = self._accounts[principal] = _Account(TokenBucket(self._rate, self._burst, now))
        return account

    def _is_as_new(self, account: _Account, now: float) -> bool:
        return not account.running and (not self._rate or account.bucket.is_full(now))
