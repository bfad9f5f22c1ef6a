"""Rules of turns: whose request begins, in which order, and when a turn is over."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from server.limits.principal_limits import MeteredWork, RequestTurns

ANNA, BEN = ("static", "anna"), ("static", "ben")


async def test_a_request_that_arrives_later_waits_for_one_request_of_each_other_principal() -> None:
    turns, order = RequestTurns(), list[str]()

    async def ask(principal: tuple[str, str], name: str) -> None:
        async with turns.turn(principal) as turn:
            turn.begin_work()
            order.append(name)

    async with anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(ask, ANNA, f"anna {number}")
        await anyio.lowlevel.checkpoint()
        await ask(BEN, "ben")
    # In the order of arrival for each, and Ben not behind Anna's fifty.
    assert [name for name in order if name != "ben"] == [f"anna {number}" for number in range(50)]
    assert order.index("ben") < 5
    with anyio.fail_after(10):
        while turns._lanes:
            await anyio.lowlevel.checkpoint()


async def test_a_request_that_waits_for_something_else_lets_the_next_one_begin() -> None:
    turns, begun = RequestTurns(), anyio.Event()

    async def wait() -> None:
        async with turns.turn(ANNA) as turn:
            turn.begin_work()
            await begun.wait()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.lowlevel.checkpoint()
            async with turns.turn(ANNA):
                begun.set()


@pytest.mark.parametrize("waiting", [1, 3])
async def test_requests_that_are_cancelled_while_they_wait_hold_nobody_up(waiting: int) -> None:
    turns = RequestTurns()

    async def ask() -> None:
        async with turns.turn(ANNA):
            pass

    with anyio.fail_after(30):
        async with turns.turn(ANNA) as first, anyio.create_task_group() as tasks:
            for _ in range(waiting):
                tasks.start_soon(ask)
            await anyio.lowlevel.checkpoint()
            first.end()
            tasks.cancel_scope.cancel()
        await ask()


async def test_the_next_request_after_an_expensive_one_waits_for_a_multiple_of_its_cost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    turns = RequestTurns()
    loop = asyncio.get_running_loop()

    def call_later(seconds: float, call: Any, *arguments: Any) -> Any:
        pauses.append(seconds)
        return loop.call_soon(call, *arguments)

    monkeypatch.setattr(loop, "call_later", call_later)
    for cost in (0.0001, 0.01, 60.0):
        async with turns.turn(ANNA) as turn:
            turn.cost = cost
        async with turns.turn(ANNA):
            pass
    assert pauses == [pytest.approx(0.4), 5.0]


async def test_a_turn_within_another_ends_both_and_only_the_outer_one_pauses() -> None:
    inner, outer = RequestTurns(), RequestTurns()
    with anyio.fail_after(30):
        async with outer.turn(ANNA) as large, inner.turn(ANNA) as turn:
            turn.outer, turn.cost = large, 0.001
            turn.end()
            async with inner.turn(ANNA), outer.turn(ANNA):
                pass
    assert large.cost == 0.001


@pytest.mark.parametrize(("lasted", "worked", "counted"), [(0.001, 0.0, 0.001), (2.0, 0.25, 0.25), (2.0, 2.0, 2.0)])
async def test_a_long_step_counts_the_time_of_the_processor_and_not_that_of_others(
    monkeypatch: pytest.MonkeyPatch, lasted: float, worked: float, counted: float
) -> None:
    clocks = {"perf_counter": time.perf_counter(), "thread_time": time.thread_time()}

    async def work() -> None:
        clocks["perf_counter"] += lasted
        clocks["thread_time"] += worked

    monkeypatch.setattr(time, "perf_counter", lambda: clocks["perf_counter"])
    monkeypatch.setattr(time, "thread_time", lambda: clocks["thread_time"])
    monkeypatch.setattr(MeteredWork, "_last", (-math.inf, 0.0))
    metered = MeteredWork(work())
    await metered
    assert metered.seconds == pytest.approx(counted)


async def test_metered_work_returns_raises_and_is_cancelled_as_if_it_was_awaited_itself() -> None:
    seen: list[str] = []

    async def work(*, fails: bool) -> None:
        await anyio.lowlevel.checkpoint()
        try:
            await anyio.lowlevel.checkpoint()
            if fails:
                raise ValueError("no")
            scope.cancel()
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            seen.append("cancelled")
            raise

    scope = anyio.CancelScope()
    metered = MeteredWork(work(fails=True))
    with pytest.raises(ValueError, match="no"):
        await metered
    assert metered.seconds > 0
    with scope:
        await MeteredWork(work(fails=False))
    assert scope.cancelled_caught
    assert seen == ["cancelled"]
