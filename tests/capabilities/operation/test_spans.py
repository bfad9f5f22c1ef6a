"""Requests are spans within the traces of their clients, without texts, and no collector holds them up."""

from __future__ import annotations

import signal
import socket
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from server.capabilities.auditlog.log_folder import anchors_of
from server.capabilities.auditlog.verification import LogVerdict, verify_log
from tests.capabilities.operation.conftest import Collector, attributes
from tests.conftest import MakeSkill
from tests.model_endpoint import ModelEndpoint
from tests.server.server_processes import ServerProcess, served_by_process
from tests.server.serving import modern, modern_headers
from tests.server.sessions import open_session
from tests.server.transport.test_event_streams import HandshakeClient

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
OTHER = "1" * 32
TEXT = "xyzzy"


def exporting(collector: Collector, **more: str) -> dict[str, str]:
    # A short interval would send several requests; the end of the process sends all spans.
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, **more}


async def ask(served: ServerProcess, message: dict[str, Any], **headers: str) -> httpx2.Response:
    async with httpx2.AsyncClient(timeout=60) as client:
        return await client.post(served.url, json=message, headers=modern_headers(message, **headers))


async def stop(served: ServerProcess) -> None:
    served.process.send_signal(signal.SIGTERM)
    assert await served.end() == -signal.SIGTERM


def calls(collector: Collector) -> list[Span]:
    return [span for span in collector.spans if span.name == "tools/call"]


def activation(name: str = "one", **meta: Any) -> dict[str, Any]:
    arguments = {"name": name, "message": TEXT}
    return modern("tools/call", {"name": "activate_skill", "arguments": arguments}, **meta)


async def test_a_request_belongs_to_the_trace_of_its_client(
    make_skill: MakeSkill, skills: Path, collector: Collector
) -> None:
    make_skill("one", body=f"Keep {TEXT} to yourself.")
    async with served_by_process(skills, **exporting(collector)) as served:
        assert (await ask(served, activation(traceparent=TRACEPARENT))).status_code == 200
        await ask(served, activation(), traceparent=TRACEPARENT)
        # What the message says precedes what a proxy says.
        await ask(served, activation(traceparent=TRACEPARENT), traceparent=f"00-{OTHER}-{PARENT}-01")
        async with httpx2.AsyncClient(timeout=60) as client:
            old = await HandshakeClient(client, served.url).open()
            old.headers["traceparent"] = TRACEPARENT
            await old.post("tools/call", {"name": "activate_skill", "arguments": {"name": "one"}})
        await stop(served)
    found = calls(collector)
    assert [(span.trace_id.hex(), span.parent_span_id.hex(), span.kind) for span in found] == [
        (TRACE, PARENT, Span.SPAN_KIND_SERVER)
    ] * 4
    first = attributes(found[0])
    assert first.pop("skillserve.request_id")
    assert first.pop("skillserve.digest").startswith("sha256:")
    assert first == {
        "mcp.method.name": "tools/call",
        "skillserve.era": "modern",
        "skillserve.tool": "activate_skill",
        "skillserve.skill": "one",
        "skillserve.decision": "allowed",
    }
    assert TEXT not in collector.text


async def test_the_audit_log_is_anchored_in_the_collector_to_its_end(
    make_skill: MakeSkill, skills: Path, collector: Collector, tmp_path: Path
) -> None:
    make_skill("one")
    folder = tmp_path / "audit-log"
    settings = {"SKILLSERVE_AUDIT_LOG": "true", "SKILLSERVE_AUDIT_LOG_FOLDER": str(folder)}
    async with served_by_process(skills, **exporting(collector, **settings)) as served:
        await ask(served, activation())
        await stop(served)
    told = [attributes(span) for span in collector.spans if span.name == "audit log anchor"]
    anchors = [*anchors_of(" ".join(each["skillserve.audit_log.anchor"] for each in told))]
    found = verify_log(folder, anchors)
    assert (found.verdict, found.anchored_records) == (LogVerdict.ANCHORED, found.records)


@pytest.mark.parametrize(
    "given", ["", "00", "x" * 5000, f"00-{'0' * 32}-{PARENT}-01", f"ff-{TRACE}-{PARENT}-01", 7, ["a"], None]
)
async def test_a_client_without_a_valid_trace_gets_a_new_one(
    make_skill: MakeSkill, skills: Path, collector: Collector, given: Any
) -> None:
    make_skill("one")
    async with served_by_process(skills, **exporting(collector)) as served:
        assert "Do the thing" in (await ask(served, activation(traceparent=given))).text
        await stop(served)
    (span,) = calls(collector)
    assert (span.parent_span_id, len(span.trace_id)) == (b"", 16)
    assert span.trace_id.hex() not in {TRACE, "0" * 32}


