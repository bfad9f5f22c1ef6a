"""Keeps time: starts the firings that are due, and records how their runs end.

Any number of processes may keep time for the same schedules. Each decision is made under the lock of the store and
written before the run is started; a run's ID follows from its schedule and time, so that a process that finds a
started firing without a run starts the same one. The wall clock is read at each tick, so a clock that is set, or a
machine that slept, is noticed within a second.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread
from msgspec import structs

from server.capabilities.runs.after_run import improvements_of_none
from server.capabilities.runs.settings import RunSettings, lease_seconds
from server.capabilities.schedules.allowances import ScheduleError, UnknownScheduleError, terms_of, used_by_run
from server.capabilities.schedules.binding import (
    ResultDelivery,
    ScheduledRun,
    ahead_warning,
    delivered,
    ended,
    fired,
    started_by_hand,
)
from server.capabilities.schedules.firing import KIND, RETRY_AFTER, deliver, job_inputs, load_libraries
from server.capabilities.schedules.settings import ScheduleSettings
from server.capabilities.schedules.store import utc_now
from skills_core.diagnostics import one_line
from skills_core.runs.durable.recorded_run import UNFINISHED, RunConflictError, RunState, StoreError, UnknownRunError
from skills_core.schedules.when import ScheduleState, is_ahead

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from server.capabilities.schedules.allowances import Spending
    from server.capabilities.schedules.binding import Binding, Firing
    from server.capabilities.schedules.store import ScheduleStore
    from server.capability import ImprovementsAfter
    from server.config.settings.model import Settings
    from skills_core.format.yaml12 import JsonObject
    from skills_core.runs.durable.engine import Engine
    from skills_core.runs.durable.recorded_run import RecordedRun


logger = logging.getLogger(__name__)

LONGEST_WAIT: Final = 1.0
"""Seconds between two looks at the clock and at the schedules of other processes."""

_START_SECONDS: Final = 2.0
# A firing that another process has decided gets this long until its run is recorded.

_ALL: Final = ""
# In the place of a name, for what concerns all schedules.

_ENDINGS: Final = {RunState.CANCELLED: "cancelled", RunState.GIVEN_UP: "failed", RunState.FAILED: "failed"}


@dataclass(slots=True)
class _Known:
    """The last state of a schedule that this process has read."""

    stamp: tuple[int, int, int] | None
    binding: Binding
    coming: datetime | None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be done before the next firing."""
        binding = self.binding
        return binding.running is None and not binding.waiting and binding.state is not ScheduleState.DONE


@dataclass(slots=True)
class _RunHere:
    """What this process does for one run of a schedule."""

    is_watched: bool = False
    is_recorded: bool = False
    """This process recorded the end of the run, and delivers its result: others do so only if this process dies."""
    is_delivering: bool = False
    left_since: float | None = None
    """Since when no process performs the run, on the clock that is never set."""


def tell_nobody(text: str, **about: object) -> None:
    """Tell nobody: nobody watches the process."""
    del text, about


