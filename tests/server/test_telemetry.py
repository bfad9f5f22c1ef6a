"""Spans of a run reach the collector that the usual variables name, over real HTTP."""

from __future__ import annotations

import json
import socket
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


def test_a_collector_that_is_not_there_is_told_of_in_one_line(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, tmp_path: Path
) -> None:
    make_skill("greeter")
    endpoint.script = ["hello"]
    arguments = ("run", "greeter", "hi", skills, "--model", endpoint.model)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://user:xyzzy@127.0.0.1:{server.getsockname()[1]}"
        for more in ({}, {"OTEL_EXPORTER_OTLP_TIMEOUT": "0.5"}, {"OTEL_EXPORTER_OTLP_TIMEOUT": "soon"}):
            done = run(*arguments, XDG_STATE_HOME=str(tmp_path), OTEL_EXPORTER_OTLP_ENDPOINT=address, **more)
            assert (done.returncode, done.stdout) == (0, "hello\n")
            assert done.stderr == "skillserve: spans did not reach the collector\n"
            # It takes connections the first time, and says nothing; then there is nobody.
            server.close()


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