async def test_nothing_that_a_client_invents_is_exported(
    make_skill: MakeSkill, skills: Path, collector: Collector
) -> None:
    make_skill("one")
    async with served_by_process(skills, **exporting(collector)) as served:
        for message in (
            modern(TEXT),
            modern(f"tools/{TEXT}", {"name": TEXT}),
            modern("tools/call", {"name": TEXT, "arguments": {TEXT: TEXT}}),
            activation(TEXT),
            modern("prompts/get", {"name": TEXT}),
            modern("resources/read", {"uri": f"skill://{TEXT}/SKILL.md"}),
            activation(tracestate=f"vendor={TEXT}", traceparent=TRACEPARENT, baggage=f"a={TEXT}"),
        ):
            await ask(served, message, tracestate=f"a={TEXT}", baggage=f"a={TEXT}", **{"User-Agent": TEXT})
        async with httpx2.AsyncClient(timeout=60) as client:
            old = HandshakeClient(client, served.url)
            old.name = TEXT
            await (await old.open()).post(TEXT)
        await stop(served)
    assert len(collector.spans) >= 10
    assert TEXT not in collector.text
    reasons = {attributes(span).get("skillserve.reason") for span in collector.spans}
    assert {"unknown_method", "unknown_tool", "unknown_skill"} <= reasons
    assert {span.name for span in collector.spans} == {
        *("(other)", "tools/call", "prompts/get", "resources/read", "initialize", "ping")
    }


async def test_a_run_is_linked_to_the_request_that_started_it(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, collector: Collector, tmp_path: Path
) -> None:
    make_skill("greeter")
    endpoint.script = ["hello"]
    settings = {
        "SKILLSERVE_TOOLS": "run_skill",
        "SKILLSERVE_MODEL": endpoint.model,
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    async with served_by_process(skills, **exporting(collector, **settings)) as served:
        async with open_session(served.url, "modern") as session:
            await session.client.call_tool("run_skill", {"name": "greeter", "message": TEXT})
        await stop(served)
    (request,) = [span for span in calls(collector) if attributes(span).get("skillserve.tool") == "run_skill"]
    (run,) = [span for span in collector.spans if span.name == "invoke_agent greeter"]
    assert [(link.trace_id, link.span_id) for link in run.links] == [(request.trace_id, request.span_id)]
    assert run.trace_id != request.trace_id
    assert attributes(request)["skillserve.skill"] == "greeter"
    assert TEXT not in collector.text


async def test_a_request_that_fails_is_an_error_and_a_refused_one_is_not(
    make_skill: MakeSkill, skills: Path, endpoint: ModelEndpoint, collector: Collector, tmp_path: Path
) -> None:
    make_skill("greeter")
    settings = {
        "SKILLSERVE_TOOLS": "run_skill",
        "SKILLSERVE_MODEL": endpoint.model,
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    endpoint.script = []
    async with served_by_process(skills, **exporting(collector, **settings)) as served:
        async with open_session(served.url, "modern") as session:
            await session.client.call_tool("run_skill", {"name": "greeter", "message": TEXT})
        await ask(served, activation("unknown"))
        await stop(served)
    found = {attributes(span)["skillserve.decision"]: span.status for span in calls(collector)}
    assert found["failed"].code == Status.STATUS_CODE_ERROR
    assert found["failed"].message == ""
    assert found["invalid"].code == Status.STATUS_CODE_UNSET


@pytest.mark.parametrize("open_port", [True, False], ids=["silent", "closed"])
async def test_a_dead_collector_holds_up_neither_requests_nor_the_end(
    make_skill: MakeSkill, skills: Path, *, open_port: bool
) -> None:
    make_skill("one")
    with socket.create_server(("127.0.0.1", 0)) as server:
        settings = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://user:{TEXT}@127.0.0.1:{server.getsockname()[1]}",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "0.5",
            "OTEL_BSP_SCHEDULE_DELAY": "10",
            "OTEL_BSP_MAX_QUEUE_SIZE": "8",
            "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "4",
        }
        if not open_port:
            server.close()
        async with served_by_process(skills, **settings) as served:
            # More than the queue holds.
            for _ in range(30):
                assert "Do the thing" in (await ask(served, activation())).text
            await stop(served)
    assert "spans did not reach the collector" in served.log
    assert TEXT not in served.log
    assert "Traceback" not in served.log


async def test_without_a_collector_nothing_is_traced(make_skill: MakeSkill, skills: Path) -> None:
    make_skill("one")
    async with served_by_process(skills, "--log-format", "json", "--log-level", "info") as served:
        await ask(served, activation(traceparent=TRACEPARENT))
        await stop(served)
    assert "trace_id" not in served.log


async def test_the_log_has_the_trace_of_a_request(make_skill: MakeSkill, skills: Path, collector: Collector) -> None:
    make_skill("one")
    flags = ("--log-format", "json", "--log-level", "info")
    async with served_by_process(skills, *flags, **exporting(collector)) as served:
        await ask(served, activation(traceparent=TRACEPARENT))
        await stop(served)
    assert f'"trace_id":"{TRACE}"' in served.log


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "localhost:4318"}, "OTEL_EXPORTER_OTLP_ENDPOINT: expected an address"),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "many"},
            "a variable of OpenTelemetry cannot be used: OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
        ),
    ],
)
async def test_variables_that_cannot_be_used_are_told_at_the_start_and_the_server_serves(
    make_skill: MakeSkill, skills: Path, variables: dict[str, str], said: str
) -> None:
    make_skill("one")
    async with served_by_process(skills, **variables) as served:
        await served.logs(f"no spans are exported: {'the environment variable ' * ('OTLP' in said)}{said}")
        served.process.send_signal(signal.SIGTERM)
        await served.end()
    assert "did not reach" not in served.log
