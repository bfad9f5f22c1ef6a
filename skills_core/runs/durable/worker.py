"""Performs the runs that this process has claimed, a limited number at a time, and records their steps.

A claim ends when its run is done, or when this process must release the run to another worker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, NoReturn, TypeAlias

import anyio
import anyio.lowlevel
import anyio.to_thread
from dbos import DBOS
from dbos import error as dbos_errors

from skills_core.diagnostics import one_line
from skills_core.runs.durable.dbos_adapter import (
    CANCELLED,
    DATABASE_ERRORS,
    STATE_BY_STATUS,
    JobFailedError,
    reason_of,
    round_trip,
    round_trip_object,
    status_row,
)
from skills_core.runs.durable.recorded_run import RunState, StoreError, is_nested, root_run_id
from skills_core.runs.durable.store import LeaseLostError
from skills_core.runs.journal import Epoch

if TYPE_CHECKING:
    from skills_core.format.yaml12 import JsonObject, JsonValue
    from skills_core.runs.durable.store import Lease
    from skills_core.runs.journal import Journal

    Job: TypeAlias = Callable[[Journal, JsonObject], Awaitable[JsonObject]]


class RunClaim:
    """The claim of this process on a run that it performs, until it releases the run."""

    def __init__(self, lease: Lease) -> None:
        """Claim a run, whose job is performed in `scope`."""
        self.lease = lease
        self._taken_over = False
        self.epoch: Epoch | None = None
        self._term = lease.term
        self.scope = anyio.CancelScope()
        self.released = False
        self.permanently = False
        self.fault: StoreError | None = None
        self.ended = anyio.Event()

    @property
    def is_valid(self) -> bool:
        """Whether no other worker can have taken over the run."""
        return not self.released and not self.fenced

    @property
    def fenced(self) -> bool:
        """Whether another worker performs the run, or may perform it."""
        return self._taken_over or not self.lease.holds or self.lease.term != self._term

    def release(self, *, permanently: bool = False, taken_over: bool = False, fault: StoreError | None = None) -> None:
        """Cancel the job, and make sure that nothing more of it is recorded.

        `permanently` says that no worker continues the run, `taken_over` that another worker has it, `fault` is the
        error of the store.
        """
        self._taken_over = self._taken_over or taken_over
        self.permanently = self.permanently or permanently
        self.fault = self.fault or fault
        self.released = True
        self.scope.cancel()

    async def store_is_gone(self) -> bool:
        """Return whether the store was removed, so that the run cannot continue."""
        try:
            await anyio.to_thread.run_sync(self.lease.renew)
        except StoreError:
            return True
        except LeaseLostError:
            pass
        return False


class _StepFailedError(BaseException):
    """The work of a step raised an error. A `BaseException`, because dbos records every `Exception` with its text."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


