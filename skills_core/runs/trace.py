"""Traces of runs: a JSON file a run for people, written while the run goes on, and OpenTelemetry spans for collectors.

A killed run leaves a trace too, which only its user can read. pydantic-ai adds the spans of requests to models. Names
and attributes follow OpenTelemetry's semantic conventions for generative AI. The trace ID is derived from the run ID,
so that either leads to the other. Spans contain no texts, which may be private; the JSON file has them.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import anyio
import anyio.to_thread
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from skills_core.diagnostics import printable
from skills_core.disk.files import read_bounded
from skills_core.disk.writing import InvalidJsonError, parse_json
from skills_core.errors import FileRefusedError, FileUnavailableError, SkillsError, system_message
from skills_core.guard.tool import CallDecision, Secrets, ToolCall
from skills_core.runs.durable.recorded_run import root_run_id
from skills_core.runs.durable.store import FileLease, is_held
from skills_core.runs.journal import Epoch, MemoryJournal, to_json
from skills_core.runs.outcome import NO_USAGE, UNKNOWN_TRIGGER, ActivatedSkill, RunStatus, Score, Usage

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from skills_core.format.yaml12 import JsonObject, JsonValue
    from skills_core.runs.journal import Journal
    from skills_core.runs.outcome import RunOutcome


logger = logging.getLogger(__name__)

MAX_SIZE = 64 * 1024 * 1024
"""Largest trace that is read, in bytes."""

_EPOCH_FIELD = "epoch"
# The field of a trace that holds the fencing token of its attempt.

_PARTIAL_SUFFIX = ".half"
# Files that are being written.

_STALE_AFTER = 3600 * 10**9
# Nanoseconds after which a partial file counts as abandoned.

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class UnknownTraceError(SkillsError):
    """There is no trace of this run."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"There is no trace of a run {run_id[:130]!r} here.")


class UnreadableTraceError(UnknownTraceError):
    """The trace of the run exists but cannot be read."""

    def __init__(self, run_id: str, why: str) -> None:
        super().__init__(run_id)
        self.args = (f"The trace of the run {run_id} cannot be read: {why}.",)


