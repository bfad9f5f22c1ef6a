"""The trace of a workflow: what it was begun with and what each step came to, with the runs that performed them."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from skills_core.run.durable.worker_config import INSIDE
from skills_core.run.json_codec import to_json
from skills_core.run.outcome import RunStatus
from skills_core.run.trace.events import now
from skills_core.run.trace.spans import trace_id
from skills_core.run.workflow.model import StepKind

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from skills_core.format.yaml12 import JsonValue
    from skills_core.run.ports import Journal, JsonObject
    from skills_core.run.trace.store import TraceStore
    from skills_core.run.workflow.outcome import StepRecord, WorkflowOutcome
    from skills_core.run.workflow.plan import Plan

__all__ = ["WorkflowTrace"]


class WorkflowTrace:
    """Written when a workflow begins and when it ends; its steps have traces of their own."""

    def __init__(self, store: TraceStore, journal: Journal, plan: Plan) -> None:
        """Begin the trace of the run that `journal` keeps; nothing is written yet."""
        self._store = store
        self._journal = journal
        self._run_id = run_id = journal.run_id
        self._numbers = {step.name: number for number, step in enumerate(plan.workflow.skill_steps, 1)}
        self._trace: JsonObject = {
            "run_id": run_id,
            "trace_id": trace_id(run_id),
            "workflow": plan.workflow.name,
            "digest": plan.workflow.digest,
            "inputs": dict(plan.inputs),
            "skills": dict(plan.targets),
            "started": now(),
            "ended": None,
            "status": "running",
        }

    @asynccontextmanager
    async def written(self) -> AsyncGenerator[Callable[[WorkflowOutcome], None]]:
        """Write the trace when the block begins and when it ends.

        The block notes the outcome; where it does not, the run did not end by itself.
        """
        # A run that is continued began when it first did.
        self._trace["started"] = await self._journal.step("started", _this_moment)
        if self._journal.epoch is None:
            self._trace["process"] = await anyio.to_thread.run_sync(self._store.presence)
        await anyio.to_thread.run_sync(partial(self._write, first=True))
        try:
            yield self._note
        finally:
            if self._trace["ended"] is None:
                status = RunStatus.INTERRUPTED if self._journal.interrupted else RunStatus.CANCELLED
                self._trace |= {"ended": now(), "status": status.value}
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._write)

    def _note(self, outcome: WorkflowOutcome) -> None:
        told = {key: value for key, value in to_json(outcome).items() if key not in {"run_id", "workflow", "digest"}}
        self._trace |= {**told, "ended": now(), "steps": [self._step(step) for step in outcome.steps]}

    def _step(self, step: StepRecord) -> JsonObject:
        told = {key: value for key, value in to_json(step).items() if key != "outcome"}
        performed = step.kind is StepKind.SKILL and step.outcome is not None
        return {**told, "run": f"{self._run_id}{INSIDE}{self._numbers[step.name]}" if performed else None}

    def _write(self, *, first: bool = False) -> None:
        if not self._journal.fenced:
            self._store.try_write(self._run_id, self._trace, self._journal.epoch, first=first)


async def _this_moment() -> JsonValue:
    return now()
