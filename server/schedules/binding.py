"""The file `schedule.json` beside a scheduler skill: when it runs, with which rights, and what became of its runs."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from server.schedules.rights import Rights
from skills_core.errors import InvalidTimeError
from skills_core.schedules.firings import next_firings
from skills_core.schedules.policies import MissedPolicy, OverlapPolicy
from skills_core.schedules.states import ScheduleState
from skills_core.schedules.when import when_from_json

if TYPE_CHECKING:
    from skills_core.schedules.when import When

__all__ = ["MAX_RUNS", "Binding", "Delivery", "Firing", "InvalidBindingError", "ScheduledRun", "run_id_of"]

MAX_RUNS: Final = 500
"""Most runs that a schedule lists; older ones are dropped from the list, not from the record of runs."""

_VERSION: Final = 1
_SHOWN: Final = 3

Moment = Annotated[datetime, Meta(tz=True)]


class InvalidBindingError(Exception):
    """The bytes are no binding; the message says what was expected where."""


class Firing(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A firing that was started; `fired_at` is the time for which it was scheduled, `tokens` what it may use."""

    id: str
    fired_at: Moment
    started_at: Moment
    trigger: str
    tokens: int | None = None


class Delivery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
    delivery: Delivery | None = None


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
    rights: Rights = Rights()
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

    def to_json(self) -> dict[str, Any]:
        """Return the value of the file."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found

    @classmethod
    def from_json(cls, value: object) -> Binding:
        """Return the binding in a file.

        Raises:
            InvalidBindingError: it is none.
        """
        try:
            found = msgspec.convert(value, cls)
            when_from_json(found.when)
        except (msgspec.ValidationError, InvalidTimeError) as error:
            raise InvalidBindingError(str(error)) from None
        return found


def run_id_of(name: str, at: datetime) -> str:
    """Return the ID of a schedule's run: the same in each process, so that a second start joins the first."""
    return hashlib.sha256(f"{name} {at.astimezone(UTC).isoformat()}".encode()).hexdigest()[:32]
