"""Spans of a run reach the collector that the usual variables name, over real HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.conftest import MakeSkill
from tests.model_endpoint import ModelEndpoint
from tests.server.test_cli import run


@pytest.fixture
def collected() -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """A collector's address, and what it was sent."""
    sent: list[ExportTraceServiceRequest] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            sent.append(ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", sent
        server.shutdown()
        thread.join()


def test_a_run_is_a_trace_at_the_collector_without_its_texts(
    make_skill: MakeSkill,
    skills: Path,
    endpoint: ModelEndpoint,
    tmp_path: Path,
    collected: tuple[str, list[ExportTraceServiceRequest]],
) -> None:
    address, sent = collected
    make_skill("greeter", body="Greet, and keep the word xyzzy to yourself.")
    endpoint.script = ["hello"]
    state = str(tmp_path / "state")
    arguments = ("run", "greeter", "plugh", skills, "--model", endpoint.model, "--json")
    done = run(*arguments, XDG_STATE_HOME=state, OTEL_EXPORTER_OTLP_ENDPOINT=address)
    run_id = json.loads(done.stdout)["run_id"]
    spans = [
        span
        for request in sent
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    assert {span.name for span in spans} >= {"invoke_agent greeter", "chat scripted"}
    assert {span.trace_id.hex() for span in spans} == {run_id}
    everything = "".join(str(request) for request in sent)
    for text in ("xyzzy", "plugh", "hello"):
        assert text not in everything