class DurableJournal:
    """Records each finished step in the database, and reads back steps that were finished earlier."""

    def __init__(self, run_id: str, claim: RunClaim) -> None:
        self.run_id = run_id
        self._claim = claim
        self._ended_by: Exception | None = None

    @property
    def interrupted(self) -> bool:
        """Whether this process released the run to be continued later, here or by another process."""
        return self._claim.released and not self._claim.permanently

    @property
    def fenced(self) -> bool:
        """Whether another worker may perform the run, so that this one must write nothing more for it."""
        return self._claim.fenced

    @property
    def epoch(self) -> Epoch | None:
        """The fencing token for files of the run."""
        return self._claim.epoch

    async def ensure_owned(self) -> None:
        """Return if this worker still owns the run; otherwise cancel the job."""
        if not self._claim.is_valid:
            await self._release()

    async def step(self, name: str, work: Callable[[], Awaitable[JsonValue]]) -> JsonValue:
        """Return the result of the step, now or from the record.

        Once work has raised, each further step raises the same error: the failed work is not recorded and may succeed
        in a replay, which would then take other steps. If the store fails, the job is cancelled: a result without a
        record does not count, and the run is continued from its record.
        """
        if self._ended_by is not None:
            raise self._ended_by

        async def recorded() -> JsonValue:
            await self.ensure_owned()
            try:
                return round_trip(await work())
            except StoreError as error:  # from a nested run
                await self._release(fault=error)
            except Exception as error:  # noqa: BLE001 - raised again below
                raise _StepFailedError(error) from None

        try:
            return await DBOS.run_step_async({"name": name}, recorded)
        except _StepFailedError as unfinished:
            self._ended_by = unfinished.error
        except DATABASE_ERRORS as error:
            fault = record_error(self.run_id, self._claim.lease.place, error)
            await (self._release(permanently=True) if await self._claim.store_is_gone() else self._release(fault=fault))
        except dbos_errors.DBOSWorkflowConflictIDError:
            await self._release_as_recorded()
        except dbos_errors.DBOSWorkflowCancelledError:
            await self._release(permanently=True)
        assert self._ended_by is not None  # noqa: S101 - for the type checker
        raise self._ended_by

    async def _release_as_recorded(self) -> NoReturn:
        """Release a run that this worker has lost: it was cancelled, or another worker owns it."""
        try:
            cancelled = (row := await status_row(self.run_id)) is None or row.status == CANCELLED
        except DATABASE_ERRORS:
            cancelled = False
        await (self._release(permanently=True) if cancelled else self._release(taken_over=True))

    async def _release(
        self, *, permanently: bool = False, taken_over: bool = False, fault: StoreError | None = None
    ) -> NoReturn:
        self._claim.release(permanently=permanently, taken_over=taken_over, fault=fault)
        await anyio.lowlevel.checkpoint()
        # The scope does not cover this task, or the caller is shielded.
        raise asyncio.CancelledError


def record_error(run_id: str, place: str, error: Exception) -> StoreError:
    """Return the StoreError for a run whose record could not be read or written."""
    why = f" ({reason})" if (reason := reason_of(error)) else ""
    what = f"The record of the run {run_id!r} in {place} could not be read or written{why}: {type(error).__name__}."
    return StoreError(f"{what} The run is continued later from its last recorded step.")


logger = logging.getLogger(__name__)


class Worker:
    """The runs that this process is performing."""

    def __init__(self, kinds: Mapping[str, Job], lease: Lease, at_once: int) -> None:
        """Perform jobs of these kinds, at most `at_once` at a time."""
        self.kinds = kinds
        self._lease = lease
        self._slots = asyncio.Semaphore(at_once)
        self._claims: dict[str, RunClaim] = {}
        self.faults: dict[str, StoreError] = {}
        self.closing = False
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def claims(self) -> Mapping[str, RunClaim]:
        """The claims on runs that are performed or wait for a slot, by run id."""
        return dict(self._claims)

    def retain_errors(self, run_ids: Collection[str]) -> None:
        """Keep the store errors of these runs and drop all others."""
        self.faults = {run_id: fault for run_id, fault in self.faults.items() if run_id in run_ids}

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
        self.faults.pop(run_id, None)
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
            if self.closing:
                claim.release()
            if kind not in self.kinds:
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
            self.faults[run_id] = claim.fault
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
            fault = record_error(run_id, claim.lease.place, error)
            claim.release(permanently=True) if await claim.store_is_gone() else claim.release(fault=fault)
            await anyio.lowlevel.checkpoint()
            return
        me = claim.lease.worker
        if row is None or row.executor_id != me or STATE_BY_STATUS.get(row.status) is not RunState.RUNNING:
            claim.release(permanently=row is None or row.status == CANCELLED, taken_over=row is not None)
            await anyio.lowlevel.checkpoint()
            return
        claim.epoch = Epoch(row.created_at or 0, row.recovery_attempts or 0)

    async def _attempt(self, run_id: str, kind: str, given: JsonObject, claim: RunClaim) -> JsonObject:
        return round_trip_object(await self.kinds[kind](DurableJournal(run_id, claim), given))

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
        """Release all runs, and wait up to `seconds` for the jobs to end. Set `closing` before, so that none begins."""
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
