"""Starts, joins, lists and cancels runs, and completes interrupted ones. dbos does the recording.

A process has at most one open engine, because dbos is a singleton.
"""

from __future__ import annotations

import math
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import anyio
from dbos import DBOS, SetWorkflowID

from skills_core.runs.durable.dbos_adapter import (
    FINISHED_STATUSES,
    STATE_BY_STATUS,
    as_store_errors,
    check_compatibility,
    dbos_statuses,
    outside_workflow,
    recorded_run,
    retrying_while,
    round_trip_object,
    unreachable,
    without_pickle,
)
from skills_core.runs.durable.heartbeat import Heartbeat, TakeoverPolicy, ignore_interrupted, set_aside_stale
from skills_core.runs.durable.lifecycle import (
    acquire_lease,
    connection_pool,
    create_tables,
    dbos_config,
    launch,
    renew_before_start,
    shut_down,
)
from skills_core.runs.durable.postgres import ANSWER_SECONDS
from skills_core.runs.durable.recorded_run import (
    NESTED_SEPARATOR,
    UNFINISHED,
    RunConflictError,
    RunNotDoneError,
    RunState,
    StoreError,
    StoreUnreachableError,
    UnknownRunError,
    WorkerConfig,
    is_nested,
)
from skills_core.runs.durable.store import LeaseLostError
from skills_core.runs.durable.worker import Worker

if TYPE_CHECKING:
    from dbos import WorkflowStatus

    from skills_core.format.yaml12 import JsonObject
    from skills_core.runs.durable.heartbeat import InterruptedRun
    from skills_core.runs.durable.recorded_run import RecordedRun
    from skills_core.runs.durable.store import Lease, Store
    from skills_core.runs.durable.worker import Job


_WORKFLOW: Final = "run"
_FIRST_WAIT, _LONGEST_WAIT = 0.02, 0.5
_DELETE_BATCH: Final = 500
_MIN_PAGE: Final = 100
_RUN_ID: Final = re.compile(r"\S(?:.{0,198}\S)?")
_POOL: Final = re.compile(r"[a-z0-9_-]{3,50}")


