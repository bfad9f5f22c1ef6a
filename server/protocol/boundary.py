"""What every message passes on its way in and out: limits, records, sealed state, instructions, translation of errors.

One middleware does all of it, because each one costs every request 1 % of its time over HTTP.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache, partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND
from mcp_types.methods import is_input_required
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError

from server.access import principal_of
from server.clients.known import client_of, sender_of
from server.clients.layout import layout_for
from server.conversation.errors import RunEndedError
from server.hosting.activity import is_of_interest
from server.listing.extensions import extensions_of, with_declared
from server.requests import (
    NO_CLIENT,
    NOTES,
    OPENING_METHODS,
    OTHER_METHOD,
    Client,
    Notes,
    Records,
    RequestDecision,
    RequestReason,
    RequestRecord,
    Use,
    address_of,
    note_error,
)
from server.wire.errors import code_of, protocol_error
from server.wire.params import checked_message
from skills_core.diagnostics import one_line
from skills_core.errors import (
    EvalFileError,
    FileRefusedError,
    FileUnavailableError,
    SkillChangedError,
    SkillsError,
    UnknownFileError,
    UnknownSkillError,
)
from skills_core.skills.skill import SCHEME

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from server.conversation.client_requests import SealedState
    from server.hosting.host import Host
    from server.hosting.views import View


class Boundary:
    """The middleware of the server."""

    def __init__(self, host: Host, state: SealedState, is_method: Callable[[str], bool]) -> None:
        """Add the instructions of `host`; `state` seals and opens what a client keeps for the server.

        Requests are recorded as far as the host's records want them; `is_method` tells whether the server has a method.
        """
        self._host = host
        self._state = state
        self._records = host.records
        self._is_method = is_method

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Pass a message on, and return its result.

        Raises:
            MCPError: the parameters exceed a limit, the state is foreign, or the handler has failed.
        """
        self._host.background.note_request()
        if self._host.is_opening and ctx.request_id is not None and ctx.method not in _AT_ONCE:
            await self._host.opened()
        if _is_schema_lookup(ctx):
            return _tools_with_headers(self._host.view(ctx))
        if self._records.wanted and ctx.request_id is not None:
            method = ctx.method if self._is_method(ctx.method) else OTHER_METHOD
            return await _recorded(self._records, ctx, method, partial(self._answer, call_next))
        return await self._answer(call_next, ctx)

    async def _answer(self, call_next: CallNext, ctx: ServerRequestContext[Any, Any]) -> HandlerResult:
        try:
            message = checked_message(ctx)
            if message is None:
                return None
            if (message.params or {}).get("requestState") is not None:
                return await self._state.open(message, call_next)
            result = await call_next(message)
            if is_input_required(result):
                return await self._state.seal(message, result)
            return _with_instructions(self._host, message, result) if message.method in OPENING_METHODS else result
        except Exception as error:  # noqa: BLE001 - translated, and logged if it is unexpected
            if isinstance(error, SkillChangedError):
                await self._host.try_reload(error.paths)
            note_error(error)
            raise protocol_error(error, ctx.method) from None


def _with_instructions(host: Host, ctx: ServerRequestContext[Any, Any], result: HandlerResult) -> HandlerResult:
    """Return the result of a request that opens a conversation; the SDK knows one text for all callers."""
    if not isinstance(result, dict):
        return result
    view = host.view(ctx)
    if ctx.method == "server/discover":
        result = with_declared(result, extensions_of(ctx, view.settings))
    instructions = view.instructions(layout_for(client_of(ctx), view.settings))
    return {**result, "instructions": instructions} if instructions is not None else result


