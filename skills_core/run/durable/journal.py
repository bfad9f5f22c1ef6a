"""The journal of one run, kept by dbos, and the hold that this process has on the run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NoReturn

import anyio
import anyio.lowlevel
import anyio.to_thread
from dbos import DBOS
from dbos import error as dbos_errors

from skills_core.run.durable.database_errors import FAULTS, reason_of
from skills_core.run.durable.dbos_context import row_of
from skills_core.run.durable.dbos_status import CANCELLED
from skills_core.run.durable.errors import StoreError
from skills_core.run.durable.json_serializer import plain
from skills_core.run.durable.leases import LeaseLostError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from skills_core.format.yaml12 import JsonValue
    from skills_core.run.durable.leases import Lease
    from skills_core.run.ports import Epoch

__all__ = ["DurableJournal", "Hold", "refused"]


class Hold:
    """A run that this process performs, until it lets go of it."""

    def __init__(self, lease: Lease) -> None:
        """Begin to hold a run, whose job is performed in `scope`."""
        self._lease = lease
        self._taken = False
        self.epoch: Epoch | None = None
        self._term = lease.term
        self.scope = anyio.CancelScope()
        self.released = False
        self.for_good = False
        self.fault: StoreError | None = None
        self.ended = anyio.Event()

    @property
    def place(self) -> str:
        """Where the run is recorded, for messages."""
        return self._lease.place

    @property
    def may_go_on(self) -> bool:
        """Whether no other worker can have taken the run over."""
        return not self.released and not self.fenced

    @property
    def fenced(self) -> bool:
        """Whether another worker may perform the run, or does."""
        return self._taken or not self._lease.holds or self._lease.term != self._term

    @property
    def worker(self) -> str:
        """Who holds it."""
        return self._lease.worker

    def release(self, *, for_good: bool = False, taken: bool = False, fault: StoreError | None = None) -> None:
        """Cancel the job, and see to it that nothing of it is recorded any more.

        `for_good` says that nobody continues it, `taken` that it is another worker's, `fault` what the store refused.
        """
        self._taken = self._taken or taken
        self.for_good = self.for_good or for_good
        self.fault = self.fault or fault
        self.released = True
        self.scope.cancel()

    async def is_gone(self) -> bool:
        """Return whether the store was removed, so that the run cannot go on."""
        try:
            await anyio.to_thread.run_sync(self._lease.renew)
        except StoreError:
            return True
        except LeaseLostError:
            pass
        return False


class _UnfinishedError(BaseException):
    """The work of a step raised. dbos records exceptions with their text, but none that is no `Exception`."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


class DurableJournal:
    """Records each finished step in the database, and reads back those that were finished before."""

    def __init__(self, run_id: str, hold: Hold) -> None:
        """Begin, or begin again, the run of this name."""
        self._run_id = run_id
        self._hold = hold
        self._ended_by: Exception | None = None

    @property
    def run_id(self) -> str:
        """The run's own name."""
        return self._run_id

    @property
    def interrupted(self) -> bool:
        """Whether this process let go of the run, and another one or the next continues it."""
        return self._hold.released and not self._hold.for_good

    @property
    def fenced(self) -> bool:
        """Whether another worker may perform the run by now, so that this one writes nothing for it any more."""
        return self._hold.fenced

    @property
    def epoch(self) -> Epoch | None:
        """The fencing token for files of the run."""
        return self._hold.epoch

    async def ensure_owned(self) -> None:
        """Go on only while the run is this worker's; otherwise the job is cancelled here."""
        if not self._hold.may_go_on:
            await self._let_go()

    async def step(self, name: str, work: Callable[[], Awaitable[JsonValue]]) -> JsonValue:
        """Return what the step came to, now or earlier.

        Once work has raised, each further step raises the same error: what was not recorded may turn out otherwise
        the next time, and then the steps after it would be others. Where the store refuses, the job is cancelled: what
        it would come to without its record is no outcome, and the run is continued from what is recorded.
        """
        if self._ended_by is not None:
            raise self._ended_by

        async def recorded() -> JsonValue:
            await self.ensure_owned()
            try:
                return plain(await work())
            except StoreError as error:  # of a run inside
                await self._let_go(fault=error)
            except Exception as error:  # noqa: BLE001 - raised again below
                raise _UnfinishedError(error) from None

        try:
            return await DBOS.run_step_async({"name": name}, recorded)
        except _UnfinishedError as unfinished:
            self._ended_by = unfinished.error
        except FAULTS as error:
            fault = refused(self._run_id, self._hold.place, error)
            await (self._let_go(for_good=True) if await self._hold.is_gone() else self._let_go(fault=fault))
        except dbos_errors.DBOSWorkflowConflictIDError:
            await self._let_go_as_recorded()
        except dbos_errors.DBOSWorkflowCancelledError:
            await self._let_go(for_good=True)
        assert self._ended_by is not None  # noqa: S101 - for the type checker
        raise self._ended_by

    async def _let_go_as_recorded(self) -> NoReturn:
        """Let go of a run that is not this worker's any more: it was cancelled, or another one has it."""
        try:
            cancelled = (row := await row_of(self._run_id)) is None or row.status == CANCELLED
        except FAULTS:
            cancelled = False
        await (self._let_go(for_good=True) if cancelled else self._let_go(taken=True))

    async def _let_go(
        self, *, for_good: bool = False, taken: bool = False, fault: StoreError | None = None
    ) -> NoReturn:
        self._hold.release(for_good=for_good, taken=taken, fault=fault)
        await anyio.lowlevel.checkpoint()
        # It is shielded, or a task that the scope does not know of.
        raise asyncio.CancelledError


def refused(run_id: str, place: str, error: Exception) -> StoreError:
    """Return the error for a run whose record could not be read or written."""
    why = f" ({reason})" if (reason := reason_of(error)) else ""
    what = f"The record of the run {run_id!r} in {place} could not be read or written{why}: {type(error).__name__}."
    return StoreError(f"{what} It is continued later from what is recorded.")