class Engine:
    """The runs of one pool in one store; created by `open_engine`.

    Methods raise StoreError if the store can no longer be used.
    """

    def __init__(self, worker: Worker, heartbeat: Heartbeat, lease: Lease, config: WorkerConfig) -> None:
        self._worker = worker
        self._heartbeat = heartbeat
        self._lease = lease
        self._config = config

        async def perform(kind: str, given: JsonObject) -> JsonObject:  # dbos takes functions, not methods
            return await worker.perform(kind, given)

        self._workflow = DBOS.workflow(name=_WORKFLOW, max_recovery_attempts=config.recoveries)(perform)

    async def run(self, kind: str, run_id: str, given: JsonObject, *, here: bool = False) -> JsonObject:
        """Start or join a run, and return its outcome. See `start` and `wait`."""
        await self.start(kind, run_id, given, here=here)
        return await self.wait(run_id)

    async def start(self, kind: str, run_id: str, given: JsonObject, *, here: bool = False) -> RecordedRun:
        """Record a run, to be performed by any worker of the pool, and return its current state.

        With `here`, this process performs the run, and another one only if this one dies: for jobs that talk to a
        client of this process. If the run is recorded already, nothing is started.

        Raises:
            RunConflictError: it is recorded with another kind or input.
        """
        if DBOS.workflow_id is not None:
            raise RuntimeError("a job must not start runs: its outcome would depend on when its worker died")
        if kind not in self._worker.kinds:
            raise ValueError(f"unknown kind of run {kind!r}; expected one of {', '.join(sorted(self._worker.kinds))}")
        if not _RUN_ID.fullmatch(run_id) or not run_id.isprintable() or is_nested(run_id):
            raise ValueError(f"a run id has 1 to 200 printable characters and no dots; got {run_id[:200]!r}")
        self._heartbeat.ensure_reachable()
        self._heartbeat.admit(run_id)
        try:
            return await self._start(kind, run_id, round_trip_object(given), here=here)
        except StoreError:
            if here:  # the caller of an enqueued run asks for it again by its name
                self._heartbeat.withdraw(run_id)
            raise

    async def run_nested(self, outer: str, name: str, kind: str, given: JsonObject) -> JsonObject:
        """Perform a nested run for one step of the run `outer`; return its outcome. Its id is `outer.name`.

        Call it only in the work of a step. If the step is repeated, it joins the same nested run, whose finished steps
        are not repeated. A nested run takes no slot of its own, and is cancelled with the outer run.

        Raises:
            RunConflictError: it is recorded with another kind or input.
            RunNotDoneError: it will have no outcome.
        """
        run_id = f"{outer}{NESTED_SEPARATOR}{name}"

        async def begin() -> None:
            await self._start(kind, run_id, round_trip_object(given), here=True)
            # A cancellation of the outer run before this one was recorded did not reach it.
            if (await self.get(outer)).state is RunState.CANCELLED:
                await self._cancel(run_id)

        # Cancelled here, the run would be recorded all the same, and no worker would perform it until it is requeued.
        with anyio.CancelScope(shield=True):
            await outside_workflow(begin())
        return await outside_workflow(self.wait(run_id))

    async def _start(self, kind: str, run_id: str, given: JsonObject, *, here: bool) -> RecordedRun:
        with SetWorkflowID(run_id), self._asking():
            if here:
                await DBOS.start_workflow_async(self._workflow, kind, given)
            else:
                await DBOS.enqueue_workflow_async(self._config.queue_for(run_id), self._workflow, kind, given)
        try:
            run = await self.get(run_id)
        except UnknownRunError:
            raise RunConflictError(run_id, "by another pool") from None
        if (run.kind, run.given) != (kind, given):
            raise RunConflictError(run_id, recorded=run)
        return run

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Limit what is done in the block, a few calls of the database, and name its errors.

        Raises:
            StoreUnreachableError: the database is known not to answer, or does not answer in time.
        """
        self._heartbeat.ensure_reachable()
        with as_store_errors(self._lease.place):
            try:
                with anyio.fail_after(ANSWER_SECONDS):
                    yield
            except TimeoutError:
                raise unreachable(self._lease.place, f"no answer within {ANSWER_SECONDS:g} seconds") from None

    async def wait(self, run_id: str) -> JsonObject:
        """Wait for a run to finish, and return its outcome.

        A database that is away for a shorter time than one call may take is waited for.

        Raises:
            UnknownRunError: there is no such run.
            RunNotDoneError: it failed, was cancelled or given up, or only another version can continue it.
            StoreError: the store can no longer be used, or this process could not record a step of the run.
        """
        seconds = _FIRST_WAIT
        while (run := await self._get_patiently(run_id)).state in {RunState.WAITING, RunState.RUNNING}:
            if run.worker == self._lease.worker and (fault := self._worker.faults.get(run_id)) is not None:
                raise StoreError(str(fault))
            if (claim := self._worker.claims.get(run_id)) is not None:
                # The run is performed here: its end is known at once, and recorded a moment later.
                with anyio.move_on_after(_LONGEST_WAIT):
                    await claim.ended.wait()
                    seconds = _FIRST_WAIT
            await anyio.sleep(seconds)
            seconds = min(seconds * 1.5, _LONGEST_WAIT)
        if run.outcome is None:
            raise RunNotDoneError(run)
        return run.outcome

    async def _get_patiently(self, run_id: str) -> RecordedRun:
        end = anyio.current_time() + ANSWER_SECONDS
        while True:
            try:
                return await self.get(run_id)
            except StoreUnreachableError:
                if anyio.current_time() + _LONGEST_WAIT > end or run_id not in self._worker.claims:
                    raise
            await anyio.sleep(_LONGEST_WAIT)

    async def get(self, run_id: str) -> RecordedRun:
        """Return one run, with its outcome if it is done.

        Raises:
            UnknownRunError: there is no such run in this pool.
        """
        try:
            with self._asking():
                rows = await DBOS.list_workflows_async(workflow_ids=[run_id], application_name=self._config.pool)
        except StoreUnreachableError:
            raise
        except StoreError:
            with suppress(LeaseLostError):  # a store that was removed is a better reason than the error of a query
                await anyio.to_thread.run_sync(self._lease.renew)
            raise
        if not rows:
            raise UnknownRunError(run_id)
        return recorded_run(rows[0], self._config.version, with_outcome=True)

    def performs(self, run_id: str) -> bool:
        """Tell whether this process performs a run, or will as soon as it has a free slot."""
        return run_id in self._worker.claims

    async def is_left(self, run_id: str) -> bool:
        """Tell whether no live process performs an unfinished run of any pool, nor has it in a queue.

        Raises:
            UnknownRunError: there is no such run.
        """
        if self.performs(run_id):
            return False
        with self._asking():
            row = await self._row(run_id)
            if row is None:
                raise UnknownRunError(run_id)
            if STATE_BY_STATUS.get(row.status) is RunState.RUNNING:
                workers = {str(row.executor_id)}
            elif row.app_version == self._config.version:
                return False  # in the queue of this worker
            else:
                workers = await self._workers_of(row)
        return not await anyio.to_thread.run_sync(self._any_alive, workers)

    async def _row(self, run_id: str) -> WorkflowStatus | None:
        # Of all pools: None would mean this one.
        rows = await DBOS.list_workflows_async(
            workflow_ids=[run_id], application_name=[], load_input=False, load_output=False
        )
        return next(iter(rows), None)

    async def _workers_of(self, queued: WorkflowStatus) -> set[str]:
        """Return the workers of the pool in whose queue a run waits: those that perform another run of it."""
        rows = await DBOS.list_workflows_async(
            status=dbos_statuses({RunState.RUNNING}),
            application_name=[],
            app_version=queued.app_version,
            load_input=False,
            load_output=False,
        )
        return {str(row.executor_id) for row in rows}

    def _any_alive(self, workers: Collection[str]) -> bool:
        for worker in workers:
            if worker == self._lease.worker:
                return True
            try:
                with self._lease.taking_over(worker) as dead:
                    if not dead:
                        return True
            except LeaseLostError:
                return True  # unknown: the database cannot be reached
        return False

    async def runs(self, states: Collection[RunState] = (), limit: int = 100) -> tuple[RecordedRun, ...]:
        """Return the newest runs, in these states or in any, without their outcomes."""
        found: dict[str, RecordedRun] = {}
        offset, page = 0, max(limit, _MIN_PAGE)
        while len(found) < limit:
            with self._asking():
                rows = await DBOS.list_workflows_async(
                    status=dbos_statuses(states) if states else None,
                    application_name=self._config.pool,
                    limit=page,
                    offset=offset,
                    sort_desc=True,
                    load_output=False,
                )
            told = (recorded_run(row, self._config.version, with_outcome=False) for row in rows)
            # A run that starts meanwhile shifts the pages, so a run can occur twice.
            found |= {run.run_id: run for run in told if not states or run.state in states}
            if len(rows) < page:
                break
            offset += page
        return tuple(found.values())[:limit]

    async def cancel(self, run_id: str) -> RecordedRun:
        """Cancel an unfinished run and the runs nested in it, and return it.

        A job in this process is cancelled at once, a job in another process at that worker's next heartbeat.

        Raises:
            UnknownRunError: there is no such run.
        """
        await self.get(run_id)
        # The outer run first, so that it starts no other.
        await self._cancel(run_id)
        with self._asking():
            inner = await DBOS.list_workflows_async(
                workflow_id_prefix=f"{run_id}{NESTED_SEPARATOR}",
                application_name=self._config.pool,
                status=dbos_statuses(UNFINISHED),
                load_input=False,
            )
        for row in inner:
            await self._cancel(row.workflow_id)
        return await self.get(run_id)

    async def abandon(self, run_id: str) -> None:
        """Cancel a run that has lost its last caller if this process performs it; other processes' runs continue."""
        settled = False
        try:
            run = await self.get(run_id)
            if run.worker == self._lease.worker:
                await self.cancel(run_id)
            settled = True
        except (UnknownRunError, StoreError):
            pass
        finally:
            if not settled:  # it may be recorded a moment later, or once the database is back
                self._heartbeat.withdraw(run_id)

    async def _cancel(self, run_id: str) -> None:
        with self._asking():
            await DBOS.cancel_workflow_async(run_id)
        run = await self.get(run_id)
        if run.state is RunState.CANCELLED and (claim := self._worker.claims.get(run_id)) is not None:
            claim.release(permanently=True)

    async def recover(self) -> int:
        """Take over the runs of dead workers now instead of at the next heartbeat; return how many."""
        with as_store_errors(self._lease.place):
            try:
                return await self._heartbeat.sweep()
            except LeaseLostError as error:
                raise StoreError(f"The database of runs {self._lease.place} cannot be reached: {error}") from None

    async def delete_finished(self, older_than: timedelta) -> int:
        """Delete finished runs that ended longer ago than `older_than`, with all their steps; return how many."""
        before = (datetime.now(UTC) - older_than).isoformat()
        deleted = 0
        while True:
            with self._asking():
                rows = await DBOS.list_workflows_async(
                    status=FINISHED_STATUSES,
                    completed_before=before,
                    application_name=self._config.pool,
                    limit=_DELETE_BATCH,
                    load_input=False,
                    load_output=False,
                )
            if not rows:
                return deleted
            with self._asking():
                await DBOS.delete_workflows_async([row.workflow_id for row in rows])
            deleted += len(rows)

    async def foreign_runs(self) -> tuple[str, ...]:
        """Return the ids of the unfinished runs that only another pool or version performs, oldest first."""
        with self._asking():
            rows = await DBOS.list_workflows_async(
                name=_WORKFLOW,
                status=dbos_statuses(UNFINISHED),
                application_name=[],  # all pools; None would mean this pool
                load_input=False,
                load_output=False,
            )
        theirs = (row.workflow_id for row in rows if row.app_version != self._config.version)
        return tuple(run_id for run_id in theirs if not is_nested(run_id))


