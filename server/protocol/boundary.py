"""What every message passes on its way in and out: limits, records, sealed state, instructions, translation of errors.

One middleware does all of it, because each one costs every request 1 % of its time over HTTP.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from mcp_types.methods import is_input_required

from server.protocol.instructions import OPENING, with_instructions
from server.protocol.recording import recorded
from server.protocol.schema_lookup import is_schema_lookup, tools_with_headers
from server.requests.notes import note_error
from server.requests.records import OTHER_METHOD, Records
from server.wire.errors import translated
from server.wire.request_limits import checked

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from server.conversation.resumption import SealedState
    from server.hosting.host import Host

__all__ = ["Boundary"]


class Boundary:
    """The middleware of the server."""

    def __init__(
        self,
        host: Host,
        state: SealedState,
        records: Records | None = None,
        is_method: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Add the instructions of `host`; `state` seals and opens what a client keeps for the server.

        Requests are recorded while `records` has sinks; `is_method` tells whether the server has a method.
        """
        self._host = host
        self._state = state
        self._records = records or Records()
        self._is_method = is_method

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Pass a message on, and return its result.

        Raises:
            MCPError: the parameters exceed a limit, the state is foreign, or the handler has failed.
        """
        self._host.quiet.note_request()
        if is_schema_lookup(ctx):
            return tools_with_headers(self._host.view(ctx))
        if self._records.wanted and ctx.request_id is not None:
            method = ctx.method if self._is_method(ctx.method) else OTHER_METHOD
            return await recorded(self._records, ctx, method, partial(self._answer, call_next))
        return await self._answer(call_next, ctx)

    async def _answer(self, call_next: CallNext, ctx: ServerRequestContext[Any, Any]) -> HandlerResult:
        try:
            message = checked(ctx)
            if message is None:
                return None
            if (message.params or {}).get("requestState") is not None:
                return await self._state.open(message, call_next)
            result = await call_next(message)
            if is_input_required(result):
                return await self._state.seal(message, result)
            return with_instructions(self._host, message, result) if message.method in OPENING else result
        except Exception as error:  # noqa: BLE001 - translated, and logged if it is unexpected
            note_error(error)
            raise translated(error, ctx.method) from None
