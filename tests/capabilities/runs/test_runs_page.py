"""The runs on the page: for operators alone, whatever a trace contains, and without secrets."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("dbos", reason="the extra `run` is not installed")

from server.capabilities.runs import page as runs_page
from server.config.machine import state_home
from skills_core.runs.durable.engine import open_engine
from skills_core.runs.durable.store import store_of
from tests.capabilities.web.operators import HOSTILE, VISIBLY_HOSTILE, act, is_safe, let_in
from tests.capabilities.web.test_catalog import page
from tests.conftest import MakeSkill
from tests.server.serving import serving

EVENTS: list[dict[str, Any]] = [
    {"kind": "model", "at": "2026-11-27T10:00:00+00:00", "seconds": 2.0, "text": "Hm.", "wanted": ["grep"]},
    {
        "kind": "tool",
        "at": "2026-11-27T10:00:02+00:00",
        "call": {"number": 1, "tool": "grep", "arguments": {"for": "x"}, "decision": "denied", "seconds": 1.5},
    },
    {"kind": "score", "at": "2026-11-27T10:00:04+00:00", "attempt": 1, "score": {"overall": 0.5, "criteria": []}},
]
TRACE: dict[str, Any] = {
    "skill": "one",
    "model": "http://127.0.0.1:9/v1#big",
    "started": "2026-11-27T10:00:00+00:00",
    "ended": "2026-11-27T10:00:10+00:00",
    "status": "completed",
    "usage": {"requests": 1, "input_tokens": 1_000_000, "output_tokens": 0},
    "output": "Done.",
    "request": "Do it.",
    "events": EVENTS,
}


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def write(run_id: str = "a-run", **more: Any) -> None:
    """Write a trace as it is, even one that no run would write."""
    folder = state_home() / "runs"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{run_id}.json").write_text(json.dumps({**TRACE, "run_id": run_id, **more}), encoding="utf-8")


async def test_only_operators_see_runs(skills: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write()
    async with serving(skills) as served:
        assert (await page(served, "/page/runs")).status_code == 404
        assert (await page(served, "/page/runs?run=a-run")).status_code == 404
        assert "/page/runs" not in (await page(served)).text
        let_in(monkeypatch)
        assert (await page(served, "/page/runs")).status_code == 200
        assert 'href="/page/runs"' in (await page(served)).text
        assert (await page(served, "/page/runs?run=none")).status_code == 404
        assert (await page(served, "/page/runs?run=../../etc/passwd")).status_code == 404


async def test_the_list_has_the_latest_first_with_time_and_cost_page_by_page(
    skills: Path, make_skill: MakeSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill("one")
    monkeypatch.setattr(runs_page, "PAGE_SIZE", 2)
    let_in(monkeypatch)
    for number in range(3):
        write(f"run-{number}", started=f"2026-11-27T10:00:0{number}+00:00")
    prices = {"http://127.0.0.1:9/v1#big": {"input": 3.0, "output": 15.0}}
    async with serving(skills, run_prices=prices) as served:
        first = (await page(served, "/page/runs")).text
        second = (await page(served, "/page/runs?page=2")).text
    assert re.findall(r"run=(run-\d)", first) == ["run-2", "run-1"]
    assert re.findall(r"run=(run-\d)", second) == ["run-0"]
    assert "$3.00" in first
    assert "1,000,000" in first
    assert "8.0 s" in first


async def test_an_unknown_price_is_not_zero(skills: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_in(monkeypatch)
    write()
    async with serving(skills) as served:
        text = (await page(served, "/page/runs")).text
    assert "$" not in text
    assert "<td>—</td>" in text


async def test_a_trace_is_a_timeline(skills: Path, make_skill: MakeSkill, monkeypatch: pytest.MonkeyPatch) -> None:
    make_skill("one")
    let_in(monkeypatch)
    write()
    async with serving(skills) as served:
        text = (await page(served, "/page/runs?run=a-run")).text
    bars = re.findall(r'<rect x="([\d.]+)" width="([\d.]+)"', text)
    assert bars == [("0.0", "20.0"), ("20.0", "15.0"), ("40.0", "0.6")]
    assert "at 2.0 s, took 1.5 s" in text
    assert ">denied<" in text
    assert "style=" not in text
    assert 'href="/page/skill/one"' in text


async def test_a_workflow_has_the_times_of_its_steps(skills: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_in(monkeypatch)
    steps = [
        {"name": "first", "kind": "skill", "status": "done", "output": "x", "run": "flow.1"},
        {"name": "second", "kind": "skill", "status": "failed", "run": "flow.2"},
        {"name": "third", "kind": "condition", "status": "not_reached", "run": None},
    ]
    write("flow", skill=None, workflow="daily", events=[], steps=steps)
    write("flow.1", started="2026-11-27T10:00:05+00:00", ended="2026-11-27T10:00:07+00:00")
    async with serving(skills) as served:
        text = (await page(served, "/page/runs?run=flow")).text
    assert "at 5.0 s, took 2.0 s" in text
    assert 'href="/page/runs?run=flow.1"' in text
    assert "no trace of a run" in text
    assert ">not reached<" in text


async def test_long_texts_and_long_traces_are_cut_and_say_so(skills: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_in(monkeypatch)
    event = {**EVENTS[0], "text": "x" * 50_000}
    write(events=[event] * (runs_page.MAX_STEPS + 5), output="y" * 50_000)
    async with serving(skills) as served:
        text = (await page(served, "/page/runs?run=a-run")).text
    assert text.count("x" * 2000) == runs_page.MAX_STEPS
    assert "of 50,000 characters" in text
    assert "5 later steps not shown" in text


@pytest.mark.parametrize("content", ["{", "[]", ""])
async def test_a_damaged_trace_is_said_and_hides_no_other(
    content: str, skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_in(monkeypatch)
    write()
    (state_home() / "runs/broken.json").write_text(content)
    async with serving(skills) as served:
        shown = (await page(served, "/page/runs")).text
        alone = await page(served, "/page/runs?run=broken")
    assert "a-run" in shown
    assert "broken cannot be read" in shown
    assert alone.status_code == 200
    assert "broken cannot be read" in alone.text


ODD: list[Any] = [HOSTILE, 7, -1.5, True, None, [], {}, [HOSTILE, 3, None], {"a": HOSTILE}, math.nan, "9" * 50]


def with_each_value_replaced(value: Any, odd: Any) -> Any:
    """Return a trace in which each field of each object is `odd` where it is not itself an object or a list."""
    if isinstance(value, dict):
        return {key: each if key == "kind" else with_each_value_replaced(each, odd) for key, each in value.items()}
    return [with_each_value_replaced(each, odd) for each in value] if isinstance(value, list) else odd


@pytest.mark.parametrize("odd", ODD, ids=repr)
async def test_a_trace_of_strangers_is_text(odd: Any, skills: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_in(monkeypatch)
    more = {"steps": [{"name": "a", "kind": "skill", "status": "done", "run": "x"}], "inputs": {"a": "b"}}
    more |= {"activated_skills": [{"skill": "x", "origin": "called"}], "parameters": {"a": "b"}, "problem": "p"}
    whole = {**TRACE, **more, "message": "m", "score": {"overall": 1}, "trigger_reason": "t", "digest": "d"}
    write("deep", **with_each_value_replaced(whole, odd))
    write("flat", **dict.fromkeys(whole, odd))
    async with serving(skills) as served:
        for path in ("/page/runs", "/page/runs?run=deep", "/page/runs?run=flat"):
            shown = await page(served, path)
            assert shown.status_code == 200
            assert is_safe(shown.text)


async def test_secrets_of_the_settings_are_redacted(skills: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_in(monkeypatch)
    secret = "sesame-opens-everything"  # noqa: S105 - of nothing
    write(output=f"It is {secret}.", request=secret, trigger_reason=secret)
    async with serving(skills, model_key=secret) as served:
        text = (await page(served, "/page/runs")).text + (await page(served, "/page/runs?run=a-run")).text
    assert secret not in text
    assert "[secret " in text


async def test_a_record_that_cannot_be_used_is_said(
    skills: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_in(monkeypatch)
    write()
    (tmp_path / "runs.sqlite").write_text("no database" * 100)
    async with serving(skills, run_store=str(tmp_path / "runs.sqlite")) as served:
        text = (await page(served, "/page/runs")).text
    assert "may be outdated" in text
    assert "a-run" in text


async def test_who_may_change_something_cancels_runs(
    skills: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = str(tmp_path / "runs.sqlite")
    begun = anyio.Event()

    async def job(journal: Any, given: Any) -> Any:
        del journal, given
        begun.set()
        await anyio.sleep_forever()

    async with open_engine(store_of(store), {"skill": job}) as engine:
        given: Any = {"skill": "one", "digest": None, "parameters": {}, "message": None}
        await engine.start("skill", "waits", given, here=True)
        await begun.wait()
    let_in(monkeypatch)
    async with serving(skills, run_store=store) as served:
        assert "cancel_run" not in (await page(served, "/page/runs?run=waits")).text
        assert (await act(served, "cancel_run", run="waits")).status_code == 403
        let_in(monkeypatch, may_change=True)
        assert "cancel_run" in (await page(served, "/page/runs?run=waits")).text
        done = await act(served, "cancel_run", run="waits", back="/page/runs?run=waits")
        again = (await page(served, "/page/runs?run=waits")).text
        unknown = await act(served, "cancel_run", run=VISIBLY_HOSTILE)
    assert done.status_code == 200
    assert 'href="/page/runs?run=waits"' in done.text
    assert ">cancelled<" in again
    assert "cancel_run" not in again
    assert unknown.status_code == 409
    assert is_safe(unknown.text)
