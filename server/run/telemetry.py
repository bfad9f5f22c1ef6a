"""Export spans to the collector that the standard OpenTelemetry environment variables name, if any."""

from __future__ import annotations

import importlib.util
import logging
import math
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from server import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from opentelemetry.sdk.trace import ReadableSpan

__all__ = ["can_trace", "traced"]

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


def _print(message: str) -> None:
    print(f"skillserve: {message}", file=sys.stderr)  # noqa: T201 - for people


@contextmanager
def traced(environment: Mapping[str, str], report: Callable[[str], None] = _print) -> Iterator[bool]:
    """Export spans to the collector that `environment` names until the block ends, then flush the remaining spans.

    Yields whether there is a collector. The flush takes no longer than the timeout of one export. `report` is told if
    spans were lost, by default on stderr.
    """
    if not any(environment.get(name) for name in _ENDPOINTS) or environment.get("OTEL_TRACES_EXPORTER") == "none":
        yield False
        return
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

    from server.run.span_filter import without_texts

    failed = threading.Event()

    class Exporter(OTLPSpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            result = super().export([filtered for span in spans if (filtered := without_texts(span)) is not None])
            if result is not SpanExportResult.SUCCESS:
                failed.set()
            return result

    # The exporter would log each failed attempt.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    seconds = _timeout(environment)
    name = environment.get("OTEL_SERVICE_NAME") or "skillserve"
    resource = Resource.create({"service.name": name, "service.version": __version__})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(Exporter(timeout=seconds)))
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
