"""What work has used: requests to models, dollars and seconds, counted by all processes in one file, and its bounds.

A piece of work, such as one run of an agent, sets aside what it may use before it begins, and what it has used is
counted when it ends. It needs room for as much as the most expensive piece of its kind has used, and for twice as much
while others are under way; the first of a kind, which nothing was measured of, sets aside all that is left, so that
others wait for it. So a bound is exceeded at most by what one piece uses more than any of its kind before it, or more
than twice as much if several are under way.

A cost that nobody tells never counts as zero: such a piece counts as the most expensive one of its kind, and if no cost
of its kind is known, a bound of the cost lets no further one begin. Everything counts for 24 hours.
"""

from __future__ import annotations

import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from skills_core.diagnostics import counted, printable
from skills_core.errors import SkillsError

WINDOW_SECONDS: Final = 86_400.0
"""How long what was used counts."""

RENEW_SECONDS: Final = 20.0
"""How often a process that works says so, at least."""

_STALE_SECONDS: Final = 90.0
# Without a sign for so long, a process counts as killed; what it has set aside is then counted like an unknown cost.

_WAIT_SECONDS: Final = 30.0

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, started REAL NOT NULL, renewed REAL NOT NULL);
CREATE TABLE IF NOT EXISTS pieces (
    id INTEGER PRIMARY KEY, session TEXT NOT NULL, kind TEXT NOT NULL, at REAL NOT NULL, state TEXT NOT NULL,
    fixed INTEGER NOT NULL, requests INTEGER, cost REAL, tokens INTEGER, seconds REAL
);
CREATE INDEX IF NOT EXISTS pieces_at ON pieces (at);
"""
# The requests of a piece are fixed if they are known before. While it is open, its requests and cost are set aside.

_INSERT: Final = (
    "INSERT INTO pieces (session, kind, at, state, fixed, requests, cost) VALUES (?, ?, ?, 'open', ?, ?, ?)"
)
_END: Final = (
    "UPDATE pieces SET state = 'ended', requests = coalesce(?, requests), cost = ?, tokens = ?, seconds = ? - at "
    "WHERE id = ?"
)
_CUT: Final = "UPDATE pieces SET state = 'cut', cost = NULL, requests = CASE WHEN fixed THEN requests END WHERE id = ?"
_CUT_STALE: Final = _CUT.replace(
    "id = ?", "state = 'open' AND session NOT IN (SELECT id FROM sessions WHERE renewed > ?)"
)

_KINDS: Final = """
SELECT kind, count(*), total(requests), max(requests), sum(requests IS NULL), total(cost), max(cost),
       sum(cost IS NULL AND state = 'ended'), sum(cost IS NULL AND state = 'cut'), max(seconds),
       avg(tokens), avg(cost), avg(seconds)
FROM pieces WHERE at > ? AND state != 'open' GROUP BY kind
"""


class SpendingError(SkillsError):
    """The file of what was used cannot be read or written."""


class BoundReachedError(SkillsError):
    """A bound leaves no room for a further piece of work; the message says which one."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most that work may use within 24 hours: dollars, requests, and seconds of working; None is no bound."""

    cost: float | None = None
    requests: int | None = None
    seconds: float | None = None

    def __bool__(self) -> bool:
        """Whether anything is bounded."""
        return self != Bounds()


@dataclass(frozen=True, slots=True)
class Use:
    """What one piece of work has used; None is unknown."""

    requests: int | None = None
    cost: float | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class KindOfWork:
    """What the pieces of one kind have used in all and at most; `unknown` have ended without a known cost.

    `uncounted` have an unknown number of requests, and `cut` have not ended by themselves. The means are of those that
    are known, None if none is.
    """

    count: int = 0
    requests: float = 0.0
    most_requests: int | None = None
    uncounted: int = 0
    cost: float = 0.0
    most_cost: float | None = None
    unknown: int = 0
    cut: int = 0
    most_seconds: float | None = None
    mean_tokens: float | None = None
    mean_cost: float | None = None
    mean_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Spent:
    """What was used within 24 hours. `seconds` are those in which processes worked, each by itself.

    `unknown` pieces have a cost that nothing is known of, so `cost` lacks them. What is `reserved` is set aside for
    open pieces.
    """

    requests: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    unknown: int = 0
    reserved_requests: int = 0
    reserved_cost: float = 0.0
    kinds: dict[str, KindOfWork] = field(default_factory=dict)


