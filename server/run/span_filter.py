"""Spans without texts: what may be anybody's words does not go to a collector, whatever library wrote it on a span."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.trace import Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.util.types import AttributeValue

__all__ = ["without_texts"]

_OWN: Final = "skillserve"

_MODEL: Final = "pydantic-ai"

_PROTOCOL: Final = "mcp-python-sdk"
# It names its spans after methods and what the other side calls its tools.

_METHOD: Final = "mcp.method.name"

_KEPT: Final = frozenset(
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
    """Return the span with names, numbers and decisions alone, None where nothing is known of who wrote it."""
    scope = span.instrumentation_scope.name if span.instrumentation_scope else ""
    if scope not in {_OWN, _MODEL, _PROTOCOL}:
        return None
    attributes = _kept(span.attributes or {})
    return ReadableSpan(
        name=str(attributes.get(_METHOD, "request")) if scope == _PROTOCOL else span.name,
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=attributes,
        events=[Event(event.name, _kept(event.attributes or {}), event.timestamp) for event in span.events],
        links=span.links,
        kind=span.kind,
        status=Status(span.status.status_code),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def _kept(attributes: Mapping[str, AttributeValue]) -> dict[str, AttributeValue]:
    return {key: value for key, value in attributes.items() if key in _KEPT or key.startswith(f"{_OWN}.")}
