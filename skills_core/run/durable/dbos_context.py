"""Calls of dbos from within its runs that are no part of them.

dbos knows by the context that a run or a step is under way. Within a run it records such a call as a step, and within a
step it starts nothing.
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
    """Do work that dbos does not count to the run or step that is under way."""
    return await asyncio.create_task(work, context=Context())


async def status_row(run_id: str) -> WorkflowStatus | None:
    """Return what is recorded of a run but its input and outcome, None where there is none of this name."""

    async def get() -> WorkflowStatus | None:
        rows = await DBOS.list_workflows_async(workflow_ids=[run_id], load_input=False, load_output=False)
        return rows[0] if rows else None

    return await outside_workflow(get())
