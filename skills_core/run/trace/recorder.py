"""Writes the trace of a run while the run goes on, so that a killed run leaves a trace too."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from skills_core.guard.secrets import Secrets
from skills_core.run.json_codec import to_json
from skills_core.run.ports import MemoryJournal
from skills_core.run.trace.events import now
from skills_core.run.trace.spans import trace_id

if TYPE_CHECKING:
    from skills_core.format.yaml12 import JsonObject, JsonValue
    from skills_core.run.outcome import ActivatedSkill, RunOutcome
    from skills_core.run.ports import Journal
    from skills_core.run.trace.events import Event, RunHeader
    from skills_core.run.trace.store import TraceStore

__all__ = ["TraceRecorder"]

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
