"""Lists, shows and cancels the runs of all pools in a store, for programs that perform none.

A client opens no engine and changes no schema. It checks the lease of a run's worker to tell a run that is performed
from an interrupted one, as workers do before they take a run over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from dbos import DBOSClient

from skills_core.runs.durable.dbos_adapter import (
    LOCKED_SECONDS,
    JsonSerializer,
    as_store_errors,
    dbos_statuses,
    fail_when_locked,
    recorded_run,
    remove_from_queue,
    silence_dbos_log,
    without_pickle,
)
from skills_core.runs.durable.lifecycle import connection_pool
from skills_core.runs.durable.postgres import observed_workers
from skills_core.runs.durable.recorded_run import NESTED_SEPARATOR, UNFINISHED, RecordedRun, RunState, UnknownRunError
from skills_core.runs.durable.store import SCHEMA, SqliteStore, is_held

if TYPE_CHECKING:
    from dbos import WorkflowStatus

    from skills_core.runs.durable.recorded_run import WorkerConfig
    from skills_core.runs.durable.store import Store


_BATCH: Final = 200


class Activity(Enum):
    """What is happening to a run now."""

    WAITING = "waiting"
    """It is queued and has not started."""
    PERFORMED = "performed"
    """A live worker performs it."""
    INTERRUPTED = "interrupted"
    """Its worker is gone; it continues when another worker takes it over."""
    OVER = "over"
    """It ended, and no worker starts it again."""


@dataclass(frozen=True, slots=True)
class RecordClient:
    """A connection to the recorded runs, created by `open_client`; methods raise StoreError if it cannot be used."""

    _client: DBOSClient
    _place: str
    _is_alive: Callable[[str], bool]

    def runs(self, limit: int) -> tuple[RecordedRun, ...]:
        """Return the newest runs without their outcomes."""
        with as_store_errors(self._place):
            rows = self._client.list_workflows(limit=limit, sort_desc=True, load_output=False)
        return tuple(_recorded_run(row, with_outcome=False) for row in rows)

    def runs_with_outcomes(self, run_ids: Iterable[str]) -> tuple[RecordedRun, ...]:
        """Return the runs with these ids that are recorded, with their outcomes."""
        wanted, found = list(run_ids), list[RecordedRun]()
        for start in range(0, len(wanted), _BATCH):
            with as_store_errors(self._place):
                rows = self._client.list_workflows(workflow_ids=wanted[start : start + _BATCH])
            found += (_recorded_run(row, with_outcome=True) for row in rows)
        return tuple(found)

    def get(self, run_id: str) -> RecordedRun:
        """Return one run, with its outcome if it is done.

        Raises:
            UnknownRunError: it is not recorded.
        """
        if found := self.runs_with_outcomes([run_id]):
            return found[0]
        raise UnknownRunError(run_id)

    def activity(self, run: RecordedRun) -> Activity:
        """Return what is happening to a run."""
        if run.state not in UNFINISHED:
            return Activity.OVER
        if run.state is RunState.WAITING:
            return Activity.INTERRUPTED if run.attempts else Activity.WAITING
        with as_store_errors(self._place):
            return Activity.PERFORMED if self._is_alive(run.worker) else Activity.INTERRUPTED

    def nested(self, run_id: str) -> tuple[RecordedRun, ...]:
        """Return the runs nested in a run, without their outcomes."""
        with as_store_errors(self._place):
            rows = self._client.list_workflows(workflow_id_prefix=f"{run_id}{NESTED_SEPARATOR}", load_output=False)
        return tuple(_recorded_run(row, with_outcome=False) for row in rows)

    def unfinished(self, config: WorkerConfig) -> tuple[RecordedRun, ...]:
        """Return the runs that workers with this configuration would continue, without their outcomes."""
        with as_store_errors(self._place):
            rows = self._client.list_workflows(
                application_name=config.pool,
                app_version=config.version,
                status=dbos_statuses({RunState.WAITING, RunState.RUNNING}),
                load_output=False,
            )
        return tuple(_recorded_run(row, with_outcome=False) for row in rows)

    def set_aside(self, run_id: str) -> None:
        """Take a run out of its queue and record it as the run of a dead worker."""
        with as_store_errors(self._place):
            remove_from_queue(self._client, run_id)

    def cancel(self, run_id: str) -> tuple[RecordedRun, ...]:
        """Cancel an unfinished run and the runs nested in it; return all of them as recorded afterwards.

        The worker that performs it notices at its next heartbeat, a suspended worker when it resumes.

        Raises:
            UnknownRunError: it is not recorded.
        """
        self.get(run_id)
        # The root run first, so that it starts no other. Finished runs are skipped: dbos would cancel those of them
        # that were given up.
        self._cancel(run_id)
        inner = [run.run_id for run in self.nested(run_id)]
        for each in inner:
            self._cancel(each)
        return (self.get(run_id), *self.runs_with_outcomes(inner))

    def _cancel(self, run_id: str) -> None:
        with as_store_errors(self._place):
            unfinished = self._client.list_workflows(
                workflow_ids=[run_id], status=dbos_statuses(UNFINISHED), load_input=False, load_output=False
            )
            if unfinished:
                self._client.cancel_workflow(run_id)


@contextmanager
def open_client(store: Store) -> Iterator[RecordClient | None]:
    """Connect to a store; yield None if no run was ever recorded there.

    Raises:
        StoreError: the store cannot be used.
    """
    silence_dbos_log()
    with _liveness(store) as is_alive, as_store_errors(store.place), connection_pool(store) as pool, without_pickle():
        if is_alive is None:
            yield None
            return
        client = DBOSClient(
            system_database_url=store.url,
            system_database_engine=pool,
            dbos_system_schema=SCHEMA,
            serializer=JsonSerializer(),
            retry_connection_errors=False,
        )
        try:
            fail_when_locked(client, store.place, LOCKED_SECONDS)
            yield RecordClient(client, store.place, is_alive)
        finally:
            client.destroy()


@contextmanager
def _liveness(store: Store) -> Iterator[Callable[[str], bool] | None]:
    """Yield a function that tells whether a worker is alive, None if the store never had a worker."""
    if isinstance(store, SqliteStore):
        path = store.path
        yield (lambda worker: is_held(path, worker)) if path.exists() and path.stat().st_size else None
        return
    with observed_workers(store) as is_alive:
        yield is_alive


def _recorded_run(row: WorkflowStatus, *, with_outcome: bool) -> RecordedRun:
    # Each row's own version: a client performs no runs, so none is of another format.
    return recorded_run(row, row.app_version or "", with_outcome=with_outcome)
