"""Write the trace of a workflow run: its inputs, and the outcome and run of each step."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from skills_core.runs.durable.recorded_run import NESTED_SEPARATOR
from skills_core.runs.json_codec import to_json
from skills_core.runs.outcome import RunStatus
from skills_core.runs.trace.recording import now, trace_id
from skills_core.runs.workflow.model import StepKind

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from skills_core.format.yaml12 import JsonObject, JsonValue
    from skills_core.runs.ports import Journal
    from skills_core.runs.trace.store import TraceStore
    from skills_core.runs.workflow.model import StepRecord, WorkflowOutcome
    from skills_core.runs.workflow.plan import Plan

__all__ = ["WorkflowTrace"]


class WorkflowTrace:
    """The trace of one workflow run, written at its start and end; its steps have traces of their own."""

    def __init__(self, store: TraceStore, journal: Journal, plan: Plan, trigger_reason: str) -> None:
        """Prepare the trace of the journal's run; nothing is written yet."""
        self._store = store
        self._journal = journal
        self._run_id = run_id = journal.run_id
        self._numbers = {step.name: number for number, step in enumerate(plan.workflow.skill_steps, 1)}
        self._trace: JsonObject = {
            "run_id": run_id,
            "trace_id": trace_id(run_id),
            "workflow": plan.workflow.name,
            "digest": plan.workflow.digest,
            "trigger_reason": trigger_reason,
            "inputs": dict(plan.inputs),
            "skills": dict(plan.targets),
            "started": now(),
            "ended": None,
            "status": "running",
        }

    @asynccontextmanager
    async def recording(self) -> AsyncGenerator[Callable[[WorkflowOutcome], None]]:
        """Write the trace when the block starts and when it ends; yield the function that records the outcome.

        Without an outcome, the trace says that the run was interrupted or cancelled.
        """
        # A continued run keeps its first start time.
        self._trace["started"] = await self._journal.step("started", _now)
        if self._journal.epoch is None:
            self._trace["process"] = await anyio.to_thread.run_sync(self._store.presence)
        await anyio.to_thread.run_sync(partial(self._write, first=True))
        try:
            yield self._record
        finally:
            if self._trace["ended"] is None:
                status = RunStatus.INTERRUPTED if self._journal.interrupted else RunStatus.CANCELLED
                self._trace |= {"ended": now(), "status": status.value}
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._write)

    def _record(self, outcome: WorkflowOutcome) -> None:
        fields = {key: value for key, value in to_json(outcome).items() if key not in {"run_id", "workflow", "digest"}}
        self._trace |= {**fields, "ended": now(), "steps": [self._step(step) for step in outcome.steps]}

    def _step(self, step: StepRecord) -> JsonObject:
        fields = {key: value for key, value in to_json(step).items() if key != "outcome"}
        has_run = step.kind is StepKind.SKILL and step.outcome is not None
        return {**fields, "run": f"{self._run_id}{NESTED_SEPARATOR}{self._numbers[step.name]}" if has_run else None}

    def _write(self, *, first: bool = False) -> None:
        if not self._journal.fenced:
            self._store.try_write(self._run_id, self._trace, self._journal.epoch, first=first)


async def _now() -> JsonValue:
    return now()
