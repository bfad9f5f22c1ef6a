"""Record each request: who asked, for what, and how it was decided."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND
from mcp_types.methods import is_input_required
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError

from server.access.principal import principal_of
from server.conversation.errors import RunEndedError
from server.requests.notes import NOTES, Notes
from server.requests.records import Client, RequestDecision, RequestReason, RequestRecord, address_of
from server.wire.errors import code_of
from skills_core.diagnostics import one_line
from skills_core.errors import (
    EvalFileError,
    FileRefusedError,
    FileUnavailableError,
    SkillsError,
    UnknownFileError,
    UnknownSkillError,
)
from skills_core.skills.uris import SCHEME

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp.server.context import HandlerResult, ServerRequestContext

    from server.requests.records import Records

__all__ = ["recorded"]

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

_INVALID: Final = frozenset({INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND})

_TARGETS: Final = ("uri", "name")
_TOOL_TARGETS: Final = ("name", "skill")
# The parameters of a request, and the arguments of the server's own tools, that name what it is about.
_PATH: Final = "path"
# The argument that may be the URI of a file of any skill.


async def recorded(
    records: Records,
    ctx: ServerRequestContext[Any, Any],
    method: str,
    answer: Callable[[ServerRequestContext[Any, Any]], Awaitable[HandlerResult]],
) -> HandlerResult:
    """Return the answer to a request, and emit its record; `answer` raises the errors of the protocol.

    `method` is the name under which the request is recorded.
    """
    notes = Notes(records.new_id(), principal=principal_of(ctx))
    span = None if records.tracer is None else records.tracer.begin(_carrier(ctx))
    if span is not None:
        notes.trace_id = span.trace_id
    token = NOTES.set(notes)
    begin = perf_counter()
    decision, reason = RequestDecision.FAILED, str(RequestReason.CANCELLED)
    try:
        result = await answer(ctx)
        decision, reason = _of_result(notes, result)
    except Exception as error:
        decision, reason = _noted(notes) or _of_error(notes.error or error)
        raise
    except BaseException:
        # A stream of events usually ends so; what was noted of it before still holds.
        decision, reason = _noted(notes) or (decision, reason)
        raise
    else:
        return result
    finally:
        seconds = perf_counter() - begin
        NOTES.reset(token)
        record = _record(ctx, method, notes, decision, reason, seconds)
        if span is not None:
            span.end(record)
        records.emit(record)


def _record(
    ctx: ServerRequestContext[Any, Any], method: str, notes: Notes, decision: RequestDecision, reason: str, seconds: float
) -> RequestRecord:
    return RequestRecord(
        method=method,
        request_id=notes.request_id,
        principal=notes.principal,
        client=_client(ctx),
        era="handshake" if ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS else "modern",
        address=address_of(getattr(ctx.request, "scope", None)),
        target=_target(ctx, notes),
        tool=notes.tool,
        skill=notes.skill,
        digest=notes.digest,
        use=notes.use,
        found=notes.found,
        decision=decision,
        reason=reason,
        seconds=seconds,
        trace_id=notes.trace_id,
    )


def _carrier(ctx: ServerRequestContext[Any, Any]) -> Mapping[str, Any]:
    """Return what names the client's trace: the metadata of the message, or the headers of its HTTP request."""
    meta = (ctx.params or {}).get("_meta")
    if isinstance(meta, dict) and "traceparent" in meta:
        return meta
    headers: Mapping[str, Any] = getattr(ctx.request, "headers", {})
    return headers


def _noted(notes: Notes) -> tuple[RequestDecision, str] | None:
    return None if notes.decision is None else (notes.decision, notes.reason)


def _of_result(notes: Notes, result: HandlerResult) -> tuple[RequestDecision, str]:
    if (noted := _noted(notes)) is not None:
        return noted
    if notes.error is not None:
        return _of_error(notes.error)
    if is_input_required(result):
        return RequestDecision.ALLOWED, RequestReason.INPUT_REQUIRED
    if isinstance(result, dict) and result.get("isError"):
        return RequestDecision.FAILED, RequestReason.TOOL_FAILED
    return RequestDecision.ALLOWED, RequestReason.NONE


def _of_error(error: Exception) -> tuple[RequestDecision, str]:
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


def _client(ctx: ServerRequestContext[Any, Any]) -> Client:
    sent = ctx.session.client_params
    if sent is not None:
        return Client(one_line(sent.client_info.name[:_MAX_NAME]), one_line(sent.client_info.version[:_MAX_NAME]))
    # While `initialize` is handled, the session does not know its client yet.
    info = (ctx.params or {}).get("clientInfo") if ctx.method == "initialize" else None
    if not isinstance(info, dict):
        return Client()
    name, version = (one_line(str(info.get(key, ""))[:_MAX_NAME]) for key in ("name", "version"))
    return Client(name, version)


def _target(ctx: ServerRequestContext[Any, Any], notes: Notes) -> str:
    names: Any = ctx.params or {}
    keys: tuple[str, ...] = _TARGETS
    if ctx.method == "tools/call" and notes.tool:
        # The arguments of tools that skills declare are texts.
        names, keys = names.get("arguments") if notes.is_own_tool else {}, _TOOL_TARGETS
        if isinstance(names, dict) and str(names.get(_PATH)).startswith(SCHEME):
            keys = (_PATH,)
    if not isinstance(names, dict):
        return ""
    found = (notes.target, *(_name(names.get(key)) for key in keys))
    return one_line(next(filter(None, found), "")[:_MAX_TARGET])[:_MAX_TARGET]


def _name(value: object) -> str:
    """Return a name that a client sent, or several of them as one text; empty if there is none."""
    names = value[:_MAX_NAMES] if isinstance(value, list) else [value]
    return ", ".join(name[:_MAX_TARGET] for name in names if isinstance(name, str))
