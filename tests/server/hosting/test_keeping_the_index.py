"""The index is written when nothing changes any more, and at the end, which it does not delay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest

from server.hosting import background
from server.hosting.background import keep_index


class Changing:
    """A library whose catalog is another one at the first looks."""

    index = object()

    def __init__(self, changes: int) -> None:
        self.changes = changes
        self.looks = 0
        self.saved_after: list[int] = []
        self.saved = anyio.Event()

    @property
    def catalog(self) -> object:
        self.looks += 1
        return min(self.looks, self.changes)

    def save_index(self, _pause: Callable[[], None]) -> None:
        self.saved_after.append(self.looks)
        anyio.from_thread.run_sync(self.saved.set)


class Endless(Changing):
    def save_index(self, _pause: Callable[[], None]) -> None:
        while True:
            _pause()


async def keep(library: Any, until: Callable[[], Any]) -> None:
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep_index, library, lambda: None)
            await until()
            tasks.cancel_scope.cancel()


async def test_what_changes_is_written_when_it_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_INDEX_SECONDS", 0.001)
    library = Changing(5)
    await keep(library, library.saved.wait)
    assert library.saved_after[0] == 6


async def test_what_changed_last_is_written_at_the_end() -> None:
    library = Changing(5)
    await keep(library, anyio.lowlevel.checkpoint)
    assert library.saved_after == [0]


async def test_a_write_at_the_end_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_INDEX_AT_END_SECONDS", 0.01)
    await keep(Endless(5), anyio.lowlevel.checkpoint)