@dataclass(slots=True)
class TimeKeeper:
    """Fires the schedules of `store` by `engine`.

    `clock` returns the current time, `elapsed` seconds on a clock that is never set. `improvements` returns the changes
    of skills that runs led to, once they are complete.
    """

    store: ScheduleStore
    engine: Engine
    settings: Settings
    clock: Callable[[], datetime] = utc_now
    improvements: ImprovementsAfter = improvements_of_none
    elapsed: Callable[[], float] = time.monotonic
    tell: Callable[..., None] = tell_nobody
    """Takes a line about a schedule for people who watch the server, with the fields of its event."""
    _known: dict[str, _Known] = field(default_factory=dict)
    _runs: defaultdict[str, _RunHere] = field(default_factory=lambda: defaultdict(_RunHere))
    _prepared: set[str | None] = field(default_factory=set)
    _logged: dict[str, str] = field(default_factory=dict)
    # The error that was logged last for each schedule, and for all of them.
    _wake: anyio.Event = field(default_factory=anyio.Event)

    async def run(self) -> None:
        """Keep time until cancelled.

        Raises:
            StoreError: the record of runs is gone.
        """
        async with anyio.create_task_group() as tasks:
            while True:
                try:
                    seconds = await self.tick(tasks)
                    self._logged.pop(_ALL, None)
                except ScheduleError as error:
                    self._log_once(_ALL, error)
                    seconds = LONGEST_WAIT
                with anyio.move_on_after(seconds):
                    await self._wake.wait()
                self._wake = anyio.Event()

    async def tick(self, tasks: TaskGroup | None = None) -> float:
        """Look at all schedules once; return the seconds until the next look.

        With `tasks`, runs are watched and results delivered in the background.
        """
        wait, names = LONGEST_WAIT, await anyio.to_thread.run_sync(self.store.names)
        for name in names:
            if not self.store.is_bound(name):
                continue
            try:
                coming = await self._attend(name, tasks)
            except UnknownScheduleError:
                continue  # it was removed meanwhile
            except ScheduleError as error:
                self._log_once(name, error)
                continue
            if coming is not None:
                wait = min(wait, max((coming - self.clock()).total_seconds(), 0.0))
        self._known = {name: known for name, known in self._known.items() if name in names}
        for run_id in [run_id for run_id, run in self._runs.items() if run == _RunHere()]:
            del self._runs[run_id]
        return wait

    async def run_by_hand(self, name: str, trigger: str) -> JsonObject:
        """Perform a schedule now, and return the outcome once its end is recorded.

        Raises:
            ScheduleError: there is none of this name, a run lasts, or no budget is left.
            RunNotDoneError: the run has no outcome.
        """
        now = self.clock()
        model = (await anyio.to_thread.run_sync(self.store.read, name)).model
        terms = await anyio.to_thread.run_sync(terms_of, self.settings, model, now)

        def start(found: Binding, spending: Spending) -> Binding:
            return started_by_hand(found, name, now, trigger, terms, spending)

        firing = (await self._spend(name, start)).running
        assert firing is not None  # noqa: S101 - it was just started
        await self._start(name, firing)
        try:
            return await self.engine.wait(firing.id)
        finally:
            with suppress(UnknownScheduleError):  # another process recorded the end
                await self._finish(name, await self._follow(name, firing), None)

    async def _attend(self, name: str, tasks: TaskGroup | None) -> datetime | None:
        """Do what is to be done for a schedule now, and return its next firing."""
        known = await self._current(name)
        if tasks is not None:
            self._prepare(known.binding, tasks)
        now = self.clock()
        is_due = known.coming is not None and known.coming <= now
        warning = ahead_warning(known.binding, now)
        undelivered = any(run.delivery is not None for run in known.binding.runs)
        if known.is_idle and not (is_due or warning or undelivered):
            return known.coming
        binding = known.binding
        if binding.running is not None and not self._is_watched(binding.running):
            binding = await self._follow(name, binding.running)
        now = self.clock()
        if fired(binding, name, now) != binding:
            before, skipped, note = binding.running, binding.skipped, binding.note
            terms = await anyio.to_thread.run_sync(terms_of, self.settings, binding.model, now)
            binding = await self._spend(name, lambda found, spending: fired(found, name, now, terms, spending))
            if warning:
                logger.warning("schedule %s: %s", name, warning)
            if binding.skipped != skipped:
                # The same reason is logged as a warning once.
                is_new = binding.note.partition(": ")[2] != note.partition(": ")[2]
                logger.log(logging.WARNING if is_new else logging.INFO, "schedule %s: %s", name, one_line(binding.note))
            if binding.running is not None and binding.running != before:
                await self._start(name, binding.running)
        if binding.running is not None and tasks is not None:
            self._watch(binding.running.id, tasks)
        await self._finish(name, binding, tasks)
        return next(iter(binding.next(self.clock(), 1)), None)

    def _prepare(self, binding: Binding, tasks: TaskGroup) -> None:
        """Load the libraries of a schedule's model in the background, once."""
        model = binding.model or self.settings.section(RunSettings).model
        if model not in self._prepared:
            self._prepared.add(model)
            tasks.start_soon(partial(anyio.to_thread.run_sync, load_libraries, model, abandon_on_cancel=True))

    async def _current(self, name: str) -> _Known:
        """Return the binding, read again only if its file has changed."""
        stamp = await anyio.to_thread.run_sync(self.store.stamp, name)
        known = self._known.get(name)
        if known is None or stamp is None or known.stamp != stamp:
            binding = await anyio.to_thread.run_sync(self.store.read, name)
            self._logged.pop(name, None)
            # From its own last decision, so that a firing that is due already counts as the next one.
            coming = next(iter(binding.next(binding.settled, 1)), None)
            self._known[name] = known = _Known(stamp, binding, coming)
        return known

    async def _update(self, name: str, change: Callable[[Binding], Binding]) -> Binding:
        binding = await anyio.to_thread.run_sync(self.store.update, name, change)
        self._known.pop(name, None)
        return binding

    async def _spend(self, name: str, change: Callable[[Binding, Spending], Binding]) -> Binding:
        binding = await anyio.to_thread.run_sync(self.store.spend, name, change)
        self._known.pop(name, None)
        return binding

    async def _follow(self, name: str, firing: Firing) -> Binding:
        """Look after a run that lasts: start it if it has no record, and record its end."""
        try:
            run = await self.engine.get(firing.id)
        except UnknownRunError:
            late = (self.clock() - firing.started_at).total_seconds()
            if not 0 <= late < _START_SECONDS:
                await self._start(name, firing)
            return (await self._current(name)).binding
        if run.state in UNFINISHED:
            if not await self._is_given_up(firing.id):
                return (await self._current(name)).binding
            run = await self.engine.cancel(firing.id)
        entry = self._entry(firing, run)
        self._runs[entry.id].is_recorded = entry.delivery is not None
        return await self._end(name, entry, run.outcome or {})

    async def _end(self, name: str, entry: ScheduledRun, outcome: JsonObject) -> Binding:
        """Record the end of a run, and what it has used."""
        lasted = (entry.ended_at - entry.started_at).total_seconds()
        used = await anyio.to_thread.run_sync(used_by_run, entry.id, outcome, lasted)

        def end(found: Binding, spending: Spending) -> Binding:
            spending.end(entry.id, used)
            return ended(found, entry, self.settings.section(ScheduleSettings).failures_to_pause)

        after = await self._spend(name, end)
        why = f": {entry.message}" if entry.message else ""
        logger.info("schedule %s: run %s %s%s", name, entry.id, entry.status, one_line(why))
        self.tell(f"{name} {entry.status}{why}", target=name, is_trouble=entry.problem is not None)
        if notice := next((run.notice for run in after.runs if run.id == entry.id), ""):
            logger.warning("schedule %s: %s", name, one_line(notice))
        return after

    async def _start(self, name: str, firing: Firing) -> None:
        try:
            await self.engine.start(KIND, firing.id, job_inputs(name, firing.trigger), here=True)
        except RunConflictError as error:
            await self._give_up_foreign(name, firing, error)
        else:
            logger.info("schedule %s: run %s for %s", name, firing.id, firing.fired_at.isoformat())
            self.tell(f"{name} begins to run", target=name)

    async def _is_given_up(self, run_id: str) -> bool:
        """Tell whether no process performs a run, and none has continued it for as long as one may.

        The seconds are those in which this process was awake and looked: a clock that is set and a machine that sleeps
        end no run, nor does a run end that waits for a free slot.
        """
        try:
            is_left = await self.engine.is_left(run_id)
        except UnknownRunError:
            is_left = True
        run, now = self._runs[run_id], self.elapsed()
        run.left_since = (now if run.left_since is None else run.left_since) if is_left else None
        if run.left_since is None:
            return False
        return now - run.left_since > self.settings.section(RunSettings).resume_seconds + lease_seconds(self.settings)

    async def _give_up_foreign(self, name: str, firing: Firing, error: RunConflictError) -> None:
        """Record a run of another pool as failed once no process can be performing it."""
        if not await self._is_given_up(firing.id):
            return
        entry = _run(firing, self.clock(), "failed", "interrupted", f"Its process is gone. {error}")
        await self._end(name, entry, {})

    def _entry(self, firing: Firing, run: RecordedRun) -> ScheduledRun:
        if run.outcome is None:
            status = _ENDINGS.get(run.state, "failed")
            entry = _run(firing, self.clock(), status, run.problem or run.state.value, run.state.meaning)
        else:
            said = run.outcome
            problem = None if said.get("problem") is None else str(said["problem"])
            entry = _run(firing, self.clock(), str(said.get("status")), problem, str(said.get("message") or ""))
        return self._with_delivery(entry)

    def _with_delivery(self, entry: ScheduledRun) -> ScheduledRun:
        if not self.settings.section(ScheduleSettings).delivers:
            return entry
        return structs.replace(entry, delivery=ResultDelivery(status="pending", at=self.clock()))

    def _is_watched(self, firing: Firing) -> bool:
        """Tell whether the end of a run wakes this process, which performs it; others may die."""
        return self._runs[firing.id].is_watched and self.engine.performs(firing.id)

    def _watch(self, run_id: str, tasks: TaskGroup) -> None:
        """Look at the schedules again as soon as a run ends."""
        if self._runs[run_id].is_watched:
            return
        self._runs[run_id].is_watched = True

        async def watch() -> None:
            try:
                await self.engine.wait(run_id)
            except StoreError:
                return
            except UnknownRunError:
                # Its process has not recorded it yet, or belongs to another pool.
                await anyio.sleep(LONGEST_WAIT)
            except Exception:  # noqa: BLE001 - the next tick reads how the run ended
                logger.debug("run %s has no outcome", run_id)
            finally:
                self._runs[run_id].is_watched = False
                self._wake.set()

        tasks.start_soon(watch)

    async def _finish(self, name: str, binding: Binding, tasks: TaskGroup | None) -> None:
        """Deliver results that wait for it, and remove a schedule that is done."""
        pending = [run for run in binding.runs if run.delivery is not None and run.delivery.status == "pending"]
        for run in pending:
            assert run.delivery is not None  # noqa: S101 - as selected
            now = self.clock()
            taken_over = now - run.delivery.at > RETRY_AFTER or is_ahead(run.delivery.at, now)
            here = self._runs[run.id]
            if here.is_delivering or not (taken_over or here.is_recorded):
                continue
            here.is_delivering = True
            if tasks is None:
                await self._deliver(name, run)
            else:
                tasks.start_soon(self._deliver, name, run)
        if binding.state is ScheduleState.DONE and not pending:
            moved = await anyio.to_thread.run_sync(partial(self.store.remove, name, _is_done))
            if moved is not None:
                logger.info("schedule %s is done; its folder is %s", name, moved)

    async def _deliver(self, name: str, run: ScheduledRun) -> None:
        try:
            outcome = (await self.engine.get(run.id)).outcome or {}
            improvements: Sequence[Mapping[str, Any]] = ()
            # The result is not kept back until another process would deliver it.
            with anyio.move_on_after(RETRY_AFTER.total_seconds() / 2):
                improvements = await self.improvements([run.id])
            message = await deliver(self.settings.section(ScheduleSettings), name, run, outcome, improvements)
            status = "failed" if message else "delivered"
            if message:
                logger.warning("schedule %s: the result of run %s is not delivered: %s", name, run.id, message)
            result = ResultDelivery(status=status, at=self.clock(), message=message[:500])
            await self._update(name, lambda found: delivered(found, run.id, result))
            self._runs[run.id].is_recorded = False
        except (ScheduleError, UnknownRunError) as error:
            logger.warning("schedule %s: the result of run %s is not delivered: %s", name, run.id, error)
        finally:
            self._runs[run.id].is_delivering = False
            self._wake.set()

    def _log_once(self, name: str, error: ScheduleError) -> None:
        """Log that a schedule, or all of them, cannot be read; the same error once."""
        if self._logged.get(name) != str(error):
            self._logged[name] = str(error)
            logger.error("%s%s", f"schedule {name}: " if name else "", one_line(str(error)))


def _run(firing: Firing, now: datetime, status: str, problem: str | None, message: str) -> ScheduledRun:
    return ScheduledRun(
        id=firing.id,
        fired_at=firing.fired_at,
        started_at=firing.started_at,
        ended_at=now,
        status=status,
        trigger=firing.trigger,
        problem=problem,
        message=message[:2000],
    )


def _is_done(binding: Binding) -> bool:
    undelivered = any(run.delivery is not None and run.delivery.status == "pending" for run in binding.runs)
    return binding.state is ScheduleState.DONE and not undelivered
