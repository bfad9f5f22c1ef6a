"""The file `schedule.json` beside a scheduler skill, and what each event makes of it.

The functions are pure; a store applies them under its lock.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, structs

from server.capabilities.schedules.allowances import Refused, RunRights, ScheduleError
from skills_core.schedules.when import (
    GRACE,
    TRANSITIONS,
    Admission,
    Every,
    MissedPolicy,
    OverlapPolicy,
    ScheduleEvent,
    ScheduleState,
    admit,
    due,
    end_of_run,
    is_ahead,
    next_firings,
    when_from_json,
    when_to_json,
)

if TYPE_CHECKING:
    from server.capabilities.schedules.allowances import Allowance, Spending, Terms
    from skills_core.schedules.when import When

MAX_RUNS: Final = 500
"""Most runs that a schedule lists; older ones are dropped from the list, not from the record of runs."""

_VERSION: Final = 1
_SHOWN: Final = 3

Moment = Annotated[datetime, Meta(tz=True)]


class Firing(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A firing that was started; `fired_at` is the time for which it was scheduled.

    `tokens`, `requests` and `seconds` are what it may use, None for what the settings allow to a run.
    """

    id: str
    fired_at: Moment
    started_at: Moment
    trigger: str
    tokens: int | None = None
    requests: int | None = None
    seconds: int | None = None

    def with_allowance(self, allowed: Allowance | None) -> Firing:
        """Return the firing with what it may use."""
        if allowed is None:
            return self
        return structs.replace(self, tokens=allowed.tokens, requests=allowed.requests, seconds=allowed.seconds)


class ResultDelivery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the delivery of a result goes: `pending`, `delivered` or `failed`, and since when."""

    status: str
    at: Moment
    message: str = ""


class ScheduledRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run of a schedule that ended; `notice` says what became of the schedule after it."""

    id: str
    fired_at: Moment
    started_at: Moment
    ended_at: Moment
    status: str
    trigger: str
    problem: str | None = None
    message: str = ""
    notice: str = ""
    delivery: ResultDelivery | None = None


