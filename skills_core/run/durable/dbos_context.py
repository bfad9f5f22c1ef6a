"""Calls dbos from inside a run without making the call part of the run.

dbos keeps the current run and step in context variables. Inside a run it would record such a call as a step, and inside
a step it would start nothing.
"""

from __future__ import annotations

import asyncio
from contextvars import Context
from typing import TYPE_CHECKING, TypeVar

from dbos import DBOS

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from dbos import WorkflowStatus

__all__ = ["outside_workflow", "status_row"]

T = TypeVar("T")


async def outside_workflow(work: Coroutine[None, None, T]) -> T:
    """Await `work` in an empty context, so that dbos does not attribute it to the current run or step."""
    return await asyncio.create_task(work, context=Context())


async def status_row(run_id: str) -> WorkflowStatus | None:
    """Return the row of a run without its input and outcome, None if no run has this id."""

    async def get() -> WorkflowStatus | None:
        rows = await DBOS.list_workflows_async(workflow_ids=[run_id], load_input=False, load_output=False)
        return rows[0] if rows else None

    return await outside_workflow(get())
