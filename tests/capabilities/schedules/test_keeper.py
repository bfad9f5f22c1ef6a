"""Firings by a clock that the test sets, on the real engine."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import structs

from server.capabilities.schedules.actions import listed
from server.capabilities.schedules.allowances import ScheduleError
from server.capabilities.schedules.binding import paused, resumed
from server.capabilities.schedules.keeper import TimeKeeper
from server.capabilities.schedules.store import BINDING_FILE, ScheduleStore, coming_firings
from skills_core.runs.durable.engine import Engine
from skills_core.runs.journal import Journal
from skills_core.schedules.when import Cron, Every, MissedPolicy, Once, OverlapPolicy, ScheduleState
from tests.capabilities.schedules.conftest import START, Clock, Keep, Make


class Job:
    """A job that notes what it performed; it waits while `held` is set."""

    def __init__(self, **outcome: Any) -> None:
        self.triggers: list[str] = []
        self.outcome = {"status": "completed", "problem": None, "message": "", "output": "hi", **outcome}
        self.go = anyio.Event()
        self.go.set()

    async def __call__(self, journal: Journal, given: dict[str, Any]) -> dict[str, Any]:
        del journal
        self.triggers.append(given["trigger"])
        await self.go.wait()
        return self.outcome


async def settle(keeper: TimeKeeper, job: Job, runs: int) -> None:
    """Tick until so many runs have begun and none lasts."""
    with anyio.fail_after(60):
        while len(job.triggers) < runs or any(
            keeper.store.read(name).running is not None for name in keeper.store.names()
        ):
            await keeper.tick()
            await anyio.sleep(0.01)


async def test_each_firing_runs_once_and_its_trigger_says_why(keep: Keep, make: Make, clock: Clock) -> None:
    name, job = make(), Job()
    async with keep(job) as keeper:
        await keeper.tick()
        for hour in range(1, 4):
            clock.forward(hours=1)
            await settle(keeper, job, hour)
            await keeper.tick()
        runs = keeper.store.read(name).runs
    assert job.triggers == [f"schedule: {name} at {(START + timedelta(hours=h)).isoformat()}" for h in (1, 2, 3)]
    assert [run.status for run in runs] == ["completed"] * 3
    assert [run.fired_at.hour for run in runs] == [10, 11, 12]


async def test_people_who_watch_are_told_of_runs_and_of_the_next_firing(keep: Keep, make: Make, clock: Clock) -> None:
    name, told = make(), list[tuple[str, bool]]()
    broken = make(short="broken")
    async with keep(job := Job(problem="time", message="It took too long.", status="failed")) as keeper:
        (keeper.store.folder(broken) / BINDING_FILE).write_text("{")
        keeper.tell = lambda text, target, is_trouble=False: told.append((f"{target}: {text}", is_trouble))
        assert coming_firings(keeper.store, clock()) == [(name, START + timedelta(hours=1))]
        await keeper.tick()
        clock.forward(hours=1)
        with anyio.fail_after(60):
            while len(told) < 2:
                await keeper.tick()
                await anyio.sleep(0.01)
    assert len(job.triggers) == 1
    assert told == [(f"{name}: {name} begins to run", False), (f"{name}: {name} failed: It took too long.", True)]


async def test_libraries_of_models_are_loaded_before_the_first_firing(
    keep: Keep, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str | None] = []
    monkeypatch.setattr("server.capabilities.schedules.keeper.load_libraries", loaded.append)
    make(model="a:x"), make(), make(short="other")
    async with keep(Job(), model="b:y") as keeper:
        for _ in range(2):
            async with anyio.create_task_group() as tasks:
                await keeper.tick(tasks)
    assert sorted(map(str, loaded)) == ["a:x", "b:y"]


async def test_a_one_shot_that_succeeds_is_moved_to_the_trash(keep: Keep, make: Make, clock: Clock) -> None:
    name, job = make(Once(START + timedelta(hours=1))), Job()
    async with keep(job) as keeper:
        clock.forward(hours=1)
        while keeper.store.names():
            await keeper.tick()
            await anyio.sleep(0.01)
        ((kept, binding),) = keeper.store.trashed()
    assert (kept, binding.state, len(binding.runs)) == (name, ScheduleState.DONE, 1)


async def test_a_one_shot_that_fails_is_kept_with_the_reason(keep: Keep, make: Make, clock: Clock) -> None:
    name = make(Once(START + timedelta(hours=1)))
    job = Job(status="failed", problem="model_error", message="No answer.")
    async with keep(job) as keeper:
        clock.forward(hours=1)
        await settle(keeper, job, 1)
        await keeper.tick()
        binding = keeper.store.read(name)
    assert binding.state is ScheduleState.FAILED
    assert (binding.runs[0].problem, binding.runs[0].message) == ("model_error", "No answer.")


@pytest.mark.parametrize(("policy", "number"), [("skip", 0), ("once", 1), ("all", 24)])
async def test_after_a_day_off_the_policy_decides(
    keep: Keep, make: Make, clock: Clock, policy: str, number: int
) -> None:
    name, job = make(missed=MissedPolicy(policy)), Job()
    async with keep(job) as keeper:
        clock.forward(days=1, minutes=30)
        await settle(keeper, job, number)
        await keeper.tick()
        binding = keeper.store.read(name)
    assert len(set(job.triggers)) == len(job.triggers) == number
    assert binding.skipped == 24 - number
    assert binding.next(clock.now, 1) == (START + timedelta(days=1, hours=1),)


@pytest.mark.parametrize(("policy", "number"), [("skip", 1), ("queue", 3)])
async def test_a_firing_during_a_run_is_dropped_or_waits(
    keep: Keep, make: Make, clock: Clock, policy: str, number: int
) -> None:
    name, job = make(Every(timedelta(seconds=10), START), overlap=OverlapPolicy(policy)), Job()
    job.go = anyio.Event()
    async with keep(job) as keeper:
        for _ in range(3):
            clock.forward(seconds=10)
            await keeper.tick()
        job.go.set()
        await settle(keeper, job, number)
        binding = keeper.store.read(name)
    assert (len(job.triggers), binding.skipped) == (number, 3 - number)


@pytest.mark.parametrize("day", ["2027-03-28", "2027-10-31"])
async def test_a_daily_time_fires_once_on_the_days_when_clocks_change(
    keep: Keep, make: Make, clock: Clock, day: str
) -> None:
    clock.now = datetime.fromisoformat(f"{day}T00:00:00+00:00").astimezone(UTC) - timedelta(hours=4)
    make(Cron("30 2 * * *", "Europe/Berlin"))
    job = Job()
    async with keep(job) as keeper:
        for _ in range(30):
            clock.forward(hours=0.5)
            await keeper.tick()
        await settle(keeper, job, 1)
    assert len(job.triggers) == 1


async def test_a_clock_that_is_set_back_repeats_nothing(keep: Keep, make: Make, clock: Clock) -> None:
    make()
    job = Job()
    async with keep(job) as keeper:
        clock.forward(hours=1)
        await settle(keeper, job, 1)
        clock.forward(hours=-2)
        for _ in range(4):
            clock.forward(minutes=30)
            await keeper.tick()
        await settle(keeper, job, 1)
        assert len(job.triggers) == 1
        clock.forward(hours=1)
        await settle(keeper, job, 2)
    assert len(job.triggers) == 2


@pytest.mark.parametrize("ahead", [timedelta(days=3650), timedelta(hours=8), timedelta(minutes=7)])
@pytest.mark.parametrize("policy", list(MissedPolicy))
async def test_a_clock_that_was_ahead_silences_nothing_and_repeats_nothing(
    keep: Keep, make: Make, clock: Clock, caplog: pytest.LogCaptureFixture, ahead: timedelta, policy: MissedPolicy
) -> None:
    name, job = make(Every(timedelta(minutes=1), START), missed=policy, overlap=OverlapPolicy.QUEUE), Job()
    caplog.set_level("WARNING")
    async with keep(job) as keeper:
        clock.now += ahead
        await keeper.tick()  # the clock is ahead for one look
        clock.now -= ahead
        await keeper.tick()
        await settle(keeper, job, 0)
        assert keeper.store.read(name).next(clock.now, 1) == (START + timedelta(minutes=1),)
        for _ in range(10):
            clock.forward(minutes=1)
            await settle(keeper, job, 0)
            await keeper.tick()
            await settle(keeper, job, 0)
        fired = [run.fired_at for run in keeper.store.read(name).runs]
    due = {START + timedelta(minutes=minute) for minute in range(1, 11)}
    assert due <= set(fired)
    assert len(set(job.triggers)) == len(job.triggers) == len(fired)
    assert [name in record.message and "ahead" in record.message for record in caplog.records].count(True) == 1


@pytest.mark.parametrize("policy", list(MissedPolicy))
async def test_a_clock_that_is_behind_until_it_is_set_repeats_nothing(
    keep: Keep, make: Make, clock: Clock, policy: MissedPolicy
) -> None:
    """As on a machine without a battery, whose clock begins in 1970."""
    name, job = make(missed=policy), Job()
    async with keep(job) as keeper:
        clock.forward(hours=3)
        await keeper.tick()
        await settle(keeper, job, 0)
        runs, now = len(keeper.store.read(name).runs), clock.now
        clock.now = datetime(1970, 1, 1, tzinfo=UTC)
        for _ in range(3):
            await keeper.tick()
            clock.forward(seconds=10)
        clock.now = now
        await keeper.tick()
        clock.forward(minutes=30)
        await keeper.tick()
        await settle(keeper, job, 0)
        assert len(keeper.store.read(name).runs) == len(job.triggers) == runs
        clock.forward(minutes=30)
        await settle(keeper, job, runs + 1)
    assert job.triggers[-1].endswith((START + timedelta(hours=4)).isoformat())


async def test_a_schedule_for_one_moment_that_a_clock_ahead_missed_still_fires(
    keep: Keep, make: Make, clock: Clock
) -> None:
    name, job = make(Once(START + timedelta(hours=1)), missed=MissedPolicy.SKIP), Job()
    async with keep(job) as keeper:
        clock.forward(days=400)
        await keeper.tick()
        assert keeper.store.read(name).state is ScheduleState.MISSED
        clock.forward(days=-400)
        await keeper.tick()
        assert keeper.store.read(name).next(clock.now, 1) == (START + timedelta(hours=1),)
        clock.forward(hours=1)
        await keeper.tick()
        await settle(keeper, job, 1)
    assert job.triggers == [f"schedule: {name} at {(START + timedelta(hours=1)).isoformat()}"]


@pytest.mark.parametrize("state", ["active", "paused", "missed"])
def test_resume_heals_what_a_clock_ahead_has_left(make: Make, store: ScheduleStore, clock: Clock, state: str) -> None:
    name = make(Every(timedelta(hours=1), clock.forward(days=400)))
    clock.forward(days=-400)
    store.update(name, lambda found: structs.replace(found, state=ScheduleState(state)))
    healed = store.update(name, lambda found: resumed(found, clock.now))
    assert (healed.state, healed.next(clock.now, 1)) == (ScheduleState.ACTIVE, (START + timedelta(hours=1),))
    assert "ahead" in healed.note


def test_a_schedule_without_a_coming_firing_is_not_resumed(make: Make, store: ScheduleStore, clock: Clock) -> None:
    name = make(Once(START + timedelta(hours=1)))
    store.update(name, lambda found: structs.replace(found, state=ScheduleState.MISSED))
    clock.forward(hours=2)
    with pytest.raises(ScheduleError, match="no firing is left"):
        store.update(name, lambda found: resumed(found, clock.now))


def test_far_ahead_records_are_told_by_list(make: Make, store: ScheduleStore, clock: Clock) -> None:
    clock.forward(days=400)
    make()
    clock.forward(days=-400)
    (found,) = listed(store, clock.now)
    assert ["ahead" in warning for warning in found["warnings"]] == [True]
    assert found["next"] == [(START + timedelta(hours=hour)).isoformat() for hour in (1, 2, 3)]


async def test_a_delivery_of_a_clock_that_was_ahead_is_taken_over(
    keep: Keep, make: Make, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, job = tmp_path / "told", Job()
    make(Once(START + timedelta(hours=1)))
    program = (sys.executable, "-c", f"open({str(told)!r}, 'a').write('x')")

    async def dies(*_: object) -> None:
        return None

    async with keep(job, schedule_command=program) as keeper:
        clock.forward(days=400)
        with monkeypatch.context() as patched:
            patched.setattr(TimeKeeper, "_deliver", dies)
            await settle(keeper, job, 1)
    clock.forward(days=-400)
    async with keep(job, schedule_command=program) as keeper:
        with anyio.fail_after(60):
            while keeper.store.names():
                await keeper.tick()
    assert told.read_text() == "x"


async def test_a_paused_schedule_fires_by_hand_alone(keep: Keep, make: Make, clock: Clock) -> None:
    name, job = make(), Job()
    async with keep(job) as keeper:
        keeper.store.update(name, paused)
        clock.forward(hours=5)
        await keeper.tick()
        outcome = await keeper.run_by_hand(name, "manual: test")
        keeper.store.update(name, lambda binding: resumed(binding, clock.now))
        await keeper.tick()
        binding = keeper.store.read(name)
    assert (outcome["output"], job.triggers) == ("hi", ["manual: test"])
    assert (binding.state, binding.next(clock.now, 1)) == (ScheduleState.ACTIVE, (START + timedelta(hours=6),))


async def test_a_damaged_schedule_is_told_kept_and_never_fired(
    keep: Keep, make: Make, clock: Clock, store: ScheduleStore, caplog: pytest.LogCaptureFixture
) -> None:
    name, job = make(), Job()
    file = store.folder(name) / BINDING_FILE
    content = json.loads(file.read_text()) | {"surprise": 1}
    file.write_text(json.dumps(content))
    async with keep(job) as keeper:
        clock.forward(hours=1)
        await keeper.tick()
        await keeper.tick()
    assert job.triggers == []
    assert json.loads(file.read_text()) == content
    assert [name in record.message and "surprise" in record.message for record in caplog.records].count(True) == 1


@pytest.mark.parametrize("written", [False, True])
async def test_a_firing_survives_a_process_that_ends_around_the_decision(
    keep: Keep, make: Make, clock: Clock, monkeypatch: pytest.MonkeyPatch, *, written: bool
) -> None:
    """A process ends before it writes the decision, or after it and before the run is recorded."""
    make()
    job = Job()

    class KilledError(Exception):
        pass

    async def killed(*_: object) -> None:
        raise KilledError

    clock.forward(hours=1)
    async with keep(job) as keeper:
        with monkeypatch.context() as patched:
            patched.setattr(TimeKeeper, "_start" if written else "_spend", killed)
            with pytest.raises(KilledError):
                await keeper.tick()
    async with keep(job) as keeper:
        clock.forward(seconds=3)
        await settle(keeper, job, 1)
        await keeper.tick()
        (run,) = keeper.store.read(keeper.store.names()[0]).runs
    assert (len(job.triggers), run.fired_at) == (1, START + timedelta(hours=1))


async def test_a_result_is_delivered_to_a_command_before_a_one_shot_goes(
    keep: Keep, make: Make, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    program = (
        "import sys, os, json; given = json.load(sys.stdin); given['env'] = dict(os.environ); "
        "json.dump(given, open(sys.argv[1], 'w'))"
    )
    given, job = tmp_path / "given.json", Job()
    name = make(Once(START + timedelta(hours=1)))
    async with keep(job, schedule_command=(sys.executable, "-c", program, str(given))) as keeper:
        clock.forward(hours=1)
        with anyio.fail_after(60):
            while keeper.store.names():
                await keeper.tick()
                await anyio.sleep(0.01)
        ((_, binding),) = keeper.store.trashed()
    assert binding.runs[0].delivery is not None
    assert binding.runs[0].delivery.status == "delivered"
    told = json.loads(given.read_text())
    assert (told["schedule"], told["output"], told["status"]) == (name, "hi", "completed")
    assert "SOME_API_KEY" not in told["env"]


async def test_a_delivery_that_fails_is_told(keep: Keep, make: Make, clock: Clock) -> None:
    name, job = make(), Job()
    async with keep(job, schedule_command=("/nowhere/program",)) as keeper:
        clock.forward(hours=1)
        await settle(keeper, job, 1)
        await keeper.tick()
        delivery = keeper.store.read(name).runs[0].delivery
    assert delivery is not None
    assert (delivery.status, "cannot be started" in delivery.message) == ("failed", True)


async def test_a_result_whose_deliverer_died_is_delivered_by_another_process_later(
    keep: Keep, make: Make, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, job = tmp_path / "told", Job()
    program = (sys.executable, "-c", f"open({str(told)!r}, 'a').write('x')")
    make(Once(START + timedelta(hours=1)))

    async def dies(*_: object) -> None:
        return None

    async with keep(job, schedule_command=program) as keeper:
        clock.forward(hours=1)
        with monkeypatch.context() as patched:
            patched.setattr(TimeKeeper, "_deliver", dies)
            await settle(keeper, job, 1)
            await keeper.tick()
    async with keep(job, schedule_command=program) as keeper:
        await keeper.tick()
        assert not told.exists()
        clock.forward(minutes=6)
        while keeper.store.names():
            await keeper.tick()
        ((_, binding),) = keeper.store.trashed()
    assert (told.read_text(), len(job.triggers)) == ("x", 1)
    assert binding.state is ScheduleState.DONE


async def test_waiting_for_a_slot_and_a_clock_that_jumps_end_no_run(keep: Keep, make: Make, clock: Clock) -> None:
    """Six schedules fire at once, of which a process performs four at a time."""
    names, job = [make(short=f"s{number}") for number in range(6)], Job()
    job.go = anyio.Event()
    async with keep(job) as keeper:
        clock.forward(hours=1)
        await keeper.tick()
        with anyio.fail_after(60):
            while len(job.triggers) < 4:  # noqa: ASYNC110 - the engine has no event for it
                await anyio.sleep(0.01)
        passed = keeper.elapsed()
        keeper.elapsed = lambda: passed + 100_000
        clock.forward(days=3650)
        await keeper.tick()
        clock.forward(days=-3650)
        await keeper.tick()
        job.go.set()
        await settle(keeper, job, 6)
        ended = {keeper.store.read(name).runs[0].status for name in names}
    assert ended == {"completed"}


async def test_a_run_that_no_process_continues_is_ended_after_the_time_to_continue_it(
    keep: Keep, make: Make, store: ScheduleStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, job, seconds = make(), Job(), 0.0
    job.go = anyio.Event()

    async def is_left(engine: Engine, run_id: str) -> bool:
        del engine, run_id
        return left

    async with keep(job) as keeper:
        keeper.elapsed = lambda: seconds
        clock.forward(hours=1)
        await keeper.tick()
        left = True
        monkeypatch.setattr(Engine, "is_left", is_left)
        for at, is_left_then in ((1.0, True), (600.0, True), (700.0, False), (1000.0, True), (1610.0, True)):
            seconds, left = at, is_left_then
            await keeper.tick()
            assert store.read(name).running is not None
        seconds = 1616.0
        await keeper.tick()
        (run,) = store.read(name).runs
    assert (run.status, store.read(name).state) == ("cancelled", ScheduleState.ACTIVE)


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[" * 100_000, b"\xff", b"null", b'{"version": 2}', b"x" * 3_000_000],
    ids=["empty", "no fields", "nested", "no text", "null", "version", "long"],
)
async def test_no_content_of_a_binding_stops_other_schedules(
    keep: Keep, make: Make, clock: Clock, store: ScheduleStore, content: bytes
) -> None:
    damaged, job = make(short="a"), Job()
    make(short="b")
    (store.folder(damaged) / BINDING_FILE).write_bytes(content)
    async with keep(job) as keeper:
        clock.forward(hours=1)
        with anyio.fail_after(60):
            while not job.triggers:
                await keeper.tick()
                await anyio.sleep(0.01)
    assert (store.folder(damaged) / BINDING_FILE).read_bytes() == content
    assert len(job.triggers) == 1
