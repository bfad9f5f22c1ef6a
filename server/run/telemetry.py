"""Spans go to a collector where the usual variables of OpenTelemetry name one, and nowhere else."""

from __future__ import annotations

import logging
import math
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from server import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opentelemetry.sdk.trace import ReadableSpan

__all__ = ["traced"]

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")

_TIMEOUTS = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")

_SECONDS = 3.0
"""What a collector has to take spans where no variable says otherwise; a run's end waits for so long."""


@contextmanager
def traced(environment: Mapping[str, str]) -> Iterator[None]:
    """Hand spans to the collector that `environment` names, as long as the block lasts; its end waits for the last.

    It does not wait for longer than a collector has for one request. What did not arrive is told of on stderr.
    """
    if not any(environment.get(name) for name in _ENDPOINTS) or environment.get("OTEL_TRACES_EXPORTER") == "none":
        yield
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
            result = super().export([told for span in spans if (told := without_texts(span)) is not None])
            if result is not SpanExportResult.SUCCESS:
                failed.set()
            return result

    # It would tell of each attempt.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    seconds = _timeout(environment)
    name = environment.get("OTEL_SERVICE_NAME") or "skillserve"
    resource = Resource.create({"service.name": name, "service.version": __version__})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(Exporter(timeout=seconds)))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        # Its own limit is for each batch of spans, and it may have several left.
        last = threading.Thread(target=provider.shutdown, daemon=True)
        last.start()
        last.join(seconds)
        if last.is_alive() or failed.is_set():
            print("skillserve: spans did not reach the collector", file=sys.stderr)  # noqa: T201 - for people


def _timeout(environment: Mapping[str, str]) -> float:
    """Return the seconds that a variable gives, of which the exporter's own library says that they are seconds."""
    for name in _TIMEOUTS:
        try:
            seconds = float(environment.get(name, ""))
        except ValueError:
            continue
        if math.isfinite(seconds) and seconds > 0:
            return seconds
    return _SECONDS
