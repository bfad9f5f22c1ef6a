"""Export of a run's spans over HTTP to the collector that the OpenTelemetry variables name."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from skills_core.testing import Call
from tests.conftest import MakeSkill
from tests.model_endpoint import ModelEndpoint
from tests.server.cli.test_cli import run
from tests.server.sessions import http_server, open_session

SECOND = Path(__file__).with_name("mcp_second_server.py")

Collected = tuple[str, list[ExportTraceServiceRequest]]


@pytest.fixture
def collected() -> Iterator[Collected]:
    """The address of a collector, and the requests that it received."""
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
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", sent
        server.shutdown()
        thread.join()


def test_an_unreachable_collector_is_reported_on_one_line(
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
            # The first time, the port accepts connections without an answer; afterwards it is closed.
            server.close()


def spans_in(sent: list[ExportTraceServiceRequest]) -> list[Span]:
    return [
        span
        for request in sent
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def test_a_run_is_exported_as_a_trace_without_free_text(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, tmp_path: Path, collected: Collected
) -> None:
    address, sent = collected
    make_skill("greeter", body="Greet, and keep the word xyzzy to yourself.")
    endpoint.script = [
        [
            Call("say plover to all", {"a": "frotz"}),
            Call("read_skill_file", {"path": "frotz.md"}),
            Call("second__add", {"a": 1, "b": 2}),
            Call("second__fail"),
        ],
        "hello",
    ]
    servers = {"mcpServers": {"second": {"command": sys.executable, "args": [str(SECOND), "stdio"]}}}
    (tmp_path / "servers.json").write_text(json.dumps(servers))
    done = run(
        *("run", "greeter", "plugh", skills, "--model", endpoint.model, "--json"),
        *("--mcp-servers", tmp_path / "servers.json"),
        XDG_STATE_HOME=str(tmp_path / "state"),
        OTEL_EXPORTER_OTLP_ENDPOINT=address,
    )
    outcome, spans = json.loads(done.stdout), spans_in(sent)
    assert [call["decision"] for call in outcome["tool_calls"]] == ["unknown_tool", "failed", "done", "failed"]
    calls = {"execute_tool", "execute_tool read_skill_file", "execute_tool second__add", "execute_tool second__fail"}
    others = {"initialize", "server/discover", "tools/list", "tools/call"}
    names = {span.name for span in spans}
    assert names - others == {"invoke_agent greeter", "chat scripted", *calls}
    assert "tools/call" in names
    assert {span.trace_id.hex() for span in spans if span.name not in others - {"tools/call"}} == {outcome["run_id"]}
    everything = "".join(str(request) for request in sent)
    # Texts of the skill, the user and the model, tool arguments, descriptions and results.
    for text in ("xyzzy", "plugh", "hello", "plover", "frotz", "Read a file", "Add two", "description", "not work"):
        assert text not in everything


async def test_a_run_for_a_client_is_exported_too(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, tmp_path: Path, collected: Collected
) -> None:
    address, sent = collected
    make_skill("greeter")
    endpoint.script = ["hello"]
    settings = {
        "SKILLSERVE_TOOLS": "run_skill",
        "SKILLSERVE_STRUCTURED_RESULTS": "true",
        "SKILLSERVE_MODEL": endpoint.model,
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "OTEL_EXPORTER_OTLP_ENDPOINT": address,
    }
    async with http_server(skills, **settings) as url, open_session(url, "modern", ()) as session:
        outcome = await session.client.call_tool("run_skill", {"name": "greeter", "message": "xyzzy"})
    assert outcome.structured_content is not None
    (span,) = [each for each in spans_in(sent) if each.name == "invoke_agent greeter"]
    assert span.trace_id.hex() == outcome.structured_content["run_id"]
    assert "xyzzy" not in "".join(map(str, sent))


@pytest.mark.parametrize("name", [(), ("--id", "nightly-1")], ids=["unnamed", "named"])
def test_the_runs_of_a_workflow_share_the_trace_id_of_its_trace_file(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, tmp_path: Path, collected: Collected, name: Any
) -> None:
    address, sent = collected
    make_skill("greeter")
    endpoint.script = ["hello"]
    steps = "".join(f"  - {{kind: skill, name: {each}, target: greeter}}\n" for each in ("One", "Two"))
    (tmp_path / "flow.yaml").write_text(f"name: flow\nsteps:\n{steps}")
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    arguments = ("workflow", "run", tmp_path / "flow.yaml", skills, "--model", endpoint.model, "--json")
    outcome = json.loads(run(*arguments, *name, **state, OTEL_EXPORTER_OTLP_ENDPOINT=address).stdout)
    runs = [outcome["run_id"], *(step["outcome"]["run_id"] for step in outcome["steps"])]
    numbers = {json.loads(run("runs", "show", each, **state).stdout)["trace_id"] for each in runs}
    assert len(runs) == 3
    assert numbers == {span.trace_id.hex() for span in spans_in(sent)}
    assert len(numbers) == 1
    assert len([span for span in spans_in(sent) if span.name == "invoke_agent greeter"]) == 2
