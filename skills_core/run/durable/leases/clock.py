"""A clock for leases."""

from __future__ import annotations

import time

__all__ = ["now"]

if hasattr(time, "CLOCK_BOOTTIME"):
    _CLOCK = time.CLOCK_BOOTTIME

    def now() -> float:
        """Return seconds that also pass while the machine sleeps, as they do for the database."""
        return time.clock_gettime(_CLOCK)

else:

    def now() -> float:
        """Return seconds that never go back."""
        return time.monotonic()
