"""A process that performs runs.

Its one argument is JSON: `store`, `terms`, `start` (a list of kind, name, input, here), and `wait`, the names of runs
whose outcomes it prints before it ends. Without `wait`, it works until its stdin ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import anyio

from skills_core.runs.durable.engine import open_engine
from skills_core.runs.durable.recorded_run import WorkerConfig
from skills_core.runs.durable.store import store_of
from tests.core.runs.durable.jobs import KINDS


async def main(orders: dict[str, Any]) -> None:
    async with open_engine(store_of(orders["store"]), KINDS, WorkerConfig(**orders["terms"])) as engine:
        for kind, run_id, given, here in orders.get("start", []):
            await engine.start(kind, run_id, given, here=here)
        print("ready", flush=True)  # noqa: T201 - the test reads it
        if "wait" not in orders:
            await anyio.to_thread.run_sync(sys.stdin.read)
            return
        outcomes = {run_id: await engine.wait(run_id) for run_id in orders["wait"]}
        print(json.dumps(outcomes), flush=True)  # noqa: T201 - the test reads it


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