@asynccontextmanager
async def open_engine(
    store: Store,
    kinds: Mapping[str, Job],
    config: WorkerConfig | None = None,
    on_interrupted: Callable[[InterruptedRun], None] = ignore_interrupted,
) -> AsyncGenerator[Engine, None]:
    """Open the store and perform runs of these kinds until the context ends; unfinished runs are continued later.

    A job must take the same steps each time it gets the same input, and must not start runs. `on_interrupted` is
    called, in a thread, with each interrupted run that this worker continues, or leaves because it was interrupted too
    long ago.

    Raises:
        StoreError: the store cannot be used, or this process has an open engine already. If the store disappears
            later, the block is cancelled and this is raised.
    """
    config = _validated(config or WorkerConfig())
    check_compatibility()
    lease = await anyio.to_thread.run_sync(acquire_lease, store, config)
    try:
        await anyio.to_thread.run_sync(create_tables, store)
        await anyio.to_thread.run_sync(set_aside_stale, store, config)
        worker = Worker(kinds, lease, config.at_once)
        heartbeat = Heartbeat(worker, lease, config, TakeoverPolicy(config, on_interrupted))
        with (
            without_pickle(),
            connection_pool(store) as pool,
            retrying_while(lambda: heartbeat.may_retry),
        ):
            try:
                DBOS(config=dbos_config(store, pool, lease.worker, config))
                engine = Engine(worker, heartbeat, lease, config)
                await launch(lease, config)
                await renew_before_start(lease)
                async with _heartbeat_running(heartbeat):
                    yield engine
            finally:
                with anyio.CancelScope(shield=True):
                    await heartbeat.release_cancelled()
                    await shut_down(worker, config)
                heartbeat.close()
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(lease.close)


