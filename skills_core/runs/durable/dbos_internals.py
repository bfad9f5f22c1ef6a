"""All uses of dbos's private API; probed each time an engine opens.

- dbos reads a record with `pickle` if the record says so, whatever serializer is configured. Anyone who can write to
  the database could run code here, so that reader is disabled.
- dbos retries without end while another program holds a SQLite file locked, so a command would never return.
- dbos retries without end while a database is away. Its client can be told not to, its engine cannot.
- dbos has no public call that takes a run out of its queue without ending it.
- dbos has no public call that requeues a run only if a given executor still owns it, and that counts the attempt.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from dbos import _dbos, _serialization
from dbos._sys_db import SystemDatabase
from dbos._utils import GlobalParams

from skills_core.runs.durable.dbos_adapter import JsonSerializer, reason_of
from skills_core.runs.durable.recorded_run import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dbos import DBOSClient


LOCKED_SECONDS: Final = 10.0
"""Seconds that a command waits while another program holds the SQLite file locked."""

_RETRIES: Final = "_retry_connection_errors"

_PICKLED_NONE: Final = "gAROLg=="


class _UnreadableError(ValueError):
    """A record is marked as a pickle."""


def _refuse_pickle(self: object, serialized_data: str) -> Any:  # noqa: ANN401 - replaces dbos's reader
    del self, serialized_data
    raise _UnreadableError("records are JSON")


@contextmanager
def without_pickle() -> Iterator[None]:
    """Disable dbos's pickle reader inside the block."""
    reader = _serialization.DefaultSerializer.deserialize
    _serialization.DefaultSerializer.deserialize = _refuse_pickle  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        _serialization.DefaultSerializer.deserialize = reader  # type: ignore[method-assign]


def check_compatibility() -> None:
    """Check that this version of dbos fits, and that no other part of the process uses it.

    Raises:
        StoreError: it does not fit, or is in use.
    """
    with _checking():
        instance, in_cloud = _dbos._dbos_global_instance, GlobalParams.dbos_cloud  # noqa: SLF001 - no public way
        _require(callable(getattr(SystemDatabase, "reenqueue_for_recovery", None)))
        columns = SystemDatabase.tables.workflow_status.c
        _require({"executor_id", "owner_xid", "status", "workflow_uuid"} <= set(columns.keys()))
        # Its objects have it; while an engine is open, the class has ours.
        _require(instance is not None or _RETRIES not in vars(SystemDatabase))
        _require(_reads_only_json())
    if instance is not None:  # DBOS() would return this instance
        raise StoreError(
            "This process has an open engine for runs already. Close it first: a process can have only one."
        )
    if in_cloud:
        raise StoreError("The environment variable DBOS__CLOUD is set, which would hand runs to a service. Unset it.")


class _Retries:
    """Stands for the attribute by which a database of dbos tells whether to try again after a connection error."""

    def __init__(self, allowed: Callable[[], bool]) -> None:
        self._allowed = allowed
        self.databases: list[SystemDatabase] = []

    def __get__(self, database: SystemDatabase, _: object = None) -> bool:
        return bool(vars(database).get(_RETRIES)) and self._allowed()

    def __set__(self, database: SystemDatabase, value: bool) -> None:  # noqa: FBT001 - as dbos sets it
        vars(database)[_RETRIES] = value
        self.databases.append(database)


@contextmanager
def retrying_while(allowed: Callable[[], bool]) -> Iterator[None]:
    """Let dbos repeat a call after a connection error only as long as `allowed()`, and not at all after the block."""
    retries = _Retries(allowed)
    setattr(SystemDatabase, _RETRIES, retries)
    try:
        yield
    finally:
        for database in retries.databases:  # threads of dbos may still be waiting
            vars(database)[_RETRIES] = False
        delattr(SystemDatabase, _RETRIES)


def check_launched() -> None:
    """Check that the launched dbos has a database whose retries can be limited.

    Raises:
        StoreError: it has none.
    """
    with _checking():
        _require(vars(_database()).get(_RETRIES) is True)


@contextmanager
def _checking() -> Iterator[None]:
    try:
        yield
    except Exception:  # noqa: BLE001 - another version may fail in any way
        raise StoreError(f"dbos {version('dbos')} lacks features that runs rely on. Install dbos 3.4.") from None


def _require(is_there: bool) -> None:  # noqa: FBT001 - the condition itself
    if not is_there:
        raise NotImplementedError


def _reads_only_json() -> bool:
    ours, mark = JsonSerializer(), _serialization.DefaultSerializer().name()
    readers = (
        _serialization.deserialize_value,
        _serialization.deserialize_args,
        _serialization.deserialize_exception,
    )
    refused = 0
    with without_pickle():
        for read in readers:
            try:
                read(_PICKLED_NONE, mark, ours)
            except _UnreadableError:
                refused += 1
    return refused == len(readers)


def requeue(run_id: str, executor: str, queue: str) -> bool:
    """Requeue a running run if `executor` still owns it, in `queue` if it had none; return whether it did."""
    database = _database()
    return database is not None and database.reenqueue_for_recovery(run_id, [executor], queue)


def fail_when_locked(client: DBOSClient, place: str, seconds: float) -> None:
    """Make calls of the client raise StoreError after `seconds` in which another program holds the SQLite file locked.

    The error names the file as `place`.
    """
    engine = client._sys_db.engine  # noqa: SLF001 - no public way
    if engine.dialect.name != "sqlite":
        return

    def wait(connection: Any, _: object) -> None:  # noqa: ANN401 - the driver's type
        connection.execute(f"PRAGMA busy_timeout={round(seconds * 1000)}")

    def refuse(context: sa.engine.ExceptionContext) -> None:
        error = context.original_exception
        if isinstance(error, sqlite3.Error) and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            raise StoreError(f"The database of runs {place} cannot be used: {reason_of(error)}.") from None

    sa.event.listen(engine, "connect", wait)
    sa.event.listen(engine, "handle_error", refuse)
    engine.dispose()  # connections that are open already have dbos's timeout


def remove_from_queue(client: DBOSClient, run_id: str) -> bool:
    """Mark a queued run as running without an executor; return whether it was queued.

    Its times, its count of attempts and the name of its queue do not change.
    """
    database = client._sys_db  # noqa: SLF001 - no public way
    table = database.tables.workflow_status
    change = (
        sa.update(table)
        .where(table.c.workflow_uuid == run_id, table.c.status == "ENQUEUED")
        .values(status="PENDING", executor_id="", owner_xid=None)
    )
    with database.engine.begin() as connection:
        return connection.execute(change).rowcount > 0


def _database() -> SystemDatabase | None:
    instance = _dbos._dbos_global_instance  # noqa: SLF001 - no public way
    database = getattr(instance, "_sys_db_field", None)
    return database if isinstance(database, SystemDatabase) else None
