"""OpenTelemetry spans of requests, within the traces of their clients (W3C `traceparent`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opentelemetry import context, trace
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from server.requests import OpenSpan, RequestDecision, Tracer

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from server.requests import RequestRecord

_PARENT = TraceContextTextMapPropagator()


class _RequestSpan(OpenSpan):
    def __init__(self, span: Span) -> None:
        self._span = span
        # Runs link their traces to the current span.
        self._token = context.attach(trace.set_span_in_context(span))

    @property
    def trace_id(self) -> str:
        return trace.format_trace_id(self._span.get_span_context().trace_id)

    def end(self, record: RequestRecord) -> None:
        context.detach(self._token)
        attributes = {
            "mcp.method.name": record.method,
            "skillserve.request_id": record.request_id,
            "skillserve.era": record.era,
            "skillserve.tool": record.tool,
            "skillserve.skill": record.skill,
            "skillserve.digest": record.digest,
            "skillserve.decision": record.decision,
            "skillserve.reason": record.reason,
        }
        self._span.update_name(record.method)
        self._span.set_attributes({name: str(value) for name, value in attributes.items() if value})
        if record.decision is RequestDecision.FAILED:
            self._span.set_status(StatusCode.ERROR)
        self._span.end()


class RequestTracer(Tracer):
    """Makes a span for each request."""

    def __init__(self) -> None:
        """Make spans with the global provider."""
        self._tracer = trace.get_tracer("skillserve")

    def begin(self, carrier: Mapping[str, Any]) -> OpenSpan:
        """Begin the span of a request; `carrier` may have the `traceparent` of the client.

        Its `tracestate` is not read: it is free text, which would be exported with the span.
        """
        given = carrier.get("traceparent")
        parent = context.Context()
        if isinstance(given, str):
            parent = _PARENT.extract({"traceparent": given}, parent)
        return _RequestSpan(self._tracer.start_span("request", parent, SpanKind.SERVER))

    def tell(self, name: str, attributes: Mapping[str, str]) -> None:
        """Make a span of its own that is over at once."""
        self._tracer.start_span(name, context.Context(), attributes=dict(attributes)).end()
