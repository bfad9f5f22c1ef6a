"""OpenTelemetry spans of a run and of each tool call in it; pydantic-ai adds those of the model.

Names and attributes follow OpenTelemetry's semantic conventions for generative AI. The trace id is derived from the run
id, so that either leads to the other. Spans contain no texts, which may be private; the JSON file has them.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from skills_core.guard.tool import CallDecision
from skills_core.run.durable.recorded_run import root_run_id
from skills_core.run.outcome import RunStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.trace import Span

    from skills_core.guard.tool import ToolCall
    from skills_core.run.outcome import RunOutcome
    from skills_core.run.trace.events import RunHeader

__all__ = ["record_call", "record_outcome", "run_span", "tool_span", "trace_id"]

_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_NOT_EXECUTED = frozenset(CallDecision) - {CallDecision.DONE, CallDecision.FAILED, CallDecision.TIMED_OUT}


def trace_id(run_id: str) -> str:
    """Return the trace id of a run: its run id if that is one, else a hash of it. Nested runs share it."""
    name = root_run_id(run_id)
    found = _TRACE_ID.match(name)
    return found[0] if found and int(found[0], 16) else hashlib.sha256(name.encode()).hexdigest()[:32]


@contextmanager
def run_span(header: RunHeader) -> Iterator[Span]:
    """Start the span of a run, as a root span with a link to the current span, if any."""
    around = trace.get_current_span().get_span_context()
    number = int(trace_id(header.run_id), 16)
    root = SpanContext(number, secrets.randbits(64) or 1, is_remote=True, trace_flags=TraceFlags(1))
    context = trace.set_span_in_context(NonRecordingSpan(root))
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": header.skill,
        "skillserve.run.id": header.run_id,
        "skillserve.skill.uri": header.uri,
        "skillserve.skill.digest": header.digest or "",
        "skillserve.model": header.model,
    }
    with trace.get_tracer("skillserve").start_as_current_span(
        f"invoke_agent {header.skill}".rstrip(),
        context,
        kind=SpanKind.INTERNAL,
        attributes=attributes,
        links=[trace.Link(around)] if around.is_valid else [],
        # Error texts may be private, as all texts.
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        yield span


@contextmanager
def tool_span(run_id: str, tool: str | None, number: int) -> Iterator[Span]:
    """Start the span of a tool call. `tool` is None if no such tool exists: the name is then text of the model."""
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": f"{run_id}/{number}"}
    if tool is not None:
        attributes["gen_ai.tool.name"] = tool
    with trace.get_tracer("skillserve").start_as_current_span(
        f"execute_tool {tool or ''}".rstrip(),
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        yield span


def record_call(span: Span, call: ToolCall) -> None:
    """Set the result of a tool call on its span."""
    span.set_attribute("skillserve.decision", call.decision.value)
    span.set_attribute("skillserve.confirmed", call.confirmed)
    if call.decision is not CallDecision.DONE:
        span.set_attribute("error.type", call.decision.value)
        # A refused call is the guard at work, not an error.
        if call.decision not in _NOT_EXECUTED:
            span.set_status(Status(StatusCode.ERROR, call.decision.value))


def record_outcome(span: Span, outcome: RunOutcome) -> None:
    """Set the outcome of a run on its span."""
    span.set_attribute("skillserve.status", outcome.status.value)
    span.set_attribute("gen_ai.usage.input_tokens", outcome.usage.input_tokens)
    span.set_attribute("gen_ai.usage.output_tokens", outcome.usage.output_tokens)
    if outcome.score is not None:
        span.set_attribute("gen_ai.evaluation.score.value", outcome.score.overall)
    if outcome.problem is not None:
        span.set_attribute("error.type", outcome.problem.value)
    if outcome.status is not RunStatus.COMPLETED:
        span.set_status(Status(StatusCode.ERROR, outcome.problem.value if outcome.problem else outcome.status.value))
