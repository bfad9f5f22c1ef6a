"""What a worker does beside its runs: renew its lease, release lost runs, and take over those of dead workers.

It continues the runs that it was opened for and that were interrupted recently. The side effects of a run were wanted
when it was requested: a run that was interrupted long ago stays as it is until a user resumes or cancels it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Final

import anyio
from dbos import DBOS

from skills_core.diagnostics import one_line
from skills_core.runs.durable.client import Activity, open_client
from skills_core.runs.durable.dbos_adapter import (
    DATABASE_ERRORS,
    STATE_BY_STATUS,
    dbos_statuses,
    describe_error,
    recorded_run,
    requeue,
    unreachable,
)
from skills_core.runs.durable.recorded_run import UNFINISHED, RunState, StoreError, is_nested, root_run_id
from skills_core.runs.durable.store import LeaseLostError, now

if TYPE_CHECKING:
    from dbos import WorkflowStatus

    from skills_core.runs.durable.recorded_run import RecordedRun, WorkerConfig
    from skills_core.runs.durable.store import Lease, Store
    from skills_core.runs.durable.worker import Worker


@dataclass(frozen=True, slots=True)
class InterruptedRun:
    """An interrupted run that a worker found: seconds since its last activity, and whether the worker continues it."""

    run: RecordedRun
    seconds: float
    continued: bool


def ignore_interrupted(interrupted: InterruptedRun) -> None:
    """Do nothing."""
    del interrupted


class TakeoverPolicy:
    """The decisions of one worker; each decision about a run is reported once."""

    def __init__(self, config: WorkerConfig, on_interrupted: Callable[[InterruptedRun], None]) -> None:
        self._config = config
        self._on_interrupted = on_interrupted
        self._admitted: set[str] = set()
        self._reported: set[tuple[str, bool]] = set()

    def admitted(self, rows: Iterable[WorkflowStatus]) -> list[str]:
        """Return which runs of a dead worker are taken over; a run and those nested in it share one decision."""
        groups: dict[str, list[WorkflowStatus]] = {}
        for row in rows:
            if self._config.takes_over(row.workflow_id):
                groups.setdefault(root_run_id(row.workflow_id), []).append(row)
        admitted: list[str] = []
        for outer, group in groups.items():
            seconds = time.time() - max(_last_activity(row) for row in group)
            limit = self._config.resume_seconds
            is_admitted = outer in self._admitted or limit is None or seconds <= limit
            self._report(next((row for row in group if row.workflow_id == outer), None), seconds, continued=is_admitted)
            if is_admitted:
                self._admitted.add(outer)
                admitted += (row.workflow_id for row in group)
        return admitted

    def _report(self, row: WorkflowStatus | None, seconds: float, *, continued: bool) -> None:
        if row is not None and (row.workflow_id, continued) not in self._reported:
            self._reported.add((row.workflow_id, continued))
            run = recorded_run(row, self._config.version, with_outcome=False)
            self._on_interrupted(InterruptedRun(run, max(seconds, 0.0), continued))


def _last_activity(row: WorkflowStatus) -> float:
    """Return the time of the last record of a run, in seconds since 1970."""
    steps = DBOS.list_workflow_steps(row.workflow_id, load_output=False)
    signs = [row.updated_at or 0, *(step["completed_at_epoch_ms"] or 0 for step in steps)]
    return max(signs) / 1000


def set_aside_stale(store: Store, config: WorkerConfig) -> None:
    """Take runs out of the queue that were interrupted, requeued, and then left there for too long.

    A worker that takes a run over puts it into the queue first. If all workers end before one of them has a free slot,
    the next worker that opens would perform it at once, however old it is.

    Raises:
        StoreError: the store cannot be used.
    """
    limit = config.resume_seconds if config.only is None else 0.0
    if limit is None:
        return
    with open_client(store) as client:
        if client is None:
            return
        mine = client.unfinished(config)
        if any(client.activity(run) is Activity.PERFORMED for run in mine):
            return  # a live worker put it there, and performs it when it has a free slot
        for run in mine:
            is_left = run.state is RunState.WAITING and run.attempts > 0 and time.time() - run.updated > limit
            if is_left and not (config.only and root_run_id(run.run_id) in config.only):
                client.set_aside(run.run_id)


logger = logging.getLogger(__name__)

_SILENT_SECONDS: Final = 5.0
"""A renewal that lasts longer shows that the database does not answer: it takes milliseconds."""

_LATE_SECONDS: Final = 120.0
"""So long after its caller gave up, a thread may still record a run: each of its attempts is bounded."""


class Heartbeat:
    """Three periodic loops, so that a slow database call in one does not delay the others.

    On PostgreSQL the first can wait for the third: a lease has one connection, which also checks other workers. The
    second makes no database call, and so releases runs in time whatever the others wait for.
    """

    def __init__(self, worker: Worker, lease: Lease, config: WorkerConfig, takeover: TakeoverPolicy) -> None:
        """Prepare the loops of this worker; `takeover` decides which runs of dead workers continue."""
        self._takeover = takeover
        self._worker = worker
        self._lease = lease
        self._config = config
        self._orphaned_since: dict[str, float] = {}
        self._withdrawn: dict[str, float] = {}
        self._gone: StoreError | None = None
        self._away = ""
        self._asking_since: float | None = None
        self._running = False
        # Its own, so that a renewal never waits for threads of others.
        self._thread = anyio.CapacityLimiter(1)

    @property
    def may_retry(self) -> bool:
        """Whether a call that lost its connection is worth repeating: the runs of this worker are still its own."""
        return self._running and self._lease.holds and not self._worker.closing

    def withdraw(self, run_id: str) -> None:
        """Cancel a run of this worker as soon as its record can be read: its caller was told that it does not start.

        The database may commit a record after everybody has stopped waiting for it.
        """
        self._withdrawn[run_id] = monotonic()
        if (claim := self._worker.claims.get(run_id)) is not None:
            claim.release()

    def admit(self, run_id: str) -> None:
        """Note that a run is wanted, after all."""
        self._withdrawn.pop(run_id, None)

    def ensure_reachable(self) -> None:
        """Check that the store is there and answers, as far as this worker knows from its lease.

        Raises:
            StoreUnreachableError: the last renewal failed, or one has been without an answer for too long.
            StoreError: the store was removed, or the engine was closed.
        """
        if self._gone is not None:
            raise StoreError(str(self._gone))
        why, asking = self._away, self._asking_since
        if not why and asking is not None and monotonic() - asking > _SILENT_SECONDS:
            why = f"no answer for {monotonic() - asking:.0f} seconds"
        if why:
            raise unreachable(self._lease.place, why)

    def close(self) -> None:
        """Note that the engine was closed."""
        self._gone = self._gone or StoreError(
            "The record of runs is closed in this process, so no run can be started or waited for."
        )

    async def keep_lease(self) -> None:
        """Renew the lease periodically.

        Raises:
            StoreError: the store was removed. All runs of this worker are released: nothing can be recorded.
        """
        self._running = True
        try:
            await self._repeat(self._renew, "the database of runs cannot be reached", self._config.beat_seconds)
        except StoreError as error:
            self._gone = error
            self._worker.release_all()
            raise

    async def keep_releasing(self) -> None:
        """Release the runs in time when the lease expires."""
        await self._repeat(self._release_lost, "runs cannot be released", self._config.beat_seconds / 2)

    async def release_cancelled(self) -> None:
        """Release runs that were just cancelled permanently, before the others are left to be continued."""
        with suppress(*DATABASE_ERRORS), anyio.move_on_after(self._config.beat_seconds):
            await self.release_lost(self._worker.claims)

    async def keep_sweeping(self) -> None:
        """Sweep the recorded runs periodically."""
        await self._repeat(self.sweep, "the recorded runs cannot be checked", self._config.beat_seconds)

    async def _repeat(self, work: Callable[[], Awaitable[object]], trouble: str, seconds: float) -> None:
        """Repeat `work` with pauses; log errors other than StoreError, a repeated one only once."""
        told = ""
        while True:
            try:
                await work()
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001 - one failed heartbeat must not prevent the next
                # Other messages of a database or library may contain recorded values.
                why = str(error) if isinstance(error, LeaseLostError) else describe_error(error)
                if why != told:
                    logger.warning("%s: %s", trouble, why)
                told = why
            else:
                told = ""
            await anyio.sleep(seconds)

    async def _renew(self) -> None:
        self._asking_since = monotonic()
        try:
            await anyio.to_thread.run_sync(self._lease.renew, limiter=self._thread)
        except LeaseLostError as error:
            self._away = str(error)
            raise
        finally:
            self._asking_since = None
        if self._away:
            self._away = ""
            logger.info("the database of runs can be reached again")

    async def _release_lost(self) -> None:
        self._worker.release_lost()

    async def sweep(self) -> int:
        """Release runs that were cancelled or taken over, and take over those of dead workers; return how many."""
        claims = self._worker.claims
        running = {
            row.workflow_id: row
            for row in await DBOS.list_workflows_async(
                status="PENDING", application_name=self._config.pool, load_input=False, load_output=False
            )
        }
        me = self._lease.worker
        self._worker.retain_errors({run_id for run_id, row in running.items() if row.executor_id == me})
        lost = [run_id for run_id in claims if run_id not in running or running[run_id].executor_id != me]
        await self.release_lost(lost)
        ours = {run_id: row for run_id, row in running.items() if row.app_version == self._config.version}
        workers = {str(row.executor_id) for row in ours.values()} - {me}
        taken = [await anyio.to_thread.run_sync(self._take_over, worker) for worker in sorted(workers)]
        await self._cancel_withdrawn(running)
        ours = {run_id: row for run_id, row in ours.items() if run_id not in self._withdrawn}
        return sum(taken) + await anyio.to_thread.run_sync(self._requeue_orphans, ours)

    async def _cancel_withdrawn(self, running: Mapping[str, WorkflowStatus]) -> None:
        """Cancel the withdrawn runs that are recorded as this worker's, and forget those that never will be."""
        for run_id, since in [*self._withdrawn.items()]:
            row = running.get(run_id)
            if row is not None and row.executor_id == self._lease.worker:
                await DBOS.cancel_workflow_async(run_id)
                logger.info("run %s is cancelled: its caller was told that it does not start", one_line(run_id))
            elif monotonic() - since < _LATE_SECONDS:
                continue
            self._withdrawn.pop(run_id, None)

    async def release_lost(self, run_ids: Iterable[str]) -> None:
        """Release those of the runs that were cancelled or that another worker owns."""
        claims = {run_id: claim for run_id, claim in self._worker.claims.items() if run_id in set(run_ids)}
        if not claims:
            return
        rows = await DBOS.list_workflows_async(
            workflow_ids=[*claims], application_name=self._config.pool, load_input=False, load_output=False
        )
        found = {row.workflow_id: (STATE_BY_STATUS.get(row.status), row.executor_id) for row in rows}
        for run_id, claim in claims.items():
            state, worker = found.get(run_id, (None, None))
            if (state, worker) != (RunState.RUNNING, self._lease.worker):
                claim.release(permanently=state not in UNFINISHED, taken_over=state in UNFINISHED)
        # Another process cancels the outer run first: the nested runs may not be recorded as cancelled yet.
        for run_id, claim in self._worker.claims.items():
            outer = claims.get(root_run_id(run_id)) if is_nested(run_id) else None
            if outer is not None and outer.permanently:
                claim.release(permanently=True)

    def _take_over(self, worker: str) -> int:
        with self._lease.taking_over(worker) as dead:
            if not dead or not self._lease.holds:
                return 0
            # Listed again under the lock: another worker may have taken some over meanwhile.
            rows = DBOS.list_workflows(
                status="PENDING",
                executor_id=worker,
                app_version=self._config.version,
                application_name=self._config.pool,
                load_output=False,
            )
            taken = self._requeue(self._takeover.admitted(rows), worker)
        if taken:
            logger.info("%d runs of the dead worker %s are requeued", taken, worker)
        return taken

    def _requeue_orphans(self, ours: Mapping[str, WorkflowStatus]) -> int:
        """Requeue runs that are recorded as this worker's but not performed here.

        The database may have committed just as the connection broke, and runs are released when the lease expires.
        Such a run gets the same grace time as a dead worker: some time passes between its record and its start.
        dbos itself gives up runs that were started too often.
        """
        me, claims, moment = self._lease.worker, self._worker.claims, now()
        orphaned = {run_id for run_id, row in ours.items() if row.executor_id == me and run_id not in claims}
        since = {run_id: self._orphaned_since.get(run_id, moment) for run_id in orphaned}
        due = [run_id for run_id, first in since.items() if moment - first > self._config.grace_seconds]
        self._orphaned_since = {run_id: first for run_id, first in since.items() if run_id not in due}
        return self._requeue(due, me)

    def _requeue(self, run_ids: list[str], worker: str) -> int:
        """Requeue the runs of a worker, but cancel those nested in a cancelled run; return how many are requeued."""
        outer_of = {run_id: root_run_id(run_id) for run_id in run_ids if is_nested(run_id)}
        cancelled: set[str] = set()
        if outer_of:
            rows = DBOS.list_workflows(
                workflow_ids=sorted(set(outer_of.values())),
                status=dbos_statuses({RunState.CANCELLED}),
                application_name=self._config.pool,
                load_input=False,
                load_output=False,
            )
            cancelled = {row.workflow_id for row in rows}
        handed_back = 0
        for run_id in run_ids:
            if outer_of.get(run_id) in cancelled:
                DBOS.cancel_workflow(run_id)
            else:
                handed_back += requeue(run_id, worker, self._config.queue_for(run_id))
        return handed_back
