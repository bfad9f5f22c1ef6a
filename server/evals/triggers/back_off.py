"""Wait when a provider limits the rate of requests, so that the runs that are left do not fail one after the other."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from server.limits.pacing import Backoff

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

__all__ = ["BackOff"]

_LIMITED: Final = re.compile(r"\b(?:429|529)\b|rate.?limit|too many requests|overloaded", re.IGNORECASE)

_PAUSES: Final = Backoff(5.0, 80.0)


@dataclass(slots=True)
class BackOff:
    """Seconds between runs: none, and after each answer in a row that names a limit twice as many."""

    sleep: Callable[[float], Awaitable[object]] = anyio.sleep
    _pauses: Iterator[float] = field(default_factory=lambda: iter(_PAUSES))

    async def after(self, reason: str, *, failed: bool) -> None:
        """Wait if a run has failed for a reason that names a limit of the provider."""
        if not failed:
            self._pauses = iter(_PAUSES)
        elif _LIMITED.search(reason):
            await self.sleep(next(self._pauses))
