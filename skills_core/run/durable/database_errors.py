"""Describes errors of the database and of dbos in words that are safe to show.

Their own messages may contain recorded values. A message is shown only where it cannot: for a failed connection, and
for the classes of SQLSTATE whose messages name only database objects.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import psycopg
from dbos import error as dbos_errors
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from skills_core.run.durable.errors import StoreError, StoreUnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["DATABASE_ERRORS", "as_store_errors", "describe_error", "reason_of", "unreachable"]

DATABASE_ERRORS: Final = (SQLAlchemyError, dbos_errors.DBOSException, psycopg.Error, sqlite3.Error)

_SQLITE: Final = {
    sqlite3.SQLITE_ERROR: "it lacks a table, or was written by another version or program",
    sqlite3.SQLITE_PERM: "this user may not use the file; check its permissions",
    sqlite3.SQLITE_READONLY: "the file cannot be written; check its permissions and those of its folder",
    sqlite3.SQLITE_BUSY: "another program holds the file locked; end that program, or try again",
    sqlite3.SQLITE_LOCKED: "another program holds the file locked; end that program, or try again",
    sqlite3.SQLITE_IOERR: "the disk failed to read or write the file; check the disk",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; restore a copy, or move it away to begin a new record",
    sqlite3.SQLITE_FULL: "the disk is full; make room and try again",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened; check that its folder is there and may be written to",
    sqlite3.SQLITE_CONSTRAINT: "the database refuses what is to be recorded",
    sqlite3.SQLITE_NOTADB: "the file is no SQLite database; name another file, or move it away",
}
"""The meaning of SQLite's primary result codes, and what to do."""

_SAFE_CLASSES: Final = frozenset({"08", "25", "28", "3D", "3F", "42", "53", "54", "55", "57", "58"})
"""Classes of SQLSTATE whose messages name tables, users and limits, but no values of rows."""

_CHECK_HINT: Final = "check that PostgreSQL runs there and that this user may use the database"


@contextmanager
def as_store_errors(place: str) -> Iterator[None]:
    """Raise StoreError for every error of the database at `place`, or of dbos, inside the block."""
    try:
        yield
    except DATABASE_ERRORS as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        kind = StoreUnreachableError if isinstance(cause, psycopg.OperationalError) else StoreError
        raise kind(f"The database of runs {place} cannot be used: {describe_error(error)}.") from None


def unreachable(place: str, why: str) -> StoreUnreachableError:
    """Return the error for a database that is not there now."""
    said = why.rstrip(".")
    return StoreUnreachableError(f"The database of runs {place} cannot be reached: {said}; {_CHECK_HINT}.")


def describe_error(error: Exception) -> str:
    """Return the type of an error and, if known, the reason."""
    reason = reason_of(error)
    return f"{type(error).__name__} ({reason})" if reason else type(error).__name__


def reason_of(error: Exception) -> str:
    """Return why a database or dbos failed and what to do, without recorded values; "" if unknown."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, sqlite3.Error):
        code = getattr(cause, "sqlite_errorcode", None)
        return "" if code is None else _SQLITE.get(code & 0xFF, "")
    if isinstance(cause, psycopg.Error):
        return _postgres_reason(cause)
    if isinstance(cause, PoolTimeoutError):
        return "all connections to it are in use; perform fewer runs at once, or try again"
    return ""


def _postgres_reason(error: psycopg.Error) -> str:
    if error.sqlstate is None:  # the server was not reached, or the connection broke
        said = " ".join(str(error).split())[:300]
        return f"{said}; {_CHECK_HINT}" if said else f"the connection is lost; {_CHECK_HINT}"
    said = " ".join((error.diag.message_primary or "").split())[:300]
    return f"{said}; {_CHECK_HINT}" if said and error.sqlstate[:2] in _SAFE_CLASSES else f"SQLSTATE {error.sqlstate}"
