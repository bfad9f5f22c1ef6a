"""What tests ask about processes that they did not start themselves."""

from __future__ import annotations

import psutil

__all__ = ["is_alive", "sleepers"]


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