@dataclass(slots=True)
class SpendingFile:
    """The file, as one process uses it. It is made with the first piece of work."""

    file: Path
    session: str = field(default_factory=lambda: secrets.token_hex(8))

    def spent(self) -> Spent:
        """Return what was used; nothing if there is no file.

        Raises:
            SpendingError: the file cannot be read.
        """
        if not self.file.exists():
            return Spent()
        with self._transaction() as connection:
            return _spent(connection, time.time())

    def renew(self) -> None:
        """Say that this process works.

        Raises:
            SpendingError: the file cannot be written.
        """
        with self._transaction() as connection:
            self._renew(connection, time.time())

    def begin(self, kind: str, bounds: Bounds, requests: int | None = None) -> int | None:
        """Set aside what a piece of work may use; return its number, or None if it has to wait for others to end.

        `requests` is how many it makes, None if this is not known before.

        Raises:
            BoundReachedError: the bounds leave no room for it.
            SpendingError: the file cannot be written.
        """
        now = time.time()
        with self._transaction() as connection:
            self._renew(connection, now)
            spent = _spent(connection, now)
            known = spent.kinds.get(kind, KindOfWork())
            _check_seconds(spent, known, bounds.seconds)
            try:
                aside = _aside(spent, known, bounds, requests)
            except _NotYetError:
                return None
            row = (self.session, kind, now, requests is not None, aside.requests, aside.cost)
            return connection.execute(_INSERT, row).lastrowid

    def end(self, number: int, used: Use | None) -> None:
        """Count what a piece of work has used; None if it was cut, so that nothing is known.

        Raises:
            SpendingError: the file cannot be written.
        """
        now = time.time()
        with self._transaction() as connection:
            self._renew(connection, now)
            if used is None:
                connection.execute(_CUT, (number,))
            else:
                connection.execute(_END, (used.requests, used.cost, used.tokens, now, number))

    def _renew(self, connection: sqlite3.Connection, now: float) -> None:
        connection.execute(
            "INSERT INTO sessions VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET renewed = excluded.renewed",
            (self.session, now, now),
        )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.file, timeout=_WAIT_SECONDS, isolation_level=None)) as connection:
                connection.executescript(_TABLES)
                connection.execute("BEGIN IMMEDIATE")
                with connection:
                    _settle(connection, time.time())
                    yield connection
        except (sqlite3.Error, OSError) as error:
            raise SpendingError(
                f"{printable(str(self.file))}: what was used cannot be counted: {error}; repair or remove the file"
            ) from error


def _settle(connection: sqlite3.Connection, now: float) -> None:
    """Forget what is too old, and cut what killed processes have left open."""
    connection.execute("DELETE FROM pieces WHERE at <= ? AND state != 'open'", (now - WINDOW_SECONDS,))
    connection.execute("DELETE FROM sessions WHERE renewed <= ?", (now - WINDOW_SECONDS,))
    connection.execute(_CUT_STALE, (now - _STALE_SECONDS,))


def _spent(connection: sqlite3.Connection, now: float) -> Spent:
    kinds = {row[0]: KindOfWork(*row[1:]) for row in connection.execute(_KINDS, (now - WINDOW_SECONDS,))}
    open_sums = "SELECT total(requests), total(cost) FROM pieces WHERE state = 'open'"
    requests, aside = connection.execute(open_sums).fetchone()
    (seconds,) = connection.execute("SELECT total(max(renewed - started, 0)) FROM sessions").fetchone()
    untold = {name: each.unknown + each.cut for name, each in kinds.items()}
    return Spent(
        requests=sum(int(each.requests) + each.uncounted * (each.most_requests or 1) for each in kinds.values()),
        cost=sum(each.cost + untold[name] * (each.most_cost or 0.0) for name, each in kinds.items()),
        seconds=seconds,
        unknown=sum(untold[name] for name, each in kinds.items() if each.most_cost is None),
        reserved_requests=int(requests),
        reserved_cost=aside,
        kinds=kinds,
    )


def _check_seconds(spent: Spent, known: KindOfWork, bound: float | None) -> None:
    if bound is None:
        return
    longest = known.most_seconds or 0.0
    if spent.seconds >= bound or spent.seconds + longest > bound:
        more = f", and a further piece of this work may take {longest:,.0f}" if spent.seconds < bound else ""
        raise BoundReachedError(f"{spent.seconds:,.0f} of {bound:g} seconds are used{more} (--max-seconds)")


def _aside(spent: Spent, known: KindOfWork, bounds: Bounds, requests: int | None) -> Use:
    """Return what is to be set aside.

    Raises:
        BoundReachedError: not so much is left.
        _NotYetError: what is left is set aside for other pieces.
    """
    if bounds.cost is not None and known.unknown and known.most_cost is None:
        raise BoundReachedError(
            f"the cost of {counted(known.unknown, 'run')} is unknown: neither the agent nor its tokens and a price "
            "tell it, as when --timeout ends it, so that --max-cost cannot hold; give prices with --price-in and "
            "--price-out or more time, and run once without --max-cost, which makes the cost known"
        )
    wanted = known.most_requests if requests is None else requests
    made = _free(bounds.requests, spent.requests, spent.reserved_requests, wanted, exact=requests is not None)
    if isinstance(made, _Full):
        more = f", and further work may take {wanted:,}" if made.left else ""
        raise BoundReachedError(f"{spent.requests:,} of {bounds.requests:,} requests are used{more} (--max-requests)")
    cost = _free(bounds.cost, spent.cost, spent.reserved_cost, known.most_cost, exact=False)
    if isinstance(cost, _Full):
        more = f", and further work may cost ${known.most_cost:,.4f}" if cost.left else ""
        raise BoundReachedError(f"${spent.cost:,.4f} of ${bounds.cost:g} are used{more} (--max-cost)")
    return Use(None if made is None else int(made), cost)


class _NotYetError(Exception):
    """What is left is set aside for pieces under way."""


@dataclass(frozen=True, slots=True)
class _Full:
    """No room, whatever pieces under way use; `left` tells whether anything is left at all."""

    left: bool


def _free(
    bound: float | None, used: float, reserved: float, wanted: float | None, *, exact: bool
) -> float | _Full | None:
    """Return how much is set aside, all that is left if it is unknown what is `wanted`.

    What is not `exact` may become more, so twice as much is set aside; close to the bound, one piece goes at a time.
    """
    if bound is None:
        return wanted
    left = round(bound - used, 9)
    if left <= 0 and wanted != 0:
        return _Full(left=False)
    if wanted is not None and wanted > left:
        return _Full(left=True)
    free = round(left - reserved, 9)
    if free <= 0 and wanted != 0:
        raise _NotYetError
    if wanted is None:
        return free
    safe = wanted if exact else 2 * wanted
    if safe > free and (reserved > 0 or exact):
        raise _NotYetError
    return min(safe, free)
