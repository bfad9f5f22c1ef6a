"""Observe processes that the tests did not start themselves."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import anyio
import psutil

__all__ = ["becomes", "is_alive", "sleepers", "unique_seconds"]


def is_alive(pid: int) -> bool:
    """Return whether the process exists and has not ended."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def unique_seconds() -> str:
    """Return an argument for `sleep` that no other test uses: ten minutes, and found again by `sleepers`."""
    return f"600.{uuid.uuid4().int}"


def sleepers(seconds: str) -> list[int]:
    """Return the processes that run `sleep` with this argument."""
    found = psutil.process_iter(["cmdline"])
    return [process.pid for process in found if f"sleep {seconds}" in " ".join(process.info["cmdline"] or ())]


async def becomes(true: Callable[[], bool]) -> bool:
    """Wait up to a minute for a condition that another process causes; return whether it holds."""
    with anyio.move_on_after(60):
        while not true():  # noqa: ASYNC110 - there is no event
            await anyio.sleep(0.02)
        return True
    return False
