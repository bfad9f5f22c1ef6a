"""What tests ask about processes that they did not start themselves."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import psutil

__all__ = ["becomes", "is_alive", "sleepers"]


def is_alive(pid: int) -> bool:
    """Whether a process is there that has not ended."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def sleepers(marker: str) -> list[int]:
    """Return the processes that sleep for so long."""
    found = psutil.process_iter(["cmdline"])
    return [process.pid for process in found if f"sleep {marker}" in " ".join(process.info["cmdline"] or ())]


async def becomes(true: Callable[[], bool]) -> bool:
    """Wait until something is so that another process makes so, but not for ever."""
    with anyio.move_on_after(60):
        while not true():  # noqa: ASYNC110 - no event tells
            await anyio.sleep(0.02)
    return true()
