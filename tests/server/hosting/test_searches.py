"""One principal's searches leave room for those of the others."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from server.access import Principal, PrincipalKind
from server.hosting.searches import MAX_OF_ONE, MAX_SEARCHES, SearchTurns


def request_of(name: str, kind: PrincipalKind = PrincipalKind.TOKEN) -> Any:
    token = SimpleNamespace(principal=Principal(name, kind))
    return SimpleNamespace(request=SimpleNamespace(scope={"user": SimpleNamespace(access_token=token)}))


async def test_a_search_of_another_principal_does_not_wait_for_hundreds_of_one() -> None:
    turns, go, begun = SearchTurns(), threading.Event(), threading.Semaphore(0)
    running = most = 0
    lock = threading.Lock()

    def long() -> None:
        nonlocal running, most
        with lock:
            running, most = running + 1, max(most, running + 1)
        begun.release()
        go.wait(60)
        with lock:
            running -= 1

    async with anyio.create_task_group() as tasks:
        for _ in range(100):
            tasks.start_soon(turns.run, request_of("anna"), long)
        for _ in range(MAX_OF_ONE):
            assert await anyio.to_thread.run_sync(begun.acquire, True, 60)
        with anyio.fail_after(60):
            assert await turns.run(request_of("ben"), lambda: "found") == "found"
        go.set()
    assert most == MAX_OF_ONE
    assert not turns._shares


@pytest.mark.parametrize("kind", PrincipalKind)
async def test_each_search_has_its_result_and_leaves_nothing_behind(kind: PrincipalKind) -> None:
    turns = SearchTurns()
    results: list[int] = []

    async def search(number: int) -> None:
        results.append(await turns.run(request_of("anna", kind), lambda: number))

    async with anyio.create_task_group() as tasks:
        for number in range(3 * MAX_SEARCHES):
            tasks.start_soon(search, number)
    assert sorted(results) == [*range(3 * MAX_SEARCHES)]
    assert not turns._shares
