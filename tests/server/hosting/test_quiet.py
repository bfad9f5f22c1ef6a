"""Background work yields to requests."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from server.hosting import activation_texts as quiet
from server.hosting.activation_texts import Quiet

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
    monkeypatch.setattr(quiet, "time", clock)
    monkeypatch.setattr(quiet, "anyio", SimpleNamespace(sleep=clock.sleep_async))
    return clock


async def test_nothing_waits_before_the_first_request(clock: Clock) -> None:
    await Quiet().wait(5)
    assert clock.slept == []


async def test_a_wait_ends_when_no_request_came_for_the_time(clock: Clock) -> None:
    requests = Quiet()
    requests.note_request()
    last = clock.now + 0.2
    clock.on_sleep = lambda: requests.note_request() if clock.now < last else None
    begin = clock.now
    await requests.wait(0.1)
    assert last - begin <= clock.now - begin <= last - begin + 0.1


async def test_requests_without_end_do_not_prolong_a_bounded_wait(clock: Clock) -> None:
    requests = Quiet()
    requests.note_request()
    clock.on_sleep = requests.note_request
    begin = clock.now
    await requests.wait(0.1, at_most=2)
    assert clock.now - begin == pytest.approx(2, abs=0.2)


def test_work_in_a_thread_does_not_pause_in_quiet(clock: Clock) -> None:
    requests = Quiet()
    for _ in range(1000):
        requests.pause()
        clock.now += 0.001
    assert clock.slept == []


def test_work_in_a_thread_pauses_after_each_slice_of_a_burst(clock: Clock) -> None:
    requests = Quiet()
    worked = 0.0
    for _ in range(1000):
        requests.note_request()
        requests.pause()
        clock.now += 0.0001
        worked += 0.0001
    # Between two pauses, less work is done than takes twice a slice.
    assert len(clock.slept) > worked / (2 * quiet._SLICE_SECONDS)
    assert sum(clock.slept) > worked
