"""What lies between dbos and this package: its log, its context, its rows, its serializer, and its errors.

Values are recorded as JSON, and errors as nothing but their type. Messages of databases may contain recorded values.
One is shown only where it cannot: for a failed connection, and for the classes of SQLSTATE whose messages name only
database objects. Rows may be damaged, or written by another program.

The second half has all uses of dbos's private API, which is probed each time an engine opens:

- dbos reads a record with `pickle` if the record says so, whatever serializer is configured. Anyone who can write to
  the database could run code here, so that reader is disabled.
- dbos retries without end while another program holds a SQLite file locked, so a command would never return.
- dbos retries without end while a database is away. Its client can be told not to, its engine cannot.
- dbos has no public call that takes a run out of its queue without ending it.
- dbos has no public call that stops its queues before its runs: each run that ends meanwhile would begin another.
- dbos has no public call that requeues a run only if a given executor still owns it, and that counts the attempt.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg
import sqlalchemy as sa
from dbos import DBOS, Serializer, _dbos, _serialization
from dbos import error as dbos_errors
from dbos._sys_db import SystemDatabase
from dbos._utils import GlobalParams
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from skills_core.runs.durable.recorded_run import FINISHED, RecordedRun, RunState, StoreError, StoreUnreachableError

if TYPE_CHECKING:
    import threading

    from dbos import DBOSClient, WorkflowStatus

    from skills_core.format.yaml12 import JsonObject, JsonValue


def silence_dbos_log() -> None:
    """Drop the log of dbos.

    Without a handler, dbos would add one for the standard error of this moment, and fail once that is closed.
    """
    log = logging.getLogger("dbos")
    log.setLevel(logging.CRITICAL)
    log.propagate = False
    if not any(isinstance(handler, logging.NullHandler) for handler in log.handlers):
        log.addHandler(logging.NullHandler())


T = TypeVar("T")


async def outside_workflow(work: Coroutine[None, None, T]) -> T:
    """Await `work` in an empty context, so that dbos does not attribute it to the current run or step."""
    return await asyncio.create_task(work, context=Context())


async def status_row(run_id: str) -> WorkflowStatus | None:
    """Return the row of a run without its input and outcome, None if no run has this id."""

    async def get() -> WorkflowStatus | None:
        rows = await DBOS.list_workflows_async(workflow_ids=[run_id], load_input=False, load_output=False)
        return rows[0] if rows else None

    return await outside_workflow(get())


_VALUE: Final = "value"
_ERROR: Final = "error"


class JobFailedError(Exception):
    """A job raised an error of the type `problem`. The error's text is dropped: it may contain a secret."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


def round_trip(value: object) -> JsonValue:
    """Return a value as it reads back from a record, so that a first execution and a replay get the same value.

    Raises:
        TypeError, ValueError: the value is not JSON.
    """
    result: JsonValue = json.loads(_encode(value))
    return result


def round_trip_object(value: object) -> JsonObject:
    """Return an object as it reads back from a record.

    Raises:
        TypeError, ValueError: the value is not a JSON object.
    """
    result = round_trip(value)
    if not isinstance(result, dict):
        raise TypeError("the input and the outcome of a job are JSON objects")
    return result


def _encode(value: object) -> str:
    # ASCII escapes, because PostgreSQL and UTF-8 cannot hold the character zero and lone surrogates.
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


class JsonSerializer(Serializer):
    """JSON in an envelope that distinguishes values from errors."""

    def name(self) -> str:
        """Return the serializer name stored with each record."""
        return "skillserve_json"

    def serialize(self, data: Any) -> str:  # noqa: ANN401 - dbos hands over what it has
        """Write a value, or the type of an error."""
        if isinstance(data, JobFailedError):
            return _encode({_ERROR: data.problem})
        if isinstance(data, BaseException):
            return _encode({_ERROR: type(data).__name__})
        return _encode({_VALUE: data})

    def deserialize(self, serialized_data: str) -> Any:  # noqa: ANN401 - see serialize
        """Read a value, or an error with nothing but its type."""
        record = json.loads(serialized_data)
        if not isinstance(record, dict) or record.keys() not in ({_VALUE}, {_ERROR}):
            raise ValueError("the record was not written by skillserve")
        return record[_VALUE] if _VALUE in record else JobFailedError(str(record[_ERROR])[:200])


