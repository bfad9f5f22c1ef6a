"""Background work yields to requests."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest

from server.hosting import background
from server.hosting.background import Background, StoppedError

if TYPE_CHECKING:
    from collections.abc import Callable


class Clock:
    """A clock that sleeping moves on; `on_sleep` is called in the middle of each sleep."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        self.on_sleep: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        # However short a sleep is, a clock goes on.
        half = max(seconds / 2, 1e-6)
        self.now += half
        self.on_sleep()
        self.now += half

    async def sleep_async(self, seconds: float) -> None:
        self.sleep(seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(background, "time", clock)
    monkeypatch.setattr(background, "anyio", SimpleNamespace(sleep=clock.sleep_async, Lock=anyio.Lock))
    return clock


async def test_nothing_waits_before_the_first_request(clock: Clock) -> None:
    await Background().wait(5)
    assert clock.slept == []


async def test_a_wait_ends_when_no_request_came_for_the_time(clock: Clock) -> None:
    requests = Background()
    requests.note_request()
    last = clock.now + 0.2
    clock.on_sleep = lambda: requests.note_request() if clock.now < last else None
    begin = clock.now
    await requests.wait(0.1)
    assert last - begin <= clock.now - begin <= last - begin + 0.1


async def test_requests_without_end_do_not_prolong_a_bounded_wait(clock: Clock) -> None:
    requests = Background()
    requests.note_request()
    clock.on_sleep = requests.note_request
    begin = clock.now
    await requests.wait(0.1, at_most=2)
    assert clock.now - begin == pytest.approx(2, abs=0.2)


def test_work_in_a_thread_does_not_pause_in_quiet(clock: Clock) -> None:
    requests = Background()
    for _ in range(1000):
        requests.pause()
        clock.now += 0.001
    assert clock.slept == []


def test_work_in_a_thread_pauses_after_each_slice_of_a_burst(clock: Clock) -> None:
    requests = Background()
    worked = 0.0
    for _ in range(1000):
        requests.note_request()
        requests.pause()
        clock.now += 0.0001
        worked += 0.0001
    # Between two pauses, less work is done than takes twice a slice.
    assert len(clock.slept) > worked / (2 * background._SLICE_SECONDS)
    assert sum(clock.slept) > worked


def test_a_stop_ends_work_in_a_thread(clock: Clock) -> None:
    del clock
    work = Background()
    work.pause()
    work._has_stopped = True
    with pytest.raises(StoppedError):
        work.pause()


async def test_one_job_has_its_turn_at_a_time() -> None:
    work, running, most = Background(), 0, 0

    async def job() -> None:
        nonlocal running, most
        async with work.turn():
            running += 1
            most = max(most, running)
            await anyio.lowlevel.checkpoint()
            running -= 1

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(job)
    assert most == 1


async def test_a_server_that_is_never_quiet_does_its_work_too(clock: Clock) -> None:
    work = Background()
    work.note_request()
    clock.on_sleep = work.note_request
    begin = clock.now
    async with work.turn():
        assert clock.now - begin <= 2 * background._MOST_SECONDS


@pytest.mark.parametrize("gap", [0.0001, 0.015, 0.1])
def test_requests_without_end_leave_work_in_a_thread_its_share(clock: Clock, gap: float) -> None:
    requests, last = Background(), -math.inf

    def shared(seconds: float) -> float:
        """Work for so many seconds beside requests that never cease; return the share of time that is work."""
        nonlocal last
        begin, worked = clock.now, 0.0
        while clock.now - begin < seconds:
            if clock.now - last >= gap:
                requests.note_request()
                last = clock.now
            requests.pause()
            clock.now += 0.0001
            worked += 0.0001
        return worked / (clock.now - begin)

    begin = shared(background._LOAD_SECONDS / 2)
    shared(background._LOAD_SECONDS)
    assert shared(10) > 2 / 5
    # After a pause, the next requests may be the first ones of a client.
    clock.now += background._CALM_SECONDS
    assert shared(background._LOAD_SECONDS / 2) == pytest.approx(begin, rel=0.1)
    if gap < background._BURST_SECONDS:
        assert begin < 1 / 4
