"""Remove free text from spans before export, because it may contain prompts, outputs or other private data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.trace import Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.util.types import AttributeValue

__all__ = ["without_texts"]

_SKILLSERVE: Final = "skillserve"

_PYDANTIC_AI: Final = "pydantic-ai"

_MCP_SDK: Final = "mcp-python-sdk"
# The names of its spans contain tool names, which the other side chooses.

_METHOD: Final = "mcp.method.name"

_ALLOWED: Final = frozenset(
    {
        "error.type",
        "exception.type",
        "gen_ai.agent.name",
        "gen_ai.evaluation.score.value",
        "gen_ai.operation.name",
        "gen_ai.provider.name",
        "gen_ai.request.model",
        "gen_ai.response.finish_reasons",
        "gen_ai.response.id",
        "gen_ai.response.model",
        "gen_ai.system",
        "gen_ai.tool.call.id",
        "gen_ai.tool.name",
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.output_tokens",
        "jsonrpc.request.id",
        "rpc.response.status_code",
        "server.address",
        "server.port",
        _METHOD,
    }
)


def without_texts(span: ReadableSpan) -> ReadableSpan | None:
    """Return the span with allowed attributes only, or None if an unknown library created it."""
    scope = span.instrumentation_scope.name if span.instrumentation_scope else ""
    if scope not in {_SKILLSERVE, _PYDANTIC_AI, _MCP_SDK}:
        return None
    attributes = _allowed(span.attributes or {})
    return ReadableSpan(
        name=str(attributes.get(_METHOD, "request")) if scope == _MCP_SDK else span.name,
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=attributes,
        events=[Event(event.name, _allowed(event.attributes or {}), event.timestamp) for event in span.events],
        links=span.links,
        kind=span.kind,
        status=Status(span.status.status_code),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def _allowed(attributes: Mapping[str, AttributeValue]) -> dict[str, AttributeValue]:
    return {key: value for key, value in attributes.items() if key in _ALLOWED or key.startswith(f"{_SKILLSERVE}.")}