STATE_BY_STATUS: Final[Mapping[str, RunState]] = {
    "ENQUEUED": RunState.WAITING,
    "DELAYED": RunState.WAITING,
    "PENDING": RunState.RUNNING,
    "SUCCESS": RunState.DONE,
    "ERROR": RunState.FAILED,
    "CANCELLED": RunState.CANCELLED,
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": RunState.GIVEN_UP,
}
"""The state of a run by dbos's status."""

CANCELLED: Final = "CANCELLED"
"""dbos's status of a cancelled run."""

_UNREADABLE: Final = "UnreadableRecord"


def dbos_statuses(states: Collection[RunState]) -> list[str]:
    """Return dbos's statuses for these states."""
    wanted = set(states) | ({RunState.WAITING, RunState.RUNNING} if RunState.OTHER_FORMAT in states else set())
    return [status for status, state in STATE_BY_STATUS.items() if state in wanted]


FINISHED_STATUSES: Final = dbos_statuses(FINISHED)


def recorded_run(row: WorkflowStatus, version: str, *, with_outcome: bool) -> RecordedRun:
    """Return the run of a row, as a worker of this version sees it.

    `with_outcome` says that the row was loaded with its outcome.
    """
    kind, given = _kind_and_input(row)
    state, problem = STATE_BY_STATUS.get(row.status, RunState.FAILED), ""
    if state in {RunState.WAITING, RunState.RUNNING} and row.app_version != version:
        state = RunState.OTHER_FORMAT
    outcome = row.output if isinstance(row.output, dict) and state is RunState.DONE else None
    if with_outcome and state is RunState.FAILED:
        problem = row.error.problem if isinstance(row.error, JobFailedError) else _UNREADABLE
    elif with_outcome and state is RunState.DONE and outcome is None:
        state, problem = RunState.FAILED, _UNREADABLE
    return RecordedRun(
        run_id=row.workflow_id,
        kind=kind,
        given=given,
        state=state,
        run_format=(row.app_version or "").rpartition(".")[2],
        worker=row.executor_id or "",
        attempts=row.recovery_attempts or 0,
        created=(row.created_at or 0) / 1000,
        updated=(row.updated_at or 0) / 1000,
        outcome=outcome,
        problem=problem,
    )


def _kind_and_input(row: WorkflowStatus) -> tuple[str, JsonObject]:
    match row.input:
        case {"args": [str(kind), dict(given)]}:
            return kind, given
        case _:
            return "", {}


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
    sqlite3.SQLITE_NOTADB: "the file is not a SQLite database; name another file, or move it away",
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
    """Check that the launched dbos has a database whose retries can be limited, and queues that can be stopped.

    Raises:
        StoreError: it has none.
    """
    with _checking():
        _require(vars(_database()).get(_RETRIES) is True)
        _require(bool(_stop_events() and _queue_threads()))


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


def stop_queues(seconds: float) -> None:
    """Take no more runs out of queues, and wait up to `seconds` for what is being taken out."""
    for event in _stop_events():
        event.set()
    for thread in _queue_threads():
        thread.join(seconds)


def _stop_events() -> list[threading.Event]:
    return list(getattr(_dbos._dbos_global_instance, "background_thread_stop_events", ()))  # noqa: SLF001 - no public way


def _queue_threads() -> list[threading.Thread]:
    """Return the thread that waits for those of the single queues."""
    threads = getattr(_dbos._dbos_global_instance, "_background_threads", ())  # noqa: SLF001 - no public way
    return [each for each in threads if each.name.endswith("(queue_thread)")]


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
