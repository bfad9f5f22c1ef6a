"""Start and stop of an engine: the lease of this worker, the tables, and the launch and shutdown of dbos."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread
import sqlalchemy as sa
from dbos import DBOS

from skills_core.runs.durable.dbos_adapter import (
    DATABASE_ERRORS,
    JsonSerializer,
    as_store_errors,
    check_launched,
    silence_dbos_log,
    stop_queues,
)
from skills_core.runs.durable.postgres import PostgresLease, create_pool
from skills_core.runs.durable.recorded_run import NESTED_SEPARATOR, StoreError
from skills_core.runs.durable.store import SCHEMA, FileLease, LeaseLostError, SqliteStore, require_private

if TYPE_CHECKING:
    import psycopg
    from dbos import DBOSConfig

    from skills_core.runs.durable.recorded_run import WorkerConfig
    from skills_core.runs.durable.store import Lease, Store
    from skills_core.runs.durable.worker import Worker


_FINAL_WRITE_SECONDS: Final = 5.0
"""Seconds allowed for recording that runs were interrupted."""

_POLL_SECONDS: Final = 0.25
"""Seconds between two polls of a queue."""

_LAST_POLL_SECONDS: Final = 2.0
"""Seconds allowed for the polls that are under way when an engine is closed: they take milliseconds."""


_MAX_THREADS: Final = 32
"""Threads for calls of the database. The event loop looks up the names of hosts in them too."""

_QUERY_SECONDS: Final = 8.0
"""Seconds after which PostgreSQL cancels a query for runs: earlier than its caller gives up."""


def acquire_lease(store: Store, config: WorkerConfig) -> Lease:
    """Register this process as a worker of the store.

    Raises:
        StoreError: the store cannot be used.
    """
    if isinstance(store, SqliteStore):
        require_private(store.path)
        try:
            return FileLease(store.path)
        except OSError as error:
            raise StoreError(
                f"{store.path}: the lock file of this worker cannot be created: {error.strerror}."
            ) from error
    return PostgresLease(store.url, config.grace_seconds)


def create_tables(store: Store) -> None:
    """Create the tables, or migrate those of an earlier version, before anything reads them.

    If another worker is doing so on PostgreSQL, wait for it: some of its tables are visible before all are.

    Raises:
        StoreError: the store cannot be used.
    """
    silence_dbos_log()
    with as_store_errors(store.place):
        DBOS.migrate(store.url, schema=SCHEMA)


@contextmanager
def connection_pool(store: Store) -> Iterator[sa.Engine | None]:
    """Yield the connections that dbos uses on PostgreSQL, and close them after the block; None for a SQLite file."""
    if isinstance(store, SqliteStore):
        yield None
        return
    pool = create_pool(store)
    ended = False

    def close_late(connection: psycopg.Connection[Any] | None, _: object) -> None:
        if ended and connection is not None:
            connection.close()

    # Threads of dbos may still wait for an answer when the pool is closed.
    sa.event.listen(pool, "checkin", close_late)
    try:
        yield pool
    finally:
        ended = True
        pool.dispose()


def dbos_config(store: Store, pool: sa.Engine | None, worker: str, config: WorkerConfig) -> DBOSConfig:
    """Return the configuration of dbos."""
    return {
        "name": config.pool,
        "system_database_url": store.url,
        "dbos_system_schema": SCHEMA,
        "executor_id": worker,
        "application_version": config.version,
        "serializer": JsonSerializer(),
        "system_database_engine": pool,
        "sys_db_pool_size": 10,
        "db_engine_kwargs": {"hide_parameters": True},
        # Without a limit, each call that waits for a database would have a thread of its own.
        "max_executor_threads": _MAX_THREADS,
        "observability_query_timeout_sec": _QUERY_SECONDS,
        # On SQLite it polls for notifications that this product never sends, and its shutdown waits for the next poll.
        "notification_listener_polling_interval_sec": 0.1,
        "enable_otlp": False,
        "log_level": "CRITICAL",
    }


async def launch(lease: Lease, config: WorkerConfig) -> None:
    """Launch dbos on this event loop, on which it then performs runs.

    This blocks the loop while dbos checks its tables.

    Raises:
        StoreError: the store cannot be used.
    """
    with as_store_errors(lease.place):
        DBOS.launch()
        check_launched()
        for queue in (config.pool, config.queue_for(NESTED_SEPARATOR)):
            await DBOS.register_queue_async(
                queue,
                worker_concurrency=config.at_once,
                polling_interval_sec=_POLL_SECONDS,
                on_conflict="always_update",
            )


async def renew_before_start(lease: Lease) -> None:
    """Renew the lease before the start: creating the tables may have taken long.

    Raises:
        StoreError: the store is gone.
    """
    try:
        await anyio.to_thread.run_sync(lease.renew)
    except LeaseLostError as error:
        raise StoreError(f"The database of runs {lease.place} went away: {error}") from error


async def shut_down(worker: Worker, config: WorkerConfig) -> None:
    """Release all runs, and shut dbos down in this process. Waiting runs stay in their queue."""
    worker.closing = True
    # Before runs are released: dbos would give their places to waiting runs, which would be interrupted at once.
    await anyio.to_thread.run_sync(stop_queues, _LAST_POLL_SECONDS)
    claims = worker.claims
    await worker.stop(config.stop_seconds)
    if claims:
        with suppress(*DATABASE_ERRORS), anyio.move_on_after(_FINAL_WRITE_SECONDS):
            await worker.mark_interrupted(claims)
    # In a thread: dbos joins threads that wait for this loop.
    await anyio.to_thread.run_sync(lambda: DBOS.destroy(destroy_registry=True))
    # dbos replaced the loop's default executor by its own, which takes no more work.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())
