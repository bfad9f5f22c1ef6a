"""A trace without a record: what its run came to when its process is gone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("dbos", reason="the extra `run` is not installed")

from server.run.overview import RunOverview
from skills_core.run.trace.store import TraceStore
from tests.core.run.test_trace import HOLD


def test_a_run_that_is_not_recorded_is_interrupted_when_its_process_is_gone(tmp_path: Path) -> None:
    store = TraceStore(tmp_path / "runs")
    command = [sys.executable, "-c", HOLD, str(tmp_path / "runs")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        begun = {"started": "2026-01-01", "process": name}
        store.write("begun", {"run_id": "begun", "status": "running", **begun})
        store.write("ended", {"run_id": "ended", "status": "completed", **begun})
        overview = RunOverview(store, None)
        assert overview.shown("begun")["status"] == "running"
        process.kill()
        process.wait()
    assert {each["run_id"]: each["status"] for each in overview.listed(pytest.fail)} == {
        "begun": "interrupted",
        "ended": "completed",
    }
    assert overview.shown("begun")["problem"] == "interrupted"
    assert not overview.cancel("begun").cancelled
