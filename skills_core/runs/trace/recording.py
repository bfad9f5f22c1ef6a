"""Record a run while it goes on: its events in a JSON file, and spans of OpenTelemetry for it and each tool call.

So a killed run leaves a trace too. pydantic-ai adds the spans of requests to models. Names and attributes follow
OpenTelemetry's semantic conventions for generative AI. The trace id is derived from the run id, so that either leads to
the other. Spans contain no texts, which may be private; the JSON file has them.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import anyio
import anyio.to_thread
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from skills_core.guard.tool import CallDecision, Secrets, ToolCall
from skills_core.runs.durable.recorded_run import root_run_id
from skills_core.runs.json_codec import to_json
from skills_core.runs.outcome import NO_USAGE, UNKNOWN_TRIGGER, ActivatedSkill, RunStatus, Score, Usage
from skills_core.runs.ports import MemoryJournal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opentelemetry.trace import Span

    from skills_core.format.yaml12 import JsonObject, JsonValue
    from skills_core.runs.outcome import RunOutcome
    from skills_core.runs.ports import Journal
    from skills_core.runs.trace.store import TraceStore
    from skills_core.skills.skill import Skill


def now() -> str:
    """Return this moment in UTC, as ISO 8601 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True)
class RunHeader:
    """What is known of a run besides its events. `model` is its name in the settings, `request` the user's message.

    `activated_skills` grows while the run goes on.
    """

    run_id: str
    skill: str
    name: str
    uri: str
    digest: str | None
    model: str
    parameters: Mapping[str, str]
    request: str | None
    started: str = field(default_factory=now)
    activated_skills: tuple[ActivatedSkill, ...] = ()
    trigger_reason: str = UNKNOWN_TRIGGER

    @classmethod
    def of(cls, run_id: str, skill: Skill, model: str, parameters: Mapping[str, str], request: str | None) -> RunHeader:
        """Return the header of a run of `skill`."""
        return cls(run_id, skill.key, skill.name, skill.uri, skill.digest, model, dict(parameters), request)


@dataclass(frozen=True, slots=True)
class ModelCalled:
    """A request to the model: `text` is its answer, `wanted` the tools it calls, `error` why there is no answer."""

    at: str
    seconds: float
    model: str | None = None
    text: str = ""
    wanted: tuple[str, ...] = ()
    finish: str | None = None
    usage: Usage = NO_USAGE
    error: str | None = None
    kind: str = "model"


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """A tool call, executed or refused; `call` holds the decisions of guard and user."""

    at: str
    call: ToolCall
    kind: str = "tool"


@dataclass(frozen=True, slots=True)
class Scored:
    """The score of an output; `error` says why there is none."""

    at: str
    attempt: int
    score: Score | None
    error: str | None = None
    kind: str = "score"


Event: TypeAlias = "ModelCalled | ToolCalled | Scored"


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


MAX_TRACES = 1000
"""Number of traces to keep; older ones are removed when a run ends."""

FINAL_WRITE_SECONDS = 5.0
"""Seconds allowed for writing the end of a run that is being cancelled."""


class TraceRecorder:
    """The trace of one run; without a store it stays in memory."""

    def __init__(
        self,
        header: RunHeader,
        store: TraceStore | None = None,
        secrets: Secrets | None = None,
        journal: Journal | None = None,
    ) -> None:
        """Write nothing before `begin`, and nothing once `journal` is fenced."""
        self.header = header
        self._journal = journal or MemoryJournal(header.run_id)
        self._process: str | None = None
        self._store = store
        self._secrets = secrets or Secrets({})
        self._events: list[JsonValue] = []
        self._outcome: RunOutcome | None = None
        self._ended: str | None = None

    async def begin(self, at: str) -> None:
        """Write the start of the run; a continued run keeps its first start time."""
        self.header = replace(self.header, started=at)
        if self._store is not None and self._journal.epoch is None:
            self._process = await anyio.to_thread.run_sync(self._store.presence)
        await self._write(first=True)

    async def add(self, event: Event) -> None:
        """Add an event, with secrets redacted."""
        self._events.append(self._secrets.redact_json(to_json(event)))
        await self._write()

    def note_activated(self, activated: tuple[ActivatedSkill, ...]) -> None:
        """Replace the list of activated skills, which the next event writes."""
        self.header = replace(self.header, activated_skills=activated)

    async def finish(self, outcome: RunOutcome) -> None:
        """Write the outcome of the run, even while it is being cancelled."""
        self._outcome, self._ended = outcome, now()
        with anyio.CancelScope(shield=True), anyio.move_on_after(FINAL_WRITE_SECONDS):
            await self._write(last=True)

    @property
    def trace(self) -> JsonObject:
        """The current trace, with secrets redacted."""
        outcome = to_json(self._outcome) if self._outcome else {"status": "running"}
        # The header holds run and skill, and the events hold the calls.
        told = {key: value for key, value in outcome.items() if key not in {"run_id", "skill", "digest", "tool_calls"}}
        trace: JsonObject = {
            **to_json(self.header),
            "trace_id": trace_id(self.header.run_id),
            "ended": self._ended,
            **({"process": self._process} if self._process else {}),
            **told,
        }
        redact = self._secrets.redact_json(trace)
        assert isinstance(redact, dict)  # noqa: S101 - it was one
        return {**redact, "events": [*self._events]}

    async def _write(self, *, first: bool = False, last: bool = False) -> None:
        if self._store is None or self._journal.fenced:
            return
        write = partial(self._store.try_write, self.header.run_id, self.trace, self._journal.epoch, first=first)
        # If a disk hangs, only the last write is abandoned; an earlier one could overtake the next.
        await anyio.to_thread.run_sync(write, abandon_on_cancel=last)
        if last:
            await anyio.to_thread.run_sync(self._store.prune, MAX_TRACES, abandon_on_cancel=True)
