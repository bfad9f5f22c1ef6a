"""Connections to a PostgreSQL store, none of which waits without a limit, and the lease of a worker there.

A server that is stopped refuses connections, which every client notices. A server that is suspended, or behind a
network that drops packets, accepts what it is sent and never answers; neither its own time limits nor those of TCP end
such a wait, so the client has to.

A lease is a row with the time of the last renewal, and an advisory lock that the worker's connection holds. A worker is
dead when its lock is free and its row has not been renewed for the grace time, by the database's clock. The row holds
the grace time: workers may have different ones, and each must release its runs before others take them. Neither sign
alone is a proof: after a restart of the database all locks are free, and a renewal can be late. The server closes a
connection that has been silent for the grace time, so a suspended process does not keep its lock for ever.

A worker that could not renew for two thirds of the grace time releases its runs by itself, before others may take them.
A worker that has just connected waits for the grace time before it declares others dead: they may have lost the same
database, and need the time to reconnect.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from threading import Lock
from time import monotonic
from typing import Any, Final, LiteralString, TypeVar

import psycopg
import sqlalchemy as sa
from psycopg.conninfo import conninfo_to_dict

from skills_core.runs.durable.recorded_run import StoreError, StoreUnreachableError
from skills_core.runs.durable.store import SCHEMA, LeaseLostError, PostgresStore, new_worker, now

ANSWER_SECONDS: Final = 10.0
"""The longest wait of a run for one answer of its database."""

_SERVER_SHARE: Final = 0.8
"""The server cancels a statement earlier than its client gives up, so that the connection can be used again."""

_IDLE_TRANSACTION_SECONDS: Final = 60.0
"""After so long the server ends a session that holds locks and says nothing."""

_POOL_SIZE: Final = 10
_MAX_PORT: Final = 65_535

T = TypeVar("T")


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that is closed once the server has left a statement without an answer for `answer_seconds`."""

    answer_seconds: float = ANSWER_SECONDS
    _listens: bool = False

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **kwargs: Any) -> T:  # noqa: ANN401 - as psycopg has them
        """Wait as psycopg does, and raise OperationalError when the time is over."""
        if self._listens:
            return super().wait(gen, *args, **kwargs)
        return super().wait(self._bounded(gen), *args, **kwargs)

    def notifies(self, **kwargs: Any) -> Generator[psycopg.Notify, None, None]:  # noqa: ANN401 - as psycopg has them
        """Yield notifications, for which a connection may wait for ever."""
        self._listens = True
        return super().notifies(**kwargs)

    def _bounded(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        end = monotonic() + self.answer_seconds
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted  # 0 if only the interval of psycopg has passed
                if not ready and monotonic() >= end:
                    # The answer would be taken for that of the next statement.
                    self.close()
                    raise psycopg.OperationalError(f"no answer within {self.answer_seconds:g} seconds")
                wanted = gen.send(ready)
        except StopIteration as done:
            value: T = done.value
            return value


def connect(
    store: PostgresStore, name: str, answer_seconds: float = ANSWER_SECONDS, *, autocommit: bool = True
) -> BoundedConnection:
    """Connect as `name`, within `answer_seconds`, and wait as long for each answer.

    Raises:
        psycopg.Error: the server cannot be reached, or refuses the user.
    """
    seconds = max(2, round(answer_seconds))
    connection = BoundedConnection.connect(
        store.url,
        autocommit=True,
        application_name=name,
        connect_timeout=seconds,
        tcp_user_timeout=seconds * 1000,
        keepalives_idle=seconds,
    )
    try:
        connection.answer_seconds = answer_seconds
        set_parameter(connection, "statement_timeout", answer_seconds * _SERVER_SHARE)
        set_parameter(connection, "idle_in_transaction_session_timeout", _IDLE_TRANSACTION_SECONDS)
        connection.autocommit = autocommit
    except psycopg.Error:
        connection.close()
        raise
    return connection


def set_parameter(connection: psycopg.Connection[Any], name: str, seconds: float) -> None:
    """Set a time limit of the session."""
    connection.execute("SELECT set_config(%s, %s, false)", (name, str(max(1, round(seconds * 1000)))))


def create_pool(store: PostgresStore) -> sa.Engine:
    """Return a pool of connections for dbos; it connects when it is used."""
    return sa.create_engine(
        sa.URL.create("postgresql+psycopg"),
        creator=lambda: connect(store, "skillserve-runs", autocommit=False),
        pool_size=_POOL_SIZE,
        max_overflow=0,
        pool_timeout=ANSWER_SECONDS,
        pool_pre_ping=True,
        hide_parameters=True,
    )


def require_valid_url(url: str) -> None:
    """Check the URL here: libpq's message about a malformed one may contain parts of the password.

    Raises:
        StoreError: it is malformed.
    """
    try:
        parts = conninfo_to_dict(url)
        ports = str(parts.get("port") or "0").split(",")
        is_read = all(port.isdecimal() and int(port) <= _MAX_PORT for port in ports)
        is_read = is_read and "@" not in str(parts.get("host") or "")
    except (psycopg.Error, UnicodeDecodeError):
        is_read = False
    if not is_read:
        expected = "expected postgresql://user@host:port/database"
        escapes = "In a password, write / as %2F, @ as %40 and % as %25."
        raise StoreError(f"The URL of the PostgreSQL database for runs cannot be read; {expected}. {escapes}")


def postgres_error(store: PostgresStore, error: psycopg.Error) -> StoreError:
    """Return the StoreError for a database that cannot be used, with what to check."""
    said = error_text(error).rstrip(".")
    kind = StoreUnreachableError if isinstance(error, psycopg.OperationalError) else StoreError
    return kind(
        f"The PostgreSQL database for runs, {store.place}, cannot be used: {said}. Check that PostgreSQL runs there, "
        "that the database exists, and that this user may use it."
    )


def error_text(error: psycopg.Error) -> str:
    """Return what the server or libpq said, on one line."""
    return " ".join(str(error).split())[:300] or type(error).__name__


_EXPIRES_AFTER: Final = 2 / 3
_ANSWERS_WITHIN: Final = 1 / 5
_LEAST_ANSWER_SECONDS: Final = 1.0
"""A renewal waits for a fifth of the grace time, at least for a second: two attempts end before the lease does."""
_PREPARE_LOCK: Final = 0x736B696C6C
"""The advisory lock for creating the table."""

# The schema in these statements is `store.SCHEMA`.
_CREATE: Final = (
    "CREATE SCHEMA IF NOT EXISTS skillserve",
    (
        "CREATE TABLE IF NOT EXISTS skillserve.workers"
        " (name text PRIMARY KEY, seen timestamptz NOT NULL, grace double precision NOT NULL)"
    ),
    "DELETE FROM skillserve.workers WHERE seen < now() - interval '1 day'",
)
_RENEW: Final = """
INSERT INTO skillserve.workers (name, seen, grace) VALUES (%s, now(), %s)
ON CONFLICT (name) DO UPDATE SET seen = now()
"""
_SILENCE: Final = """
SELECT grace, seen < now() - make_interval(secs => grace) FROM skillserve.workers WHERE name = %s
"""
_REMOVE: Final = "DELETE FROM skillserve.workers WHERE name = %s"
_TRY_LOCK: Final = "SELECT pg_try_advisory_lock(%s)"
_UNLOCK: Final = "SELECT pg_advisory_unlock(%s)"
_IS_ALIVE: Final = """
SELECT EXISTS (
    SELECT FROM skillserve.workers
    WHERE name = %(name)s
    AND seen >= now() - make_interval(secs => grace)
) OR EXISTS (
    SELECT FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
    WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND datname = current_database()
    AND (classid::bigint << 32 | objid::bigint) = %(key)s
)
"""
"""The same checks as in `taking_over`, without taking a lock: an observer must not look like the worker."""
_LOCK_UNLESS_HELD: Final = """
SELECT pg_try_advisory_lock(%(key)s) WHERE NOT EXISTS (
    SELECT FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND pid = pg_backend_pid() AND objsubid = 1
    AND (classid::bigint << 32 | objid::bigint) = %(key)s
)
"""
"""Takes the lock once: PostgreSQL counts how often a connection takes it."""


def _key(worker: str) -> int:
    """Return the key of a worker's advisory lock."""
    return int.from_bytes(hashlib.sha256(f"{SCHEMA}:{worker}".encode()).digest()[:8], "big", signed=True)


class PostgresLease:
    """This worker's row and lock, on a connection of its own."""

    def __init__(self, url: str, grace_seconds: float) -> None:
        """Connect, create the table if missing, and acquire the lease.

        Raises:
            StoreError: the database cannot be reached, or this user may not write there.
        """
        self._store = PostgresStore(url)
        self.place = self._store.place
        self._grace = grace_seconds
        self.worker = new_worker()
        self._one_at_a_time = Lock()
        self._connection: BoundedConnection | None = None
        self._connected = self._renewed = now()
        self.term = 0
        self._closed = False
        self._answer_seconds = ANSWER_SECONDS  # at first it may have to wait for another worker's preparations
        try:
            self._prepare()
            self._renew()
        except psycopg.Error as error:
            raise postgres_error(self._store, error) from None
        self._wait_at_most(min(max(_LEAST_ANSWER_SECONDS, grace_seconds * _ANSWERS_WITHIN), ANSWER_SECONDS))

    @property
    def holds(self) -> bool:
        """Whether the last renewal is so recent that no other worker can have declared this one dead."""
        return not self._closed and now() - self._renewed < self._grace * _EXPIRES_AFTER

    def renew(self) -> None:
        """Renew this worker's row, on a new connection if the old one is lost."""
        with self._one_at_a_time:
            for may_be_lost in (self._connection is not None, False):
                try:
                    self._renew()
                except psycopg.Error as error:
                    self._disconnect()
                    if not may_be_lost:
                        raise LeaseLostError(error_text(error)) from None
                else:
                    return

    @contextmanager
    def taking_over(self, worker: str) -> Iterator[bool]:
        """Yield whether the worker's lock is free and its row is gone or expired."""
        with self._one_at_a_time:
            try:
                locked = bool(self._ask(_TRY_LOCK, _key(worker)))
                dead = locked and self._silent(worker)
            except psycopg.Error as error:
                self._disconnect()
                raise LeaseLostError(error_text(error)) from None
            try:
                yield dead
            finally:
                with suppress(psycopg.Error):
                    if dead:
                        self._do(_REMOVE, worker)
                    if locked:
                        self._do(_UNLOCK, _key(worker))

    def close(self) -> None:
        """Remove the row and the lock, so that other workers need not wait."""
        self._closed = True
        with self._one_at_a_time:
            with suppress(psycopg.Error):
                self._do(_REMOVE, self.worker)
                self._do(
                    "SELECT pg_advisory_unlock_all()"
                )  # explicitly: the server notices a closed connection only later
            self._disconnect()

    def _silent(self, worker: str) -> bool:
        row = self._run(_SILENCE, (worker,)).fetchone()
        if row is None:  # the worker was closed in order, or another one has just taken over from it
            return True
        grace, is_old = row
        return bool(is_old) and now() - self._connected > grace

    def _prepare(self) -> None:
        require_valid_url(self._store.url)
        self._do("SELECT pg_advisory_lock(%s)", _PREPARE_LOCK)
        for statement in _CREATE:
            self._do(statement)
        self._do(_UNLOCK, _PREPARE_LOCK)

    def _renew(self) -> None:
        begun = now()
        # An earlier connection of this worker may hold the lock until the server notices that it is gone.
        self._do(_LOCK_UNLESS_HELD, key=_key(self.worker))
        self._do(_RENEW, self.worker, self._grace)
        if not self.holds:
            self.term += 1
        self._renewed = begun

    def _ask(self, statement: LiteralString, *values: object) -> object:
        row = self._run(statement, values).fetchone()
        return row[0] if row else None

    def _do(self, statement: LiteralString, *values: object, **named: object) -> None:
        self._run(statement, named or values)

    def _run(self, statement: LiteralString, values: tuple[object, ...] | dict[str, object]) -> psycopg.Cursor:
        if self._connection is None or self._connection.closed:
            self._connection = self._connect()
            self._connected = now()
        return self._connection.execute(statement, values)

    def _connect(self) -> BoundedConnection:
        connection = connect(self._store, f"skillserve worker {self.worker}", self._answer_seconds)
        set_parameter(connection, "idle_session_timeout", self._grace)
        return connection

    def _wait_at_most(self, seconds: float) -> None:
        self._answer_seconds = seconds
        if self._connection is not None:
            self._connection.answer_seconds = seconds

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()


@contextmanager
def observed_workers(store: PostgresStore) -> Iterator[Callable[[str], bool] | None]:
    """Yield a function that tells whether a worker is alive, None if no run was ever recorded in this database.

    A worker is alive if it holds its lock, or renewed its row within the grace time.

    Raises:
        StoreError: the database cannot be reached, or this user may not read there.
    """
    require_valid_url(store.url)
    try:
        connection = connect(store, "skillserve")
    except psycopg.Error as error:
        raise postgres_error(store, error) from None

    def is_alive(worker: str) -> bool:
        row = connection.execute(_IS_ALIVE, {"name": worker, "key": _key(worker)}).fetchone()
        return bool(row and row[0])

    with closing(connection):
        row = connection.execute("SELECT to_regclass('skillserve.workflow_status')").fetchone()
        yield is_alive if row is not None and row[0] is not None else None