class FencedTraceError(SkillsError):
    """The trace belongs to a later attempt, by a worker that took over the run."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"The trace of run {run_id[:130]} is left alone: another worker performs the run now.")


def epoch_of(trace: Mapping[str, JsonValue]) -> Epoch | None:
    """Return the fencing token of the attempt that wrote a trace, None if it has none."""
    match trace.get(_EPOCH_FIELD):
        case {"recorded": int(recorded), "attempt": int(attempt)}:
            return Epoch(recorded, attempt)
    return None


class TraceStore:
    """The traces in one folder."""

    def __init__(self, folder: Path) -> None:
        """Use `folder`, which is created when the first trace is written."""
        self._folder = folder
        self._presence: FileLease | None = None

    def presence(self) -> str | None:
        """Return a name by which other processes can check whether this one is alive; None if it cannot lock a file.

        Recorded runs have a worker for that; the trace of any other run carries this name.
        """
        with suppress(OSError):
            if self._presence is None:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._presence = FileLease(self._folder)  # locked until the process ends
            return self._presence.worker
        return None

    def is_present(self, name: str) -> bool:
        """Tell whether the process with this presence name is alive."""
        return is_held(self._folder, name)

    def write(self, run_id: str, trace: Mapping[str, JsonValue], epoch: Epoch | None = None) -> None:
        """Write a trace atomically, replacing an earlier one of the same run.

        With an `epoch`, the trace records it, and never replaces the trace of a later attempt.

        Raises:
            FencedTraceError: a later attempt has written its trace.
            OSError: the trace cannot be written.
        """
        self._path(run_id)  # validates the run id before a file is created
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        whole = trace if epoch is None else {**trace, _EPOCH_FIELD: to_json(epoch)}
        descriptor, name = tempfile.mkstemp(_PARTIAL_SUFFIX, f"{run_id}.", self._folder)
        half = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
                json.dump(whole, file, ensure_ascii=False, indent=1)
            self._publish(half, run_id, epoch)
        except (OSError, FencedTraceError):
            half.unlink(missing_ok=True)
            raise

    def begin(self, run_id: str, trace: Mapping[str, JsonValue], epoch: Epoch | None = None) -> None:
        """Write the first trace of an attempt at a run, so that no earlier attempt can replace it from now on.

        An earlier attempt, in a suspended process, may have written its partial file and passed the comparison before
        this trace existed, and would still replace it. So its partial files are removed, and the trace is written
        again if it was replaced meanwhile.

        Raises:
            FencedTraceError: a later attempt has written its trace.
            OSError: the trace cannot be written.
        """
        self.write(run_id, trace, epoch)
        if epoch is None:
            return
        for half in self._partial_files(run_id):
            with suppress(OSError):  # it is gone, or the system keeps open files
                half.unlink()
        if epoch_of(self._content(run_id)) != epoch:
            self.write(run_id, trace, epoch)

    def try_write(
        self, run_id: str, trace: Mapping[str, JsonValue], epoch: Epoch | None = None, *, first: bool = False
    ) -> None:
        """Write a trace, the `first` of its attempt or a later one; log failures, as a full disk must not end a run."""
        try:
            (self.begin if first else self.write)(run_id, trace, epoch)
        except FencedTraceError as error:
            logger.warning("%s", error)
        except OSError as error:
            logger.warning("the trace of run %s cannot be written: %s", run_id, error)

    def _publish(self, half: Path, run_id: str, epoch: Epoch | None) -> None:
        # Compare once the partial file exists: a later attempt that begins from now on removes it.
        if epoch is not None and self._is_superseded(run_id, epoch):
            raise FencedTraceError(run_id)
        try:
            half.replace(self._path(run_id))
        except FileNotFoundError:
            raise FencedTraceError(run_id) from None

    def _is_superseded(self, run_id: str, epoch: Epoch) -> bool:
        there = epoch_of(self._content(run_id))
        return there is not None and there.recorded == epoch.recorded and there.attempt > epoch.attempt

    def _content(self, run_id: str) -> JsonObject:
        """Return the stored trace; empty if it is missing or damaged.

        Raises:
            OSError: it cannot be read now, so it may belong to a later attempt.
        """
        try:
            return self.read(run_id)
        except UnknownTraceError as error:
            if isinstance(error.__cause__, FileUnavailableError):
                raise OSError(error.__cause__.message) from error
            return {}

    def _partial_files(self, run_id: str) -> Iterator[Path]:
        """Yield the partial files of this run, without those of nested runs."""
        mine = re.compile(rf"{re.escape(run_id)}\.[^.]+{re.escape(_PARTIAL_SUFFIX)}")
        yield from (path for path in list(self._folder.iterdir()) if mine.fullmatch(path.name))

    def read(self, run_id: str) -> JsonObject:
        """Return the trace of a run.

        Raises:
            UnknownTraceError: there is none.
            UnreadableTraceError: its file cannot be read, or holds no trace.
        """
        path = self._path(run_id)
        try:
            raw = read_bounded(path, MAX_SIZE)
        except FileRefusedError as error:
            raise UnreadableTraceError(run_id, str(error)) from error
        if raw is None:
            raise UnknownTraceError(run_id)
        try:
            trace = parse_json(raw, str(path))
        except InvalidJsonError as error:
            raise UnreadableTraceError(run_id, f"{path}: the file is not JSON") from error
        if not isinstance(trace, dict):
            raise UnreadableTraceError(run_id, f"{path}: expected a JSON object")
        return {**trace, "run_id": run_id}

    def run_ids(self) -> list[str]:
        """Return the ids of the runs with traces, the last written first.

        Raises:
            OSError: the folder of traces cannot be read.
        """
        return [path.stem for _, path in sorted(self._files(), reverse=True)]

    def readable(self, unreadable: Callable[[str], None]) -> dict[str, JsonObject]:
        """Return all traces, the last written first; call `unreadable` with a message for each that cannot be read."""
        traces: dict[str, JsonObject] = {}
        try:
            run_ids = self.run_ids()
        except OSError as error:
            unreadable(f"{printable(str(self._folder))}: traces cannot be read: {system_message(error)}.")
            return traces
        for run_id in run_ids:
            try:
                traces[run_id] = self.read(run_id)
            except UnreadableTraceError as error:
                unreadable(str(error))
            except UnknownTraceError:
                continue  # it has just been removed
        return traces

    def prune(self, keep: int) -> None:
        """Remove all traces but the `keep` last written, and partial files of killed processes.

        Files that cannot be removed stay.
        """
        abandoned = time.time_ns() - _STALE_AFTER
        with suppress(OSError):
            left = [path for written, path in self._files(_PARTIAL_SUFFIX) if written < abandoned]
            for path in (*left, *(path for _, path in sorted(self._files(), reverse=True)[keep:])):
                with suppress(OSError):
                    path.unlink()

    def _files(self, suffix: str = ".json") -> Iterator[tuple[int, Path]]:
        with suppress(FileNotFoundError):
            for path in list(self._folder.iterdir()):
                if path.suffix == suffix and _RUN_ID.fullmatch(path.stem):
                    with suppress(FileNotFoundError):
                        yield path.stat().st_mtime_ns, path

    def _path(self, run_id: str) -> Path:
        if not _RUN_ID.fullmatch(run_id):
            raise UnknownTraceError(run_id)
        return self._folder / f"{run_id}.json"


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
class OutputScored:
    """The score of an output; `error` says why there is none."""

    at: str
    attempt: int
    score: Score | None
    error: str | None = None
    kind: str = "score"


Event: TypeAlias = "ModelCalled | ToolCalled | OutputScored"


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
