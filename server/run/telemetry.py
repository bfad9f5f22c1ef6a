"""Spans go to a collector where the usual variables of OpenTelemetry name one, and nowhere else."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from server import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["traced"]

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


@contextmanager
def traced(environment: Mapping[str, str]) -> Iterator[None]:
    """Hand spans to the collector that `environment` names, as long as the block lasts; its end waits for the last."""
    if not any(environment.get(name) for name in _ENDPOINTS) or environment.get("OTEL_TRACES_EXPORTER") == "none":
        yield
        return
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    name = environment.get("OTEL_SERVICE_NAME") or "skillserve"
    provider = TracerProvider(resource=Resource.create({"service.name": name, "service.version": __version__}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        provider.shutdown()
