"""What a worker does beside its runs: shows that it is alive, and looks for what became of others' and its own."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
from dbos import DBOS

from skills_core.run.durable.database_errors import DATABASE_ERRORS, describe_error
from skills_core.run.durable.dbos_internals import requeue
from skills_core.run.durable.dbos_status import STATE_BY_STATUS, dbos_statuses
from skills_core.run.durable.errors import StoreError
from skills_core.run.durable.leases import LeaseLostError
from skills_core.run.durable.leases.clock import now
from skills_core.run.durable.recorded_run import UNFINISHED, RunState
from skills_core.run.durable.worker_config import is_nested, root_run_id

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from dbos import WorkflowStatus

    from skills_core.run.durable.leases import Lease
    from skills_core.run.durable.takeover import TakeoverPolicy
    from skills_core.run.durable.worker import Worker
    from skills_core.run.durable.worker_config import WorkerConfig

__all__ = ["Heartbeat"]

logger = logging.getLogger(__name__)


class Heartbeat:
    """Three loops with one rhythm: what the database keeps waiting in one does not hold up the others.

    On PostgreSQL the first can wait for the third: a lease has one connection, on which others are found dead too. The
    second waits for nothing, and lets go of the runs in time whatever the others wait for.
    """

    def __init__(self, worker: Worker, lease: Lease, config: WorkerConfig, takeover: TakeoverPolicy) -> None:
        """Prepare to watch for this worker; `takeover` decides what of dead workers is continued."""
        self._takeover = takeover
        self._worker = worker
        self._lease = lease
        self._config = config
        self._orphaned_since: dict[str, float] = {}
        self._gone: StoreError | None = None

    def ensure_open(self) -> None:
        """See that the store is there as far as is known.

        Raises:
            StoreError: it was removed, or the engine was closed.
        """
        if self._gone is not None:
            raise StoreError(str(self._gone))

    def close(self) -> None:
        """Take note that the engine was closed."""
        self._gone = self._gone or StoreError("The record of runs is closed here, so none can be begun or waited for.")

    async def keep_lease(self) -> None:
        """Renew the lease again and again.

        Raises:
            StoreError: the store was removed. What was performed here is let go of: nothing is recorded any more.
        """
        try:
            await self._repeat(self._renew, "the database of runs cannot be reached", self._config.beat_seconds)
        except StoreError as error:
            self._gone = error
            self._worker.release_all()
            raise

    async def keep_releasing(self) -> None:
        """Let go of runs in time when the lease is lost."""
        await self._repeat(self._release_lost, "no run can be let go of", self._config.beat_seconds / 2)

    async def release_cancelled(self) -> None:
        """Let go for good of runs that were cancelled just now, before all others are left to be continued."""
        with suppress(*DATABASE_ERRORS), anyio.move_on_after(self._config.beat_seconds):
            await self.release_lost(self._worker.claims)

    async def keep_sweeping(self) -> None:
        """Look at the runs in the database again and again."""
        await self._repeat(self.sweep, "the runs cannot be looked at", self._config.beat_seconds)

    async def _repeat(self, work: Callable[[], Awaitable[object]], trouble: str, seconds: float) -> None:
        """Do some work with pauses; whatever it raises but StoreError is logged, once until it changes."""
        told = ""
        while True:
            try:
                await work()
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001 - one beat that fails is no reason to miss the next
                # What else a database or a library says may hold what was recorded.
                why = str(error) if isinstance(error, LeaseLostError) else describe_error(error)
                if why != told:
                    logger.warning("%s: %s", trouble, why)
                told = why
            else:
                told = ""
            await anyio.sleep(seconds)

    async def _renew(self) -> None:
        await anyio.to_thread.run_sync(self._lease.renew)

    async def _release_lost(self) -> None:
        self._worker.release_lost()

    async def sweep(self) -> int:
        """Let go of runs that were cancelled or taken over, take over those of dead workers; return how many."""
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
        return sum(taken) + await anyio.to_thread.run_sync(self._requeue_orphans, ours)

    async def release_lost(self, run_ids: Iterable[str]) -> None:
        """Let go of those of the runs that were cancelled or that another worker has."""
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

    def _take_over(self, worker: str) -> int:
        with self._lease.taking_over(worker) as dead:
            if not dead or not self._lease.holds:
                return 0
            # Asked again now that nobody else asks: what another worker took over meanwhile is that one's.
            rows = DBOS.list_workflows(
                status="PENDING",
                executor_id=worker,
                app_version=self._config.version,
                application_name=self._config.pool,
                load_output=False,
            )
            taken = self._requeue(self._takeover.admitted(rows), worker)
        if taken:
            logger.info("%d runs of the worker %s, which is gone, wait for another one", taken, worker)
        return taken

    def _requeue_orphans(self, ours: Mapping[str, WorkflowStatus]) -> int:
        """Hand back what is ours by the record, and that nobody here performs.

        The database may have said yes just when the connection broke, and runs are let go of when the lease is lost.
        It is given as much time as a dead worker: between the record and the first line of a run some time passes.
        dbos gives up what was begun too often when it is to be begun again.
        """
        me, claims, moment = self._lease.worker, self._worker.claims, now()
        orphaned = {run_id for run_id, row in ours.items() if row.executor_id == me and run_id not in claims}
        since = {run_id: self._orphaned_since.get(run_id, moment) for run_id in orphaned}
        due = [run_id for run_id, first in since.items() if moment - first > self._config.grace_seconds]
        self._orphaned_since = {run_id: first for run_id, first in since.items() if run_id not in due}
        return self._requeue(due, me)

    def _requeue(self, run_ids: list[str], worker: str) -> int:
        """Let the runs of a worker wait in the queue again, but cancel those inside of one that was cancelled."""
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
