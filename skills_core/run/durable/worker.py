"""Performs the runs that this process has claimed, a limited number at a time, and releases them when it must."""

from __future__ import annotations

import asyncio
import logging
from contextlib import nullcontext
from typing import TYPE_CHECKING, TypeAlias

import anyio.lowlevel
from dbos import DBOS

from skills_core.diagnostics import one_line
from skills_core.run.durable.database_errors import DATABASE_ERRORS
from skills_core.run.durable.dbos_context import status_row
from skills_core.run.durable.dbos_status import CANCELLED, STATE_BY_STATUS
from skills_core.run.durable.journal import DurableJournal, RunClaim, record_error
from skills_core.run.durable.json_serializer import JobFailedError, round_trip_object
from skills_core.run.durable.recorded_run import RunState
from skills_core.run.durable.worker_config import is_nested, root_run_id
from skills_core.run.ports import Epoch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from skills_core.format.yaml12 import JsonObject
    from skills_core.run.durable.errors import StoreError
    from skills_core.run.durable.leases import Lease
    from skills_core.run.ports import Journal

    Job: TypeAlias = Callable[[Journal, JsonObject], Awaitable[JsonObject]]

__all__ = ["Worker"]

logger = logging.getLogger(__name__)


class Worker:
    """The runs that this process is performing."""

    def __init__(self, kinds: Mapping[str, Job], lease: Lease, at_once: int) -> None:
        """Perform jobs of these kinds, at most `at_once` at a time."""
        self._kinds = dict(kinds)
        self._lease = lease
        self._slots = asyncio.Semaphore(at_once)
        self._claims: dict[str, RunClaim] = {}
        self._faults: dict[str, StoreError] = {}
        self._closing = False
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of jobs that this worker knows."""
        return frozenset(self._kinds)

    @property
    def closing(self) -> bool:
        """Whether this worker accepts no more runs."""
        return self._closing

    @property
    def claims(self) -> Mapping[str, RunClaim]:
        """The claims on runs that are performed or wait for a slot, by run id."""
        return dict(self._claims)

    @property
    def faults(self) -> Mapping[str, StoreError]:
        """The store errors for which runs were released, by run id."""
        return dict(self._faults)

    def retain_errors(self, run_ids: Collection[str]) -> None:
        """Keep the store errors of these runs and drop all others."""
        self._faults = {run_id: fault for run_id, fault in self._faults.items() if run_id in run_ids}

    async def perform(self, kind: str, given: JsonObject) -> JsonObject:
        """Perform the run that dbos started in this task, and return its outcome.

        Raises:
            JobFailedError: the job raised an error.
            asyncio.CancelledError: the run was released, as one of a kind that this worker does not know. dbos then
                records nothing, so the run stays unfinished unless it was cancelled.
        """
        run_id = DBOS.workflow_id
        assert run_id is not None  # noqa: S101 - for the type checker
        claim = RunClaim(self._lease)
        if (before := self._claims.get(run_id)) is not None:
            before.release()  # dbos started it again: the earlier attempt must record nothing
        self._claims[run_id] = claim
        self._faults.pop(run_id, None)
        self._idle.clear()
        try:
            return await self._result(run_id, kind, given, claim)
        finally:
            claim.ended.set()
            if self._claims.get(run_id) is claim:
                del self._claims[run_id]
            if not self._claims:
                self._idle.set()

    async def _result(self, run_id: str, kind: str, given: JsonObject, claim: RunClaim) -> JsonObject:
        outcome: JsonObject = {}
        problem = ""
        try:
            if self._closing:
                claim.release()
            if kind not in self._kinds:
                logger.info("run %s waits for a worker that knows runs of kind %s", one_line(run_id), one_line(kind))
                claim.release()
            if is_nested(run_id) and (outer := self._claims.get(root_run_id(run_id))) is not None and outer.released:
                claim.release(permanently=outer.permanently)
            # A nested run uses the slot of its root run.
            with claim.scope:
                await self._read_epoch(run_id, claim)
                async with nullcontext() if is_nested(run_id) else self._slots:
                    await anyio.lowlevel.checkpoint_if_cancelled()
                    outcome = await self._attempt(run_id, kind, given, claim)
        except asyncio.CancelledError:
            problem = "CancelledError"
        except Exception as error:
            problem = type(error).__name__
            logger.debug("the job of run %s raised", run_id, exc_info=True)
        if claim.fault is not None:
            self._faults[run_id] = claim.fault
            logger.warning("run %s is released: %s", one_line(run_id), claim.fault)
        if claim.released:
            raise asyncio.CancelledError
        if problem:
            logger.warning("run %s failed: its job raised %s", one_line(run_id), problem)
            raise JobFailedError(problem)  # outside the handler, so that the text of the error is not chained
        return outcome

    async def _read_epoch(self, run_id: str, claim: RunClaim) -> None:
        """Read the fencing token of the run; release the run if another worker owns it already."""
        try:
            row = await status_row(run_id)
        except DATABASE_ERRORS as error:
            fault = record_error(run_id, claim.place, error)
            claim.release(permanently=True) if await claim.store_is_gone() else claim.release(fault=fault)
            await anyio.lowlevel.checkpoint()
            return
        if row is None or row.executor_id != claim.worker or STATE_BY_STATUS.get(row.status) is not RunState.RUNNING:
            claim.release(permanently=row is None or row.status == CANCELLED, taken_over=row is not None)
            await anyio.lowlevel.checkpoint()
            return
        claim.epoch = Epoch(row.created_at or 0, row.recovery_attempts or 0)

    async def _attempt(self, run_id: str, kind: str, given: JsonObject, claim: RunClaim) -> JsonObject:
        return round_trip_object(await self._kinds[kind](DurableJournal(run_id, claim), given))

    def release_lost(self) -> None:
        """Release the runs that another worker may have taken over."""
        for run_id, claim in self.claims.items():
            if not claim.released and not claim.is_valid:
                logger.warning("run %s is released: this worker could not renew its lease in time", run_id)
                claim.release()

    def release_all(self) -> None:
        """Release all runs permanently: their records are gone."""
        for claim in self.claims.values():
            claim.release(permanently=True)

    async def stop(self, seconds: float) -> None:
        """Release all runs, accept no new ones, and wait up to `seconds` for the jobs to end."""
        self._closing = True
        for claim in self.claims.values():
            claim.release()
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            logger.warning("%d runs did not stop within %g seconds", len(self._claims), seconds)

    async def mark_interrupted(self, claims: Mapping[str, RunClaim]) -> None:
        """Update the records of these runs, so that their last activity is now. Skips runs that are not continued."""
        for run_id, claim in claims.items():
            if not claim.permanently and not claim.fenced:
                # Only the time of the update matters, not its content.
                await DBOS.update_workflow_attributes_async(run_id, {"interrupted": True})
