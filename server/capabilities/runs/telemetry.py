"""Export spans to the collector that the standard OpenTelemetry environment variables name, if any.

Free text is removed from spans before, because it may contain prompts, outputs or other private data.
"""

from __future__ import annotations

import importlib.util
import logging
import math
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from server import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.util.types import AttributeValue


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
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.trace import Status

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


_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")

_TIMEOUTS = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")

_SECONDS = 3.0
"""Default timeout of an export; the end of a run waits that long at most."""


def can_trace() -> bool:
    """Tell whether the tracing libraries are installed, which are extras."""
    try:
        return importlib.util.find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:
        return False


def endpoint_fault(environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the variable that names the collector and what is wrong with its value, None if nothing is.

    The value is left out, because it may contain a password.
    """
    if environment.get("OTEL_TRACES_EXPORTER") == "none":
        return None
    # The variable for traces precedes.
    name = next((name for name in reversed(_ENDPOINTS) if environment.get(name)), None)
    if name is None or environment[name].lower().startswith(("http://", "https://")):
        return None
    return name, "expected an address that begins with http:// or https://, such as http://localhost:4318"


def _print(message: str) -> None:
    print(f"skillserve: {message}", file=sys.stderr)  # noqa: T201 - for people


@contextmanager
def traced(environment: Mapping[str, str], report: Callable[[str], None] = _print) -> Iterator[bool]:
    """Export spans to the collector that `environment` names until the block ends, then flush the remaining spans.

    Yields whether spans are exported. The flush takes no longer than the timeout of one export. `report` is told if the
    variables cannot be used, and if spans were lost, by default on stderr.
    """
    if not any(environment.get(name) for name in _ENDPOINTS) or environment.get("OTEL_TRACES_EXPORTER") == "none":
        yield False
        return
    if fault := endpoint_fault(environment):
        report(f"no spans are exported: the environment variable {': '.join(fault)}")
        yield False
        return
    from opentelemetry import trace

    failed = threading.Event()
    seconds = _timeout(environment)
    try:
        provider = _provider(environment, seconds, failed)
    except ValueError as error:
        # The libraries read further variables, such as limits.
        report(f"no spans are exported: a variable of OpenTelemetry cannot be used: {error}")
        yield False
        return
    trace.set_tracer_provider(provider)
    try:
        yield True
    finally:
        # `shutdown` has a timeout for each batch of spans; this limits all batches together.
        last = threading.Thread(target=provider.shutdown, daemon=True)
        last.start()
        last.join(seconds)
        if last.is_alive() or failed.is_set():
            report("spans did not reach the collector")


def _provider(environment: Mapping[str, str], seconds: float, failed: threading.Event) -> TracerProvider:
    """Return a provider that exports spans, and sets `failed` if the collector did not take them.

    Raises:
        ValueError: a variable cannot be used.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

    class Exporter(OTLPSpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            result = super().export([filtered for span in spans if (filtered := without_texts(span)) is not None])
            if result is not SpanExportResult.SUCCESS:
                failed.set()
            return result

    # The exporter would log each failed attempt.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    name = environment.get("OTEL_SERVICE_NAME") or "skillserve"
    resource = Resource.create({"service.name": name, "service.version": __version__})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(Exporter(timeout=seconds)))
    return provider


def _timeout(environment: Mapping[str, str]) -> float:
    """Return the configured timeout in seconds, the unit that the Python exporter uses for these variables."""
    for name in _TIMEOUTS:
        try:
            seconds = float(environment.get(name, ""))
        except ValueError:
            continue
        if math.isfinite(seconds) and seconds > 0:
            return seconds
    return _SECONDS
