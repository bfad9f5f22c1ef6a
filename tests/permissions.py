"""Root is refused nothing, so what happens to users whom permissions bind is tried without the powers of root."""

from __future__ import annotations

import ctypes
import os
import sys

__all__ = ["CAN_BE_BOUND", "be_bound_by_permissions"]

CAN_BE_BOUND = sys.platform != "win32" and (os.geteuid() != 0 or sys.platform == "linux")
"""Whether a process of the tests can be refused a file by its permissions."""

_VERSION_3 = 0x20080522  # of <linux/capability.h>


def be_bound_by_permissions() -> None:
    """Give up the powers of root in this process, for good; it stays the same user, who owns the same files."""
    if os.geteuid() != 0:
        return
    none = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable, each in two words
    this_process = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    if ctypes.CDLL(None, use_errno=True).capset(this_process, none):
        raise OSError(ctypes.get_errno(), "the powers of root cannot be given up")
