"""Searches take turns: they run in worker threads, a bounded number at once, and of each principal fewer than that.

A search may look at every skill. Without turns, a client that sends hundreds at once would make the others wait for all
of them.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import anyio.to_thread

from server.access.principal import PrincipalKind, principal_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from mcp.server.context import ServerRequestContext

    from server.access.principal import Principal

__all__ = ["SearchTurns"]

MAX_SEARCHES: Final = 16
"""Most searches at once: a reranker may be slow, and reads and reloads need worker threads too."""

MAX_OF_ONE: Final = 4
"""Most searches of one principal at once."""

_Result = TypeVar("_Result")


@dataclass(slots=True)
class _Share:
    """The searches of one principal: a limit, and how many run or wait."""

    limiter: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(MAX_OF_ONE))
    count: int = 0


class SearchTurns:
    """The searches of one server."""

    def __init__(self) -> None:
        """Begin with none."""
        self._all = anyio.CapacityLimiter(MAX_SEARCHES)
        self._shares: dict[tuple[str, str], _Share] = {}

    async def run(self, ctx: ServerRequestContext[Any, Any], search: Callable[[], _Result]) -> _Result:
        """Return the result of a search for a request, which runs in a worker thread in its turn."""
        async with self._turn_of(principal_of(ctx)):
            return await anyio.to_thread.run_sync(search, limiter=self._all)

    @asynccontextmanager
    async def _turn_of(self, principal: Principal) -> AsyncGenerator[None]:
        if principal.kind is PrincipalKind.LOCAL:
            # Without a login, all requests have the same principal.
            yield
            return
        key = principal.kind, principal.subject
        share = self._shares.setdefault(key, _Share())
        share.count += 1
        try:
            async with share.limiter:
                yield
        finally:
            share.count -= 1
            if not share.count:
                del self._shares[key]
