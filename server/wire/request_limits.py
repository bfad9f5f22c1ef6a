"""What every handler may rely on in the parameters of a request: a bounded depth, and texts that can be sent back."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from server.wire.errors import InvalidRequestError
from skills_core.diagnostics import one_line, without_lone_surrogates

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

__all__ = ["check_params", "within_bounds"]

logger = logging.getLogger(__name__)

_MAX_DEPTH = 100
# What nests deeper than this is no request to us, and walking it by recursion exhausts the stack.


async def check_params(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Middleware: refuse parameters without bounds, and put U+FFFD for each half of a character.

    JSON can spell half of a character, as JavaScript does where it cuts a text; nobody could read an answer that
    repeats it. A notification that cannot be used is dropped, as nobody waits for an answer.
    """
    try:
        needs_mending = ctx.params is not None and _needs_mending(ctx.params)
    except InvalidRequestError as error:
        if ctx.request_id is not None:
            raise
        logger.warning("%s: %s; it is ignored", one_line(ctx.method), error)
        return None
    return await call_next(replace(ctx, params=_mended(ctx.params)) if needs_mending else ctx)


def within_bounds(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return JSON that came as text within a request, as it would be had it been a part of the request itself.

    Raises:
        InvalidRequestError: it nests too deep.
    """
    return _mended(value) if _needs_mending(value) else value


def _needs_mending(params: object) -> bool:
    """Tell whether there is half of a character anywhere.

    Raises:
        InvalidRequestError: the parameters nest too deep.
    """
    level, found = [params], False
    for _ in range(_MAX_DEPTH):
        below: list[object] = []
        for value in level:
            if isinstance(value, str):
                found = found or (not value.isascii() and _mended(value) != value)
            elif isinstance(value, dict):
                below += value
                below += value.values()
            elif isinstance(value, list):
                below += value
        if not below:
            return found
        level = below
    raise InvalidRequestError(f"the parameters nest deeper than {_MAX_DEPTH} levels")


def _mended(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, str):
        return without_lone_surrogates(value)
    if isinstance(value, dict):
        return {_mended(key): _mended(each) for key, each in value.items()}
    return [_mended(each) for each in value] if isinstance(value, list) else value
