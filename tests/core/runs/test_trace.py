from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace as telemetry
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from skills_core.runs.journal import Epoch
from skills_core.runs.trace import FencedTraceError, TraceStore, UnknownTraceError, UnreadableTraceError, epoch_of
from skills_core.testing import Call, ScriptedModel
from tests.core.runs.test_executor import RUN_ID, MakeRun, make_run, tool

__all__ = ["make_run"]


@pytest.fixture(scope="session")
def _exporter() -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry.set_tracer_provider(provider)  # which a process can do once
    return exporter


@pytest.fixture
def spans(_exporter: InMemorySpanExporter) -> InMemorySpanExporter:
    _exporter.clear()
    return _exporter


async def test_a_trace_holds_each_call_of_the_model_and_of_tools_with_decision_and_digest(
    make_run: MakeRun, tmp_path: Path
) -> None:
    store = TraceStore(tmp_path / "runs")
    model = ScriptedModel([Call("read_file", {"path": "a"}), Call("read_file", {"path": "/etc/x"})], "done")
    run = make_run(model, fields="danger_patterns: ['/etc/']", tools=(tool("read_file"),), store=store, message="now")
    outcome = await run()
    told: Any = store.read(RUN_ID)
    assert (told["run_id"], told["trace_id"], told["skill"], told["request"]) == (RUN_ID, RUN_ID, "doer", "now")
    assert told["digest"] == outcome.digest
    assert (told["status"], told["output"]) == ("completed", "done")
    assert [event["kind"] for event in told["events"]] == ["model", "tool", "tool", "model"]
    assert told["events"][0]["wanted"] == ["read_file", "read_file"]
    assert [event["call"]["decision"] for event in told["events"][1:3]] == ["done", "denied"]
    assert "/etc/" in told["events"][2]["call"]["reason"]


async def test_a_run_is_one_trace_of_spans_with_its_own_trace_id(
    make_run: MakeRun, spans: InMemorySpanExporter
) -> None:
    model = ScriptedModel(Call("read_file", {"path": "secret text"}), Call("nothing"), "done")
    await make_run(model, tools=(tool("read_file"),))()
    finished = {span.name: span for span in spans.get_finished_spans()}
    assert {"invoke_agent doer", "execute_tool read_file", "execute_tool", "chat scripted"} <= finished.keys()
    assert {f"{span.context.trace_id:032x}" for span in spans.get_finished_spans() if span.context} == {RUN_ID}
    run = finished["invoke_agent doer"]
    assert run.context
    for name in ("execute_tool read_file", "chat scripted"):
        parent = finished[name].parent
        assert parent
        assert parent.span_id == run.context.span_id
    attributes: Any = finished["execute_tool"].attributes
    assert attributes["skillserve.decision"] == "unknown_tool"
    assert "gen_ai.tool.name" not in attributes
    assert "secret text" not in "".join(span.to_json() for span in spans.get_finished_spans())


def test_only_the_user_can_read_a_trace(tmp_path: Path) -> None:
    store = TraceStore(tmp_path / "state" / "runs")
    store.write("a1", {"x": "\ud800"})
    assert store.read("a1")
    if sys.platform != "win32":
        assert stat.S_IMODE((tmp_path / "state" / "runs").stat().st_mode) == 0o700
        assert stat.S_IMODE((tmp_path / "state" / "runs" / "a1.json").stat().st_mode) == 0o600


def test_pruning_removes_partial_traces_and_keeps_what_cannot_be_removed(tmp_path: Path) -> None:
    store = TraceStore(tmp_path)
    for run_id in ("a", "b"):
        store.write(run_id, {})
    (tmp_path / "old.json").mkdir()
    for name, age in (("c.1.half", 7200), ("d.2.half", 0)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    store.prune(0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.2.half", "old.json"]


def test_two_writers_of_one_trace_do_not_disturb_each_other(tmp_path: Path) -> None:
    store = TraceStore(tmp_path)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: store.write("a", {"n": number}), range(200)))
    assert store.read("a")["n"] in range(200)
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_the_run_that_was_written_last_comes_first_and_old_ones_are_removed(tmp_path: Path) -> None:
    store = TraceStore(tmp_path)
    for number in range(5):
        store.write(f"run-{number}", {"number": number})
    store.write("run-1", {"number": 1})
    assert store.run_ids()[0] == "run-1"
    store.prune(2)
    assert store.run_ids() == ["run-1", "run-4"]


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", "a\\b", "/etc/passwd", "a\0b", "x" * 200, ".hidden", "none"])
def test_an_invalid_run_id_has_no_trace(tmp_path: Path, name: str) -> None:
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(UnknownTraceError):
        TraceStore(tmp_path / "runs").read(name)


