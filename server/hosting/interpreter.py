"""What a server asks of the interpreter, so that requests do not wait for work in other threads.

Python looks for garbage among all objects from time to time, which stops all threads, and takes a quarter of a second
with 10,000 skills. Skills are in no cycles, so there is nothing to be found among them.

A thread that works keeps the interpreter for some milliseconds before another one gets it. A request needs it again
after each system call, so it would wait for that several times.

The C library keeps what a load has freed until `malloc_trim` returns it to the system.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_NEVER: Final = 2**31 - 1

_TURN_SECONDS: Final = 0.001
# Shorter turns would cost more time than they save.


@contextmanager
def left_alone() -> Iterator[None]:
    """Look for garbage among young objects only within the block, and leave out for good what is made there, if much.

    Much is what would have let Python look at everything. What else there is then is left out as well, which is why
    little does not count: cycles of requests that are under way are never freed.
    """
    young, middle, old = gc.get_threshold()
    before = gc.get_count()[2]
    gc.set_threshold(young, middle, _NEVER)
    try:
        yield
    finally:
        if gc.get_count()[2] - before > old:
            gc.freeze()
        gc.set_threshold(young, middle, old)


@contextmanager
def short_turns() -> Iterator[None]:
    """Let a thread that works pass the interpreter on to the next one soon, within the block."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, _TURN_SECONDS))
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def give_back_memory() -> None:
    """Give back to the system what was freed and lies between what is in use; only glibc can be told to.

    It takes some milliseconds for each 100 MB, in which other threads run until they allocate.
    """
    if sys.platform != "linux":
        return
    import ctypes  # noqa: PLC0415 - few servers have so much to give back

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
