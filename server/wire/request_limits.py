"""What every handler can rely on in the parameters of a request: limited depth, and strings that can be encoded."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from server.wire.invalid_request import InvalidRequestError
from skills_core.diagnostics import one_line, without_lone_surrogates

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

logger = logging.getLogger(__name__)


__all__ = ["checked", "within_bounds"]


_MAX_METHOD = 100
# Characters of a method's name that are logged.

_MAX_DEPTH = 100
# No valid request nests deeper, and walking deeper values by recursion exhausts the stack.


def checked(ctx: ServerRequestContext[Any, Any]) -> ServerRequestContext[Any, Any] | None:
    """Return the message with lone surrogates replaced by U+FFFD; None for an invalid notification.

    JSON can hold a lone surrogate, for example where JavaScript has cut a string, but a result that repeats it cannot
    be encoded. An invalid notification is dropped with a log line, because there is no response to it.

    Raises:
        InvalidRequestError: the parameters nest too deep.
    """
    try:
        has_surrogates = ctx.params is not None and _has_surrogates(ctx.params)
    except InvalidRequestError as error:
        if ctx.request_id is not None:
            raise
        logger.warning("the notification %s is ignored: %s", one_line(ctx.method[:_MAX_METHOD]), error)
        return None
    return replace(ctx, params=_repaired(ctx.params)) if has_surrogates else ctx


def within_bounds(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Apply the same limits to a JSON value that came as a string within a request.

    Raises:
        InvalidRequestError: the value nests too deep.
    """
    return _repaired(value) if _has_surrogates(value) else value


def _has_surrogates(params: object) -> bool:
    """Tell whether any string has a lone surrogate.

    Raises:
        InvalidRequestError: the parameters nest too deep.
    """
    level, found = [params], False
    for _ in range(_MAX_DEPTH):
        below: list[object] = []
        for value in level:
            if isinstance(value, str):
                found = found or (not value.isascii() and _repaired(value) != value)
            elif isinstance(value, dict):
                below += value
                below += value.values()
            elif isinstance(value, list):
                below += value
        if not below:
            return found
        level = below
    raise InvalidRequestError(f"the parameters nest deeper than {_MAX_DEPTH} levels")


def _repaired(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, str):
        return without_lone_surrogates(value)
    if isinstance(value, dict):
        return {_repaired(key): _repaired(each) for key, each in value.items()}
    return [_repaired(each) for each in value] if isinstance(value, list) else value