class Binding(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that is recorded of a schedule.

    Firings up to `settled` are decided. `decided` is a later time up to which they were decided by a clock that was
    ahead of the present one: if the present one was behind, nothing fires again once it is set. `waiting` firings run
    one after the other once `running` has ended. `skill` is the skill to perform with the task, None to perform the
    scheduler skill by itself. Without a `model`, the one of the settings performs it. `skipped` counts firings that
    were missed or overlapped, or for which no budget was left; `note` explains the latest. `failures` counts the runs
    in a row that failed.
    """

    version: Annotated[int, Meta(ge=_VERSION, le=_VERSION)] = _VERSION
    when: dict[str, Any]
    zone: str
    missed: MissedPolicy = MissedPolicy.ONCE
    overlap: OverlapPolicy = OverlapPolicy.SKIP
    skill: str | None = None
    model: str | None = None
    rights: RunRights = RunRights()
    creator: str
    created: Moment
    settled: Moment
    decided: Moment | None = None
    state: ScheduleState = ScheduleState.ACTIVE
    waiting: tuple[Moment, ...] = ()
    running: Firing | None = None
    runs: tuple[ScheduledRun, ...] = ()
    skipped: Annotated[int, Meta(ge=0)] = 0
    failures: Annotated[int, Meta(ge=0)] = 0
    note: str = ""

    @property
    def time(self) -> When:
        """When the schedule fires."""
        return when_from_json(self.when)

    def next(self, now: datetime, count: int = _SHOWN) -> tuple[datetime, ...]:
        """Return the next firings after `now`; none while the schedule does not fire by itself."""
        if self.state not in {ScheduleState.ACTIVE, ScheduleState.RUNNING}:
            return ()
        return next_firings(self.time, max(now, self.settled), count)


def new_binding(  # noqa: PLR0913 - one parameter for each choice of the creator
    when: When,
    zone: str,
    now: datetime,
    *,
    rights: RunRights,
    creator: str,
    skill: str | None = None,
    model: str | None = None,
    missed: MissedPolicy = MissedPolicy.ONCE,
    overlap: OverlapPolicy = OverlapPolicy.SKIP,
) -> Binding:
    """Return the binding of a schedule that is made now.

    Raises:
        ScheduleError: the time is past.
    """
    if not next_firings(when, now, 1):
        raise ScheduleError("The time is past; give one that comes.")
    return Binding(
        when=dict(when_to_json(when)),
        zone=zone,
        missed=missed,
        overlap=overlap,
        skill=skill,
        model=model,
        rights=rights,
        creator=creator,
        created=now,
        settled=now,
    )


def run_id_of(name: str, at: datetime) -> str:
    """Return the ID of a schedule's run: the same in each process, so that a second start joins the first."""
    return hashlib.sha256(f"{name} {at.astimezone(UTC).isoformat()}".encode()).hexdigest()[:32]


_INSTANT: Final = timedelta(microseconds=1)
_FIRES: Final = frozenset({ScheduleState.ACTIVE, ScheduleState.RUNNING})


def fired(
    binding: Binding, name: str, now: datetime, terms: Terms | None = None, spending: Spending | None = None
) -> Binding:
    """Decide on all firings up to `now`, and start the first one that waits if no run lasts and `terms` allow it."""
    binding = _decided(healed(binding, now), now)
    while binding.running is None and binding.waiting and binding.state in _FIRES:
        at, *waiting = binding.waiting
        run_id = run_id_of(name, at)
        allowed = _admitted(binding, name, run_id, at, terms, spending)
        if not isinstance(allowed, Refused):
            trigger = f"schedule: {name} at {at.isoformat()}"
            firing = Firing(id=run_id, fired_at=at, started_at=now, trigger=trigger).with_allowance(allowed)
            return structs.replace(_after(binding, ScheduleEvent.START), running=firing, waiting=tuple(waiting))
        if allowed.waits:
            break
        note = f"The firing at {at.isoformat()} was skipped: {allowed.reason}."
        binding = structs.replace(binding, waiting=tuple(waiting), skipped=binding.skipped + 1, note=note)
        if not waiting and not next_firings(binding.time, binding.settled, 1):
            binding = _after(binding, ScheduleEvent.MISS_LAST)
    return binding


def _admitted(
    binding: Binding, name: str, run_id: str, at: datetime, terms: Terms | None, spending: Spending | None
) -> Allowance | Refused | None:
    """Return what a run may use, None for what the settings allow, or why it must not begin."""
    if terms is None or spending is None:
        return None
    earlier = next((run.fired_at for run in reversed(binding.runs) if not _is_manual(run.trigger)), None)
    if earlier is not None and (fault := terms.interval_fault(earlier, at)):
        return Refused(fault)
    return spending.begin(run_id, name, terms)


def _is_manual(trigger: str) -> bool:
    return trigger.startswith("manual:")


def ahead_warning(binding: Binding, now: datetime) -> str:
    """Return what is wrong with a record whose times are far ahead of `now`, empty if nothing is."""
    if not is_ahead(binding.settled, now):
        return ""
    return (
        f"Its firings were decided up to {binding.settled.isoformat()}, which is far ahead of the clock of this "
        f"machine: a clock was wrong. It goes on from {now.isoformat()}."
    )


def healed(binding: Binding, now: datetime) -> Binding:
    """Return a binding that goes on from `now` if its times are far ahead, else the same binding.

    A firing whose run is listed does not run again. If the present clock is the one that is wrong, the firings that
    were decided already are known once it is set.
    """
    if not (warning := ahead_warning(binding, now)):
        return binding
    when = binding.time
    if isinstance(when, Every) and when.anchor > now:
        # The firings stay the same ones, and begin earlier.
        when = replace(when, anchor=when.anchor - ((when.anchor - now) // when.span + 1) * when.span)
    waiting = tuple(at for at in binding.waiting if at <= now)
    # Those that wait for a later time come again, so they are not decided.
    undecided = [at - _INSTANT for at in binding.waiting if at > now]
    decided = min([max(binding.settled, binding.decided or binding.settled), *undecided])
    back = structs.replace(
        binding, when=dict(when_to_json(when)), settled=now, decided=decided, waiting=waiting, note=warning
    )
    comes_again = binding.state is ScheduleState.MISSED and bool(next_firings(when, now, 1))
    return _after(back, ScheduleEvent.RESUME) if comes_again else back


def _restored(binding: Binding, now: datetime) -> Binding:
    """Return the binding with all firings that were decided, if the clock has reached their time."""
    settled = binding.settled
    if binding.decided is not None and binding.decided <= now:
        return structs.replace(binding, settled=max(settled, binding.decided), decided=None)
    # No firing was due before the schedule was made.
    is_before = settled < binding.created <= now
    return structs.replace(binding, settled=binding.created) if is_before else binding


def _decided(binding: Binding, now: datetime) -> Binding:
    if binding.state not in _FIRES:
        return binding
    binding = _restored(binding, now)
    decision = due(binding.time, binding.settled, now, binding.missed)
    skipped = decision.skipped + decision.skipped_more
    if not decision.fire and not skipped:
        return binding
    # A clock that was ahead may have fired them.
    known = {run.fired_at for run in (*binding.runs, binding.running) if run is not None} | {*binding.waiting}
    waiting, note = list(binding.waiting), decision.explanation() or binding.note
    for at in (each for each in decision.fire if each not in known):
        # Those that `all` makes up for run one after the other.
        is_made_up = binding.missed is MissedPolicy.ALL and at < now - GRACE
        admission = admit(binding.overlap, is_running=binding.running is not None, queued=len(waiting))
        if is_made_up or admission is not Admission.SKIP:
            waiting.append(at)
        else:
            skipped += 1
            note = f"The firing at {at.isoformat()} was skipped: the run before it lasts."
    binding = structs.replace(
        binding, waiting=tuple(waiting), settled=decision.settled, skipped=binding.skipped + skipped, note=note
    )
    if decision.next is None and not waiting and binding.running is None:
        return _after(binding, ScheduleEvent.MISS_LAST)
    return binding


def started_by_hand(
    binding: Binding, name: str, now: datetime, trigger: str, terms: Terms, spending: Spending
) -> Binding:
    """Start a run that the user asked for.

    Raises:
        ScheduleError: a run lasts, or no budget is left.
    """
    if binding.running is not None:
        raise ScheduleError(
            f"The run {binding.running.id} of {name} lasts; wait for its end, or cancel it with "
            "`skillserve runs cancel`."
        )
    run_id = run_id_of(f"{name} by hand", now)
    allowed = spending.begin(run_id, name, terms)
    if isinstance(allowed, Refused):
        raise ScheduleError(f"{name} is not run: {allowed.reason}.")
    firing = Firing(id=run_id, fired_at=now, started_at=now, trigger=trigger).with_allowance(allowed)
    return structs.replace(_after(binding, ScheduleEvent.START), running=firing)


def ended(binding: Binding, run: ScheduledRun, failures_to_pause: int = 0) -> Binding:
    """Record the end of the run that lasts; the same binding if that run's end is recorded already.

    After so many failures in a row the schedule pauses, unless the number is 0. Runs by hand and cancelled runs count
    neither as failures nor as successes.
    """
    if binding.running is None or binding.running.id != run.id:
        return binding
    settled = run.ended_at if is_ahead(binding.settled, run.ended_at) else binding.settled
    is_last = not binding.waiting and not next_firings(binding.time, settled, 1)
    event = end_of_run(succeeded=run.status == "completed", is_last=is_last)
    failures = binding.failures
    if run.status == "completed":
        failures = 0
    elif run.status != "cancelled" and not _is_manual(run.trigger):
        failures += 1
    after = structs.replace(_after(binding, event), running=None, failures=failures)
    if 0 < failures_to_pause <= failures and after.state is ScheduleState.ACTIVE:
        notice = (
            f"The schedule is paused: {failures} runs in a row have failed, the last one with {run.problem}. Resume it "
            "with `skillserve schedule resume`."
        )
        after, run = structs.replace(paused(after), note=notice), structs.replace(run, notice=notice)
    return structs.replace(after, runs=(*binding.runs, run)[-MAX_RUNS:])


def delivered(binding: Binding, run_id: str, delivery: ResultDelivery) -> Binding:
    """Record how the delivery of a run's result goes."""
    runs = tuple(structs.replace(run, delivery=delivery) if run.id == run_id else run for run in binding.runs)
    return structs.replace(binding, runs=runs)


def paused(binding: Binding) -> Binding:
    """Let the schedule fire only by hand; firings that wait are dropped.

    Raises:
        ScheduleError: it does not fire as it is.
    """
    if binding.state in {ScheduleState.PAUSED, ScheduleState.PAUSING}:
        return binding
    dropped = len(binding.waiting)
    return structs.replace(_after(binding, ScheduleEvent.PAUSE), waiting=(), skipped=binding.skipped + dropped)


def resumed(binding: Binding, now: datetime) -> Binding:
    """Let the schedule fire again; what it would have fired meanwhile was not missed.

    Raises:
        ScheduleError: it is not paused.
    """
    binding = healed(binding, now)
    if binding.state in _FIRES:
        return binding
    if binding.state is ScheduleState.MISSED:
        raise ScheduleError("This schedule cannot resume: no firing is left. Give it another time.")
    return structs.replace(_after(binding, ScheduleEvent.RESUME), settled=max(now, binding.settled), failures=0)


def rebound(binding: Binding, when: When, zone: str, now: datetime) -> Binding:
    """Give the schedule another time, and nothing else.

    Raises:
        ScheduleError: the time never comes.
    """
    if not next_firings(when, now, 1):
        raise ScheduleError("The new time is past; give one that comes.")
    changed = _after(binding, ScheduleEvent.REBIND)
    json = dict(when_to_json(when))
    return structs.replace(changed, when=json, zone=zone, settled=now, decided=None, waiting=(), failures=0)


def _after(binding: Binding, event: ScheduleEvent) -> Binding:
    state = TRANSITIONS[binding.state].get(event)
    if state is None:
        raise ScheduleError(
            f"This schedule cannot {event.value.replace('_', ' ')}: its state is {binding.state.value}."
        )
    return structs.replace(binding, state=state)
