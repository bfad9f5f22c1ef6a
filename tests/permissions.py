"""Drop the capabilities of root, which overrides file permissions, to test the effect of permissions."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["CAN_BE_BOUND", "be_bound_by_permissions", "bound_by_permissions"]

CAN_BE_BOUND = sys.platform != "win32" and (os.geteuid() != 0 or sys.platform == "linux")
"""Whether file permissions can apply to a process of the tests."""

_VERSION_3 = 0x20080522  # <linux/capability.h>; the sets are effective, permitted and inheritable, twice


def be_bound_by_permissions() -> None:
    """Drop the capabilities of root in this thread and the threads that it starts; the user id stays."""
    if CAN_BE_BOUND and os.geteuid() == 0:
        _, permitted, inheritable = _capabilities()
        _set_capabilities((0, 0), permitted, inheritable)


@contextmanager
def bound_by_permissions() -> Iterator[None]:
    """Drop the capabilities of root in this thread for the duration of the block."""
    if os.geteuid() != 0:
        yield
        return
    before = _capabilities()
    be_bound_by_permissions()
    try:
        yield
    finally:
        _set_capabilities(*before)


_Set = tuple[int, int]


def _capabilities() -> tuple[_Set, _Set, _Set]:
    found = (ctypes.c_uint32 * 6)()
    _call("capget", found)
    return (found[0], found[3]), (found[1], found[4]), (found[2], found[5])


def _set_capabilities(effective: _Set, permitted: _Set, inheritable: _Set) -> None:
    low, high = zip(effective, permitted, inheritable, strict=True)
    _call("capset", (ctypes.c_uint32 * 6)(*low, *high))


def _call(name: str, data: ctypes.Array[ctypes.c_uint32]) -> None:
    this_thread = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    if getattr(ctypes.CDLL(None, use_errno=True), name)(this_thread, data):
        raise OSError(ctypes.get_errno(), f"{name} failed")
