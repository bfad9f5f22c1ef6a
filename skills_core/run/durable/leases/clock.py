"""A clock for leases."""

from __future__ import annotations

import time

__all__ = ["now"]

if hasattr(time, "CLOCK_BOOTTIME"):
    _CLOCK = time.CLOCK_BOOTTIME

    def now() -> float:
        """Return seconds on a clock that also runs while the machine sleeps, as the database's does."""
        return time.clock_gettime(_CLOCK)

else:

    def now() -> float:
        """Return seconds on a monotonic clock."""
        return time.monotonic()
