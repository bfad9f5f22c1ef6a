"""Budgets of a day, the pause after failures, and the shortest interval, on the real engine and a clock set by hand."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from server.capabilities.schedules.actions import overview
from server.capabilities.schedules.allowances import SPENDING_FILE, ScheduleError, check_interval, terms_of
from server.capabilities.schedules.binding import resumed
from server.capabilities.schedules.keeper import TimeKeeper
from server.capabilities.schedules.store import ScheduleStore
from skills_core.runs.journal import Journal
from skills_core.schedules.when import Cron, Every, MissedPolicy, OverlapPolicy, ScheduleState
from tests.capabilities.schedules.conftest import START, Clock, Keep, Make
from tests.server.settings import make_settings

MODEL = "http://127.0.0.1:9/v1#m"
PRICES = {MODEL: {"input": 1.0, "output": 10.0}}


class Job:
    """A job that uses tokens; it notes what it may use, and waits while `go` is not set."""

    def __init__(self, store: ScheduleStore, used: Any = (900, 100), **outcome: Any) -> None:
        self.store = store
        self.allowed: list[int | None] = []
        self.left: list[tuple[int | None, int | None]] = []
        self.clock: Clock | None = None
        self.used_seconds = 0
        self.outcome = {"status": "completed", "problem": None, "message": "", "output": "hi", **outcome}
        if used is not None:
            self.outcome["usage"] = {"requests": 1, "input_tokens": used[0], "output_tokens": used[1]}
        self.go = anyio.Event()
        self.go.set()

    async def __call__(self, journal: Journal, given: dict[str, Any]) -> dict[str, Any]:
        running = self.store.read(given["schedule"]).running
        assert running is not None
        assert running.id == journal.run_id
        self.allowed.append(running.tokens)
        self.left.append((running.requests, running.seconds))
        if self.clock is not None:
            self.clock.forward(seconds=self.used_seconds)
        await self.go.wait()
        return self.outcome


async def fire(keeper: TimeKeeper, clock: Clock, **span: float) -> None:
    """Move the clock on, and perform what is due until nothing lasts."""
    clock.forward(**span)
    await keeper.tick()
    with anyio.fail_after(60):
        while any(keeper.store.read(name).running is not None for name in keeper.store.names()):
            await anyio.sleep(0.01)
            await keeper.tick()


async def test_the_runs_of_a_day_are_limited_together_and_for_each_schedule(
    keep: Keep, make: Make, clock: Clock, store: ScheduleStore, caplog: pytest.LogCaptureFixture
) -> None:
    names, job = [make(short=f"s{number}") for number in range(3)], Job(store)
    limits = {"schedule_runs_per_day": 5, "schedule_each_runs_per_day": 2}
    async with keep(job, **limits) as keeper:
        for _ in range(4):
            await fire(keeper, clock, hours=1)
        assert sorted(len(store.read(name).runs) for name in names) == [1, 2, 2]
    assert any("used up (schedules.runs_per_day)" in record.message for record in caplog.records)
    async with keep(job, **limits | {"schedule_runs_per_day": 50}) as keeper:
        await fire(keeper, clock, hours=1)
    assert [len(store.read(name).runs) for name in names] == [2, 2, 2]
    assert any("used up (schedules.each_runs_per_day)" in store.read(name).note for name in names)
    # What was spent is known after a restart, and to another process; a schedule that is removed leaves its spending.
    store.remove(names[0])
    names[0] = make(short="again")
    async with keep(job, **limits) as keeper:
        await fire(keeper, clock, hours=1)
        assert len(job.allowed) == 6
        await fire(keeper, clock, hours=24)
        assert len(job.allowed) == 9


async def test_a_run_gets_the_tokens_that_are_left_and_waits_for_those_that_are_set_aside(
    keep: Keep, make: Make, clock: Clock, store: ScheduleStore
) -> None:
    names, job = [make(short=f"s{number}") for number in range(3)], Job(store)
    job.go = anyio.Event()
    async with keep(job, schedule_tokens_per_day=2500, run_tokens=2000) as keeper:
        clock.forward(hours=1)
        for _ in range(3):
            await keeper.tick()
        with anyio.fail_after(60):
            while len(job.allowed) < 2:  # noqa: ASYNC110 - the engine has no event for it
                await anyio.sleep(0.01)
        # Two runs begin at the same time, in any order.
        assert {*job.allowed} == {500, 2000}
        assert [len(store.read(name).waiting) for name in names].count(1) == 1
        job.go.set()
        await fire(keeper, clock)
        # Each used 1000 of them; the third may begin while only one of the others has ended.
        assert {*job.allowed[:2]} == {500, 2000}
        assert job.allowed[2] in {500, 1000}
        await fire(keeper, clock, hours=1)
        assert len(job.allowed) == 3
        assert store.spending().spent(terms_of(keeper.settings, None, clock.now).day).tokens == 3000


async def test_a_run_gets_the_requests_and_seconds_that_are_left(
    keep: Keep, make: Make, clock: Clock, store: ScheduleStore
) -> None:
    name, job = make(), Job(store)
    job.outcome["usage"] = {"requests": 7, "input_tokens": 9, "output_tokens": 1}
    limits = {"schedule_requests_per_day": 20, "schedule_each_seconds_per_day": 600}
    async with keep(job, **limits, run_turns=12, run_seconds=500) as keeper:
        for _ in range(4):
            await fire(keeper, clock, hours=1)
        found = overview(store, keeper.settings, clock.now)
    binding = store.read(name)
    assert job.left == [(12, 500), (12, 500), (6, 500)]
    assert found["spent"]["requests"] == 21
    assert "20 requests, is used up (schedules.requests_per_day)" in binding.note
    limits = {"schedule_each_seconds_per_day": 600}
    job.used_seconds, job.clock = 250, clock
    async with keep(job, **limits, run_seconds=500) as keeper:
        clock.forward(hours=24)
        for _ in range(4):
            await fire(keeper, clock, hours=1)
    assert [seconds for _, seconds in job.left[3:6]] == [500, 350, 100]


async def test_dollars_need_a_price_and_are_limited(keep: Keep, make: Make, clock: Clock, store: ScheduleStore) -> None:
    name, job = make(), Job(store)
    async with keep(job, model=MODEL, schedule_dollars_per_day=0.005) as keeper:
        await fire(keeper, clock, hours=1)
        binding = store.read(name)
        assert (binding.runs, binding.skipped) == ((), 1)
        assert f"the price of {MODEL} is unknown" in binding.note
        assert f"price of {MODEL} is unknown" in str(overview(store, keeper.settings, clock.now)["warnings"])
    async with keep(job, model=MODEL, schedule_dollars_per_day=0.005, run_prices=PRICES) as keeper:
        for _ in range(4):
            await fire(keeper, clock, hours=1)
        found = overview(store, keeper.settings, clock.now)
    # A run costs 1900 millionths, and may cost no more than what is left, all of it output.
    assert job.allowed == [500, 310, 120]
    dollars = pytest.approx(0.0057)
    spent = {"runs": 3, "tokens": 3000, "requests": 3, "seconds": 0, "dollars": dollars, "unpriced": 0}
    assert found["spent"] == spent
    assert "0.005 dollars, is used up" in str(found["warnings"])


async def test_of_a_run_whose_use_is_unknown_all_that_it_may_use_counts(
    keep: Keep, make: Make, clock: Clock, store: ScheduleStore
) -> None:
    make()
    job = Job(store, used=None)
    async with keep(job, run_tokens=700) as keeper:
        await fire(keeper, clock, hours=1)
        spent = store.spending().spent(terms_of(keeper.settings, None, clock.now).day)
    assert (spent.runs, spent.tokens) == (1, 700)


async def test_a_run_by_hand_counts_and_needs_a_budget(
    keep: Keep, make: Make, clock: Clock, store: ScheduleStore
) -> None:
    name, job = make(), Job(store)
    async with keep(job, schedule_runs_per_day=1) as keeper:
        await keeper.run_by_hand(name, "manual: test")
        clock.forward(seconds=1)
        with pytest.raises(ScheduleError, match="used up"):
            await keeper.run_by_hand(name, "manual: test")
        assert store.read(name).running is None


async def test_spending_that_cannot_be_read_lets_nothing_fire(
    keep: Keep, make: Make, clock: Clock, store: ScheduleStore, caplog: pytest.LogCaptureFixture
) -> None:
    name, job = make(), Job(store)
    (store.root.parent / SPENDING_FILE).write_text('{"version": 1, "days": 3}')
    async with keep(job) as keeper:
        clock.forward(hours=1)
        for _ in range(3):
            await keeper.tick()
        assert [SPENDING_FILE in record.message for record in caplog.records].count(True) == 1
        assert (job.allowed, store.read(name).running) == ([], None)
        (store.root.parent / SPENDING_FILE).unlink()
        await fire(keeper, clock)
    assert len(job.allowed) == 1


async def test_failures_in_a_row_pause_a_schedule_and_are_delivered(
    keep: Keep, make: Make, clock: Clock, store: ScheduleStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    name, told = make(missed=MissedPolicy.ALL, overlap=OverlapPolicy.QUEUE), tmp_path / "told"
    job = Job(store, status="failed", problem="model_error", message="No answer.")
    program = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read() + '\\n')"
    command = (sys.executable, "-c", program, str(told))
    async with keep(job, schedule_failures_to_pause=3, schedule_command=command) as keeper:
        await fire(keeper, clock, hours=1)
        job.outcome["status"] = "completed"
        await fire(keeper, clock, hours=1)
        job.outcome["status"] = "failed"
        await fire(keeper, clock, hours=5)
        binding = store.read(name)
        assert (binding.state, len(binding.runs), binding.waiting) == (ScheduleState.PAUSED, 5, ())
        assert "3 runs in a row have failed, the last one with model_error" in binding.note
        assert binding.note in str(overview(store, keeper.settings, clock.now)["warnings"])
        await fire(keeper, clock, hours=5)
        assert len(job.allowed) == 5
        store.update(name, lambda found: resumed(found, clock.now))
        await fire(keeper, clock, hours=1)
        assert store.read(name).state is ScheduleState.ACTIVE
    assert any("is paused" in record.message for record in caplog.records)
    notices = [json.loads(line)["notice"] for line in told.read_text().splitlines()]
    assert [bool(notice) for notice in notices] == [False] * 4 + [True, False]


async def test_a_model_that_costs_money_fires_at_most_in_its_interval(
    keep: Keep, make: Make, clock: Clock, store: ScheduleStore
) -> None:
    name, job = make(Every(timedelta(seconds=20), START)), Job(store)
    async with keep(job, model=MODEL, run_prices=PRICES) as keeper:
        for _ in range(9):
            await fire(keeper, clock, seconds=20)
        binding = store.read(name)
    assert [(run.fired_at - START).total_seconds() for run in binding.runs] == [20, 80, 140]
    assert (binding.skipped, "at most every 60 seconds" in binding.note) == (6, True)


@pytest.mark.parametrize(
    ("model", "settings", "is_free"),
    [
        ("anthropic:claude-sonnet-4-5", {}, False),
        ("anthropic:no-such-model", {}, False),
        ("https://models.example.com/v1#m", {}, False),
        (MODEL, {}, True),
        (MODEL, {"run_prices": PRICES}, False),
        (MODEL, {"run_prices": {MODEL: {"input": 0, "output": 0}}}, True),
        ("anthropic:claude-sonnet-4-5", {"schedule_paid_interval_seconds": 0}, True),
        (None, {}, True),
    ],
)
def test_a_schedule_that_would_fire_too_often_is_refused(
    model: str | None,
    settings: dict[str, Any],
    is_free: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    terms = terms_of(make_settings(**settings), model, START)
    check_interval(Every(timedelta(minutes=1), START), terms, START)
    check_interval(Cron("0 9 * * *"), terms, START)
    for when in (Every(timedelta(seconds=59), START), Cron("0,30 0 9 * * *")):
        if is_free:
            check_interval(when, terms, START)
        else:
            with pytest.raises(ScheduleError, match="at most every 60 seconds"):
                check_interval(when, terms, START)


@pytest.mark.parametrize("prices", [{"a:b": {"input": 1}}, {"a:b": {"input": -1, "output": 1}}, {"a:b": 3}])
def test_a_price_has_both_parts(prices: Any) -> None:
    with pytest.raises(Exception, match=r"runs\.prices"):
        make_settings(run_prices=prices)
