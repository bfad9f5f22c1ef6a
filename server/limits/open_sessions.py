"""Accounts of the sessions of the handshake era that each principal has open."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from server.limits.errors import LimitExceededError, LimitReason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from server.limits.principal_limits import Key

__all__ = ["OpenSessions"]


@dataclass(slots=True)
class _Session:
    """When a session was used last, and how many of its requests are in progress."""

    used: float
    running: int = 0


@dataclass(slots=True)
class _Account:
    """The sessions of a principal by id, and how many are being opened."""

    sessions: dict[str, _Session] = field(default_factory=dict)
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
        self._accounts: dict[Key, _Account] = {}

    def __len__(self) -> int:
        """Return how many principals have an account."""
        return len(self._accounts)

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
        account = self._accounts.setdefault(principal, _Account())
        if len(account.sessions) + account.opening >= self._most:
            message = f"too many sessions; at most {self._most} at a time, so end those that are not needed"
            raise LimitExceededError(LimitReason.SESSIONS, message, self._seconds_to_next(account, now))

        def note(session: str) -> None:
            account.sessions[session] = _Session(self._clock())

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

    def _left(self, session: _Session, now: float) -> float:
        return self._idle if session.running else session.used + self._idle - now

    def _seconds_to_next(self, account: _Account, now: float) -> float:
        return min((self._left(each, now) for each in account.sessions.values()), default=self._idle)

    def _drop_if_empty(self, principal: Key, account: _Account) -> None:
        if not account.sessions and not account.opening:
            self._accounts.pop(principal, None)
