"""The journal of one run, kept by dbos, and this process's claim on the run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NoReturn

import anyio
import anyio.lowlevel
import anyio.to_thread
from dbos import DBOS
from dbos import error as dbos_errors

from skills_core.run.durable.database_errors import DATABASE_ERRORS, reason_of
from skills_core.run.durable.dbos_context import status_row
from skills_core.run.durable.dbos_status import CANCELLED
from skills_core.run.durable.errors import StoreError
from skills_core.run.durable.json_serializer import round_trip
from skills_core.run.durable.leases import LeaseLostError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from skills_core.format.yaml12 import JsonValue
    from skills_core.run.durable.leases import Lease
    from skills_core.run.ports import Epoch

__all__ = ["DurableJournal", "RunClaim", "record_error"]


class RunClaim:
    """The claim of this process on a run that it performs, until it releases the run."""

    def __init__(self, lease: Lease) -> None:
        """Claim a run, whose job is performed in `scope`."""
        self._lease = lease
        self._taken_over = False
        self.epoch: Epoch | None = None
        self._term = lease.term
        self.scope = anyio.CancelScope()
        self.released = False
        self.permanently = False
        self.fault: StoreError | None = None
        self.ended = anyio.Event()

    @property
    def place(self) -> str:
        """The location of the store, for messages."""
        return self._lease.place

    @property
    def is_valid(self) -> bool:
        """Whether no other worker can have taken over the run."""
        return not self.released and not self.fenced

    @property
    def fenced(self) -> bool:
        """Whether another worker performs the run, or may perform it."""
        return self._taken_over or not self._lease.holds or self._lease.term != self._term

    @property
    def worker(self) -> str:
        """The worker that holds the claim."""
        return self._lease.worker

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
            await anyio.to_thread.run_sync(self._lease.renew)
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
        """Start or restart the run with this id."""
        self._run_id = run_id
        self._claim = claim
        self._ended_by: Exception | None = None

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._run_id

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
            fault = record_error(self._run_id, self._claim.place, error)
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
            cancelled = (row := await status_row(self._run_id)) is None or row.status == CANCELLED
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