def test_a_temporarily_unreadable_trace_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = TraceStore(tmp_path)
    store.write("a", {"n": 2}, Epoch(1, 2))
    get = os.stat

    def failing(path: Any, **named: Any) -> os.stat_result:
        if Path(path).name == "a.json":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return get(path, **named)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", failing)
        with pytest.raises(OSError, match="cannot be read"):
            store.write("a", {"n": 1}, Epoch(1, 1))
        with pytest.raises(UnreadableTraceError, match=r"the run a cannot be read: .*cannot be read"):
            store.read("a")
    assert store.read("a")["n"] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("content", ["", "[]", "{", "[" * 100_000])
def test_a_file_that_is_not_a_trace_is_not_listed(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(UnknownTraceError):
        TraceStore(tmp_path).read("a")


def test_an_earlier_attempt_does_not_replace_the_trace_of_a_later_one(tmp_path: Path) -> None:
    store = TraceStore(tmp_path)
    store.begin("a", {"n": 1}, Epoch(7, 1))
    store.begin("a", {"n": 2}, Epoch(7, 2))
    with pytest.raises(FencedTraceError):
        store.write("a", {"n": 1}, Epoch(7, 1))
    store.write("a", {"n": 3}, Epoch(7, 2))
    assert (store.read("a")["n"], epoch_of(store.read("a"))) == (3, Epoch(7, 2))
    # Another record of the same name begins to count anew.
    store.begin("a", {"n": 4}, Epoch(8, 1))
    assert store.read("a")["n"] == 4
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("stops", ["before it compares", "after it compared"])
@pytest.mark.parametrize("meanwhile", ["begin", "begin and write"])
def test_a_writer_suspended_during_a_takeover_replaces_nothing_when_it_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stops: str, meanwhile: str
) -> None:
    store = TraceStore(tmp_path)
    store.begin("a", {"n": 1}, Epoch(7, 1))
    store.begin("a.1", {"n": "inner"}, Epoch(7, 1))
    compare, is_behind = TraceStore._is_superseded, []

    def stopped(self: TraceStore, run_id: str, epoch: Epoch) -> bool:
        monkeypatch.setattr(TraceStore, "_is_superseded", compare)
        found = compare(self, run_id, epoch) if stops == "after it compared" else None
        store.begin("a", {"n": 2}, Epoch(7, 2))
        if meanwhile == "begin and write":
            store.write("a", {"n": 2}, Epoch(7, 2))
        is_behind.append(found)
        return compare(self, run_id, epoch) if found is None else found

    monkeypatch.setattr(TraceStore, "_is_superseded", stopped)
    with pytest.raises(FencedTraceError):
        store.write("a", {"n": "stale"}, Epoch(7, 1))
    assert is_behind == [False if stops == "after it compared" else None]
    assert store.read("a")["n"] == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.1.json", "a.json"]


HOLD = """
import sys
from pathlib import Path
from skills_core.runs.trace import TraceStore
print(TraceStore(Path(sys.argv[1])).presence(), flush=True)
sys.stdin.read()
"""


def test_a_process_is_present_until_it_ends_in_any_way(tmp_path: Path) -> None:
    store = TraceStore(tmp_path / "runs")
    mine = store.presence()
    assert mine is not None
    assert (mine == store.presence(), store.is_present(mine)) == (True, True)
    command = [sys.executable, "-c", HOLD, str(tmp_path / "runs")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        theirs = process.stdout.readline().strip()
        assert store.is_present(theirs)
        process.kill()
        process.wait()
    assert not store.is_present(theirs)
    assert not store.is_present("../runs")
