"""Connections to a PostgreSQL store, none of which waits without a limit.

A server that is stopped refuses connections, which every client notices. A server that is suspended, or behind a
network that drops packets, accepts what it is sent and never answers; neither its own time limits nor those of TCP end
such a wait, so the client has to.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg
import sqlalchemy as sa
from psycopg.conninfo import conninfo_to_dict

from skills_core.run.durable.errors import StoreError, StoreUnreachableError

if TYPE_CHECKING:
    from collections.abc import Generator

    from skills_core.run.durable.store import PostgresStore

__all__ = [
    "ANSWER_SECONDS",
    "BoundedConnection",
    "connect",
    "create_pool",
    "error_text",
    "postgres_error",
    "require_valid_url",
    "set_parameter",
]

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