def _is_schema_lookup(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Tell whether the SDK itself asks for the schema of a tool that is called.

    It compares the `Mcp-Param-*` headers of a modern `tools/call` over HTTP with the schema. Where callers have
    different tools, it lists those of the caller for that, as if the client had asked; such a list is not recorded. A
    client cannot cause this: the SDK has compared the header of each request with its body.
    """
    if ctx.method != "tools/list" or ctx.request is None or ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
        return False
    return bool(ctx.request.headers.get("mcp-method") == "tools/call")


def _tools_with_headers(view: View) -> dict[str, Any]:
    """Return the tools whose schemas may name headers: those that skills of a view declare."""
    return {"tools": [{"name": name, "inputSchema": view.tool_schemas[name]} for name in view.declared]}


_AT_ONCE: Final = OPENING_METHODS | {"ping", "logging/setLevel", "subscriptions/listen"}
# Answered while skills are being loaded: clients wait for these before anything else.

_MAX_NAME: Final = 200
_MAX_TARGET: Final = 900
# Longer than what the audit log keeps, so that it knows a token by its end too.
_MAX_NAMES: Final = 10

_REASONS: Final[dict[type[Exception], RequestReason]] = {
    UnknownSkillError: RequestReason.UNKNOWN_SKILL,
    UnknownFileError: RequestReason.UNKNOWN_FILE,
    EvalFileError: RequestReason.WITHHELD,
    FileRefusedError: RequestReason.WITHHELD,
    FileUnavailableError: RequestReason.UNAVAILABLE,
}

_ALLOWED: Final = RequestDecision.ALLOWED
_ACTIVATED: Final = Use.ACTIVATED
_CANCELLED: Final = (RequestDecision.FAILED, str(RequestReason.CANCELLED))
_PLAINLY_ALLOWED: Final = (RequestDecision.ALLOWED, str(RequestReason.NONE))
# Members of an enum are looked up slowly.

_INVALID: Final = frozenset({INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND})

_TARGETS: Final = ("uri", "name")
_TOOL_TARGETS: Final = ("name", "skill")
# The parameters of a request, and the arguments of the server's own tools, that name what it is about.
_PATH: Final = "path"
# The argument that may be the URI of a file of any skill.


async def _recorded(
    records: Records,
    ctx: ServerRequestContext[Any, Any],
    method: str,
    answer: Callable[[ServerRequestContext[Any, Any]], Awaitable[HandlerResult]],
) -> HandlerResult:
    """Return the answer to a request, and emit its record; `answer` raises the errors of the protocol.

    `method` is the name under which the request is recorded.
    """
    notes = Notes(records.new_id(), principal=principal_of(ctx))
    span = None if records.tracer is None else records.tracer.begin(_trace_carrier(ctx))
    if span is not None:
        notes.trace_id = span.trace_id
    token = NOTES.set(notes)
    begin = perf_counter()
    decision, reason = _CANCELLED
    try:
        result = await answer(ctx)
        decision, reason = _decision_on_result(notes, result)
    except Exception as error:
        decision, reason = _noted_decision(notes) or _decision_on_error(notes.error or error)
        raise
    except BaseException:
        # A stream of events usually ends so; what was noted of it before still holds.
        decision, reason = _noted_decision(notes) or (decision, reason)
        raise
    else:
        return result
    finally:
        seconds = perf_counter() - begin
        NOTES.reset(token)
        whole = records.wanted_whole
        if whole or decision is not _ALLOWED or is_of_interest(notes.use, method, notes.tool):
            record = _record_of(ctx, method, notes, (decision, reason), seconds, whole=whole)
            if span is not None:
                span.end(record)
            records.emit(record)


def _record_of(
    ctx: ServerRequestContext[Any, Any],
    method: str,
    notes: Notes,
    outcome: tuple[RequestDecision, str],
    seconds: float,
    *,
    whole: bool,
) -> RequestRecord:
    """Return the record of a request, or what people who watch need of it: an activation's skill is its target."""
    is_named = whole or notes.use is not _ACTIVATED
    decision, reason = outcome
    return RequestRecord(
        method=method,
        request_id=notes.request_id,
        principal=notes.principal,
        client=_sender(ctx),
        era=_era_of(ctx) if whole else "",
        address=address_of(getattr(ctx.request, "scope", None)) if whole else "",
        target=_target_of(ctx, notes) if is_named else "",
        tool=notes.tool,
        skill=notes.skill,
        digest=notes.digest if whole else "",
        use=notes.use,
        found=notes.found,
        decision=decision,
        reason=reason,
        seconds=seconds,
        trace_id=notes.trace_id if whole else "",
    )


def _era_of(ctx: ServerRequestContext[Any, Any]) -> str:
    return "handshake" if ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS else "modern"


def _trace_carrier(ctx: ServerRequestContext[Any, Any]) -> Mapping[str, Any]:
    """Return what names the client's trace: the metadata of the message, or the headers of its HTTP request."""
    meta = (ctx.params or {}).get("_meta")
    if isinstance(meta, dict) and "traceparent" in meta:
        return meta
    headers: Mapping[str, Any] = getattr(ctx.request, "headers", {})
    return headers


def _noted_decision(notes: Notes) -> tuple[RequestDecision, str] | None:
    return None if notes.decision is None else (notes.decision, notes.reason)


def _decision_on_result(notes: Notes, result: HandlerResult) -> tuple[RequestDecision, str]:
    if (noted := _noted_decision(notes)) is not None:
        return noted
    if notes.error is not None:
        return _decision_on_error(notes.error)
    if isinstance(result, dict) and "resultType" not in result and not result.get("isError"):
        return _PLAINLY_ALLOWED
    if is_input_required(result):
        return RequestDecision.ALLOWED, RequestReason.INPUT_REQUIRED
    if isinstance(result, dict) and result.get("isError"):
        return RequestDecision.FAILED, RequestReason.TOOL_FAILED
    return _PLAINLY_ALLOWED


def _decision_on_error(error: Exception) -> tuple[RequestDecision, str]:
    known = _REASONS.get(type(error))
    if isinstance(error, RunEndedError):
        return RequestDecision.INVALID, RequestReason.INVALID_REQUEST
    if isinstance(error, SkillsError):
        code = code_of(error)
    elif isinstance(error, MCPError):
        code = error.code
    else:
        code = INVALID_PARAMS if isinstance(error, ValidationError) else 0
    if code == METHOD_NOT_FOUND:
        return RequestDecision.INVALID, RequestReason.UNKNOWN_METHOD
    if code in _INVALID:
        return RequestDecision.INVALID, known or RequestReason.INVALID_REQUEST
    return RequestDecision.FAILED, known or RequestReason.INTERNAL


def _sender(ctx: ServerRequestContext[Any, Any]) -> Client:
    sender = sender_of(ctx)
    return NO_CLIENT if sender is None else _client(sender.name[:_MAX_NAME], sender.version[:_MAX_NAME])


@lru_cache(256)
def _client(name: str, version: str) -> Client:
    return Client(one_line(name), one_line(version))


def _target_of(ctx: ServerRequestContext[Any, Any], notes: Notes) -> str:
    names: Any = ctx.params or {}
    keys: tuple[str, ...] = _TARGETS
    if ctx.method == "tools/call" and notes.tool:
        # The arguments of tools that skills declare are texts.
        names, keys = names.get("arguments") if notes.is_own_tool else {}, _TOOL_TARGETS
        if isinstance(names, dict) and str(names.get(_PATH)).startswith(SCHEME):
            keys = (_PATH,)
    if not isinstance(names, dict):
        return ""
    found = notes.target
    for key in keys:
        found = found or _sent_names(names.get(key))
    return one_line(found[:_MAX_TARGET])[:_MAX_TARGET] if found else ""


def _sent_names(value: object) -> str:
    """Return a name that a client sent, or several of them as one text; empty if there is none."""
    if isinstance(value, str):
        return value
    names = value[:_MAX_NAMES] if isinstance(value, list) else [value]
    return ", ".join(name[:_MAX_TARGET] for name in names if isinstance(name, str))
