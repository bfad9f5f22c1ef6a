"""Wait when a provider limits the rate of requests, so that the runs that are left do not fail one after the other."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["BackOff"]

_LIMITED: Final = re.compile(r"\b(?:429|529)\b|rate.?limit|too many requests|overloaded", re.IGNORECASE)

_FIRST: Final = 5.0
_LONGEST: Final = 80.0


@dataclass(slots=True)
class BackOff:
    """Seconds between runs: none, and after each answer in a row that names a limit twice as many."""

    sleep: Callable[[float], Awaitable[object]] = anyio.sleep
    _seconds: float = 0.0

    async def after(self, reason: str, *, failed: bool) -> None:
        """Wait if a run has failed for a reason that names a limit of the provider."""
        if not failed:
            self._seconds = 0.0
        elif _LIMITED.search(reason):
            self._seconds = min(max(_FIRST, self._seconds * 2), _LONGEST)
            await self.sleep(self._seconds)
