"""Work that a client waits for, and that nobody needs any more once it is gone.

A client of the modern era takes a request back over HTTP by closing the connection, which the SDK does not look at
where answers are plain JSON. Everywhere else it cancels the handler itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from server.faults import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp.server.context import ServerRequestContext
    from starlette.requests import Request

__all__ = ["until_gone", "while_waited_for"]

Result = TypeVar("Result")


async def while_waited_for(ctx: ServerRequestContext[Any, Any], work: Callable[[], Awaitable[Result]]) -> Result:
    """Return what `work` comes to, and cancel it when the client that asked for it is gone.

    Raises:
        InvalidRequestError: the client is gone; nobody will read that.
    """
    if ctx.request is None or ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
        return await work()
    results: list[Result] = []
    faults: list[Exception] = [InvalidRequestError("The client is gone.")]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_cancel_when_gone, ctx.request, tasks.cancel_scope)
        try:
            results.append(await work())
        except Exception as error:  # noqa: BLE001 - raised below, where no task group wraps it
            faults.insert(0, error)
        tasks.cancel_scope.cancel()
    if not results:
        raise faults[0]
    return results[0]


async def _cancel_when_gone(request: Request, scope: anyio.CancelScope) -> None:
    await until_gone(request)
    scope.cancel()


async def until_gone(request: Request) -> None:
    """Return when the client has closed the connection by which it sent a request."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