@asynccontextmanager
async def _heartbeat_running(heartbeat: Heartbeat) -> AsyncGenerator[None, None]:
    failures: list[Exception] = []
    async with anyio.create_task_group() as group:

        async def keep(loop: Callable[[], Awaitable[None]]) -> None:
            try:
                await loop()
            except StoreError as error:
                failures.insert(0, error)
                group.cancel_scope.cancel()

        for loop in (heartbeat.keep_lease, heartbeat.keep_releasing, heartbeat.keep_sweeping):
            group.start_soon(keep, loop)
        try:
            yield
        except Exception as error:  # noqa: BLE001 - raised again below, outside the group
            failures.append(error)
        group.cancel_scope.cancel()
    if failures:
        raise failures[0]


def _validated(config: WorkerConfig) -> WorkerConfig:
    if not _POOL.fullmatch(config.pool):
        raise StoreError(f"{config.pool[:100]!r} is not a pool name; expected 3 to 50 characters of a-z, 0-9, - and _.")
    if min(config.at_once, config.recoveries) < 1 or not 0 < config.beat_seconds * 3 <= config.grace_seconds < math.inf:
        raise StoreError(
            "The configuration of the worker is out of range: at_once and recoveries must be at least 1, and "
            "grace_seconds at least three times beat_seconds."
        )
    return config
