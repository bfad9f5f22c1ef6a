"""A process that keeps time and notes each run that it performs in a file: `STATE RUNS NOTES [KILL_AFTER]`.

With `KILL_AFTER`, it kills itself in the middle of the firing with this number. The variable `FIRING_SETTINGS` has its
settings as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from server.capabilities.schedules.firing import KIND
from server.capabilities.schedules.keeper import TimeKeeper
from server.capabilities.schedules.store import ScheduleStore
from skills_core.runs.durable.engine import open_engine
from skills_core.runs.durable.recorded_run import WorkerConfig
from skills_core.runs.durable.store import store_of
from skills_core.runs.journal import Journal
from tests.server.settings import make_settings


def note(file: Path, text: str) -> None:
    with file.open("a", encoding="utf-8") as opened:
        opened.write(f"{text}\n")


async def main(state: str, runs: str, notes: str, kill_after: int = 0) -> None:
    began = 0

    async def job(journal: Journal, given: dict[str, Any]) -> dict[str, Any]:
        nonlocal began

        async def work() -> None:
            await anyio.to_thread.run_sync(note, Path(notes), given["trigger"])

        began += 1
        if began == kill_after:
            os.kill(os.getpid(), signal.SIGKILL)
        await journal.step("note", work)
        return {"status": "completed", "problem": None, "message": "", "output": ""}

    # One run at a time: a step of another run that is killed before it is recorded would be repeated.
    at_once = 1 if kill_after else 20
    config = WorkerConfig(pool="schedule-tests", beat_seconds=0.2, grace_seconds=2, at_once=at_once)
    async with open_engine(store_of(runs), {KIND: job}, config) as engine:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        settings = make_settings(**json.loads(os.environ.get("FIRING_SETTINGS", "{}")))
        await TimeKeeper(ScheduleStore(Path(state)), engine, settings).run()


if __name__ == "__main__":
    state, runs, notes, *more = sys.argv[1:]
    anyio.run(main, state, runs, notes, int(more[0]) if more else 0)
