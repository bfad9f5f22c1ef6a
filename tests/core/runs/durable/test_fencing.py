"""A job knows whether its worker still owns the run, and which attempt it is."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from skills_core.runs.durable.engine import open_engine
from skills_core.runs.durable.recorded_run import WorkerConfig
from skills_core.runs.durable.store import store_of
from skills_core.runs.journal import Epoch
from tests.core.runs.durable.conftest import CALM
from tests.core.runs.durable.test_takeover import change

TERMS = WorkerConfig(**CALM)


class Job:
    """Stands in a step until it is cancelled, and notes what it knows of itself then."""

    def __init__(self) -> None:
        self.begun, self.ended = anyio.Event(), anyio.Event()
        self.epochs: list[Epoch] = []
        self.fenced = self.interrupted = False
        self.went_on = False

    async def __call__(self, journal: Any, given: Any) -> Any:
        self.epochs.append(journal.epoch)
        del given
        try:
            await journal.step("stand", self.stand)
        finally:
            self.fenced, self.interrupted = journal.fenced, journal.interrupted
            with anyio.CancelScope(shield=True):
                await self.goes_on(journal)
            self.ended.set()
        return {}

    async def stand(self) -> None:
        self.begun.set()
        await anyio.sleep_forever()

    async def goes_on(self, journal: Any) -> None:
        with anyio.CancelScope() as scope:
            try:
                await journal.ensure_owned()
                self.went_on = True
            except anyio.get_cancelled_exc_class():
                scope.cancel()


@pytest.mark.parametrize(
    ("to", "fenced", "interrupted"),
    [
        ("executor_id = 'another', owner_xid = 'another'", True, True),
        ("status = 'ENQUEUED', owner_xid = NULL", True, True),
        ("status = 'CANCELLED', owner_xid = NULL", False, False),
    ],
    ids=["taken", "handed back", "cancelled"],
)
async def test_a_job_is_fenced_once_another_worker_may_own_its_run(
    url: str,
    to: str,
    fenced: bool,  # noqa: FBT001
    interrupted: bool,  # noqa: FBT001
) -> None:
    job = Job()
    async with open_engine(store_of(url), {"job": job}, TERMS) as engine:
        await engine.start("job", "one", {}, here=True)
        await job.begun.wait()
        change(url, f"UPDATE {{0}}workflow_status SET {to}")  # noqa: S608
        with anyio.fail_after(60):
            await job.ended.wait()
    assert (job.fenced, job.interrupted, job.went_on) == (fenced, interrupted, False)


async def test_each_attempt_at_a_run_has_a_higher_token(url: str) -> None:
    job = Job()
    for attempt in (1, 2):
        async with open_engine(store_of(url), {"job": job}, TERMS) as engine:
            if attempt == 1:
                await engine.start("job", "one", {}, here=True)
            with anyio.fail_after(60):
                await job.begun.wait()
        job.begun = anyio.Event()
    first, second = job.epochs
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.recorded == second.recorded
    assert not job.fenced
