"""Listing runs whose trace or record is missing, invalid or unreadable."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("dbos", reason="the extra `run` is not installed")

from server.capabilities.runs.execution import read_summaries
from server.capabilities.runs.run_list import RunList
from skills_core.runs.durable.client import open_client
from skills_core.runs.durable.engine import open_engine
from skills_core.runs.durable.store import store_of
from skills_core.runs.trace import TraceStore
from tests.core.runs.test_trace import HOLD


def test_an_unrecorded_run_is_interrupted_when_its_process_has_ended(tmp_path: Path) -> None:
    store = TraceStore(tmp_path / "runs")
    command = [sys.executable, "-c", HOLD, str(tmp_path / "runs")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        begun = {"started": "2026-01-01", "process": name}
        store.write("begun", {"run_id": "begun", "status": "running", **begun})
        store.write("ended", {"run_id": "ended", "status": "completed", **begun})
        run_list = RunList(store, None)
        assert run_list.get("begun", pytest.fail)["status"] == "running"
        process.kill()
        process.wait()
    assert {each["run_id"]: each["status"] for each in run_list.all(pytest.fail)} == {
        "begun": "interrupted",
        "ended": "completed",
    }
    assert run_list.get("begun", pytest.fail)["problem"] == "interrupted"
    assert not run_list.cancel("begun").cancelled


INVALID = {
    "no JSON": "{",
    "a list": "[]",
    "nothing": "",
    "no fields": "{}",
    "other fields": '{"format": 99, "state": "new"}',
    "other values": '{"run_id": "other", "status": 5, "epoch": ["a"], "events": 7, "started": 4, "process": 7}',
}


@pytest.mark.parametrize("content", INVALID.values(), ids=[*INVALID])
async def test_a_recorded_run_is_shown_whatever_its_trace_contains(content: str, tmp_path: Path) -> None:
    url, traces = str(tmp_path / "record" / "runs.sqlite"), tmp_path / "runs"
    begun = anyio.Event()

    async def job(journal: Any, given: Any) -> Any:
        del journal, given
        begun.set()
        await anyio.sleep_forever()

    async with open_engine(store_of(url), {"skill": job}) as engine:
        given: Any = {"skill": "one", "digest": None, "parameters": {}, "message": None}
        await engine.start("skill", "one", given, here=True)
        await begun.wait()
    traces.mkdir()
    (traces / "one.json").write_text(content)
    (traces / "unrecorded.json").write_text(content)
    messages: list[str] = []
    with open_client(store_of(url)) as client:
        run_list = RunList(TraceStore(traces), client)
        listed = {each["run_id"]: each for each in run_list.all(messages.append)}
        assert listed["one"]["status"] == run_list.get("one", messages.append)["status"] == "interrupted"
        assert run_list.cancel("one").cancelled
        assert run_list.get("one", messages.append)["status"] == "cancelled"
    is_trace = content.endswith("}")
    assert ("unrecorded" in listed) == is_trace
    assert {str(traces / "one.json") in each for each in messages if "one.json" in each} == (
        set() if is_trace else {True}
    )
    assert bool(messages) != is_trace


@pytest.mark.parametrize(
    "record", ["no database" * 100, "postgresql://me:secret@127.0.0.1:1/x", "mysql://me:secret@h/x"]
)
def test_an_unreadable_record_is_not_treated_as_empty(
    record: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if "://" not in record:
        (tmp_path / "runs.sqlite").write_text(record)
        record = str(tmp_path / "runs.sqlite")
    monkeypatch.setenv("SKILLSERVE_RUN_STORE", record)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert read_summaries() == []
    message = capsys.readouterr().err
    assert "cannot be" in message
    assert "secret" not in message


def test_unreadable_traces_are_not_treated_as_absent(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("no folder")
    messages: list[str] = []
    assert RunList(TraceStore(tmp_path / "runs"), None).all(messages.append) == []
    assert str(tmp_path / "runs") in messages[0]
