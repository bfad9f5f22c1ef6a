"""The schedules on the page: for operators alone, whatever their files contain, and paused by those who may."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from server.capabilities.runs.offered import trace_store
from server.capabilities.schedules import page as schedules_page
from server.capabilities.schedules.allowances import RunRights
from server.capabilities.schedules.binding import ScheduledRun, new_binding
from server.capabilities.schedules.store import ScheduleStore
from skills_core.schedules.when import Every
from tests.capabilities.web.operators import HOSTILE, VISIBLY_HOSTILE, act, is_safe, let_in
from tests.capabilities.web.test_catalog import page
from tests.server.serving import serving

RIGHTS = RunRights(run_tools=("grep",), workspace="/srv/notes", scripts=True)


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def make(short: str = "hello", task: str = "Say hello.", **more: Any) -> str:
    now = datetime.now(UTC)
    when = Every(timedelta(hours=1), now)
    return ScheduleStore().add(short, task, new_binding(when, "UTC", now, rights=RIGHTS, creator="test", **more))


def ran(name: str, *run_ids: str, **more: Any) -> None:
    """Let a schedule have run."""
    at = datetime.now(UTC)
    given: dict[str, Any] = {"fired_at": at, "started_at": at, "ended_at": at, "status": "completed", "trigger": "t"}
    runs = tuple(ScheduledRun(id=each, **{**given, **more}) for each in run_ids)
    ScheduleStore().update(name, lambda binding: structs.replace(binding, runs=runs))


async def test_only_operators_see_schedules(skills: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = make()
    async with serving(skills) as served:
        assert (await page(served, "/page/schedules")).status_code == 404
        assert "/page/schedules" not in (await page(served)).text
        let_in(monkeypatch)
        text = (await page(served, "/page/schedules")).text
    assert name in text
    assert "Say hello." in text
    assert "Every 1 hour" in text
    assert "grep, scripts of skills in /srv/notes" in text
    assert "No budget is set" in text
    assert "does not fire schedules" in text


async def test_the_latest_runs_and_the_last_output_are_shown(skills: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_in(monkeypatch)
    name, runs = make(), [f"run-{number}" for number in range(8)]
    ran(name, *runs, problem="output_cut", message="Too long.")
    trace_store().write("run-7", {"status": "completed", "output": "Hello, all."})
    async with serving(skills) as served:
        text = (await page(served, "/page/schedules")).text
    assert [each for each in runs if f"?run={each}" in text] == runs[3:]
    assert "3 earlier runs" in text
    assert "output cut: Too long." in text
    assert "Hello, all." in text


async def test_an_output_that_is_gone_or_unreadable_is_said(skills: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_in(monkeypatch)
    ran(make("gone"), "gone")
    ran(make("broken"), "broken")
    trace_store().write("broken", {})
    (ScheduleStore().state / "runs/broken.json").write_text("{")
    async with serving(skills) as served:
        text = (await page(served, "/page/schedules")).text
    assert "not on this machine any more" in text
    assert "broken cannot be read" in text


@pytest.mark.parametrize("content", ["{", "[]", '{"version": 1}', "zone", "when"])
async def test_a_damaged_schedule_is_said_and_hides_no_other(
    content: str, skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_in(monkeypatch)
    good, bad = make("good"), make("bad")
    file = ScheduleStore().root / bad / "schedule.json"
    if content in {"zone", "when"}:
        odd = {"zone": "Mars/Base", "when": {"kind": "cron", "expression": "* *"}}[content]
        content = json.dumps({**json.loads(file.read_text()), content: odd})
    file.write_text(content)
    async with serving(skills) as served:
        answer = await page(served, "/page/schedules")
    assert answer.status_code == 200
    assert good in answer.text
    assert f"The schedule {bad} is damaged" in answer.text


async def test_spending_that_cannot_be_read_is_said(skills: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_in(monkeypatch)
    make()
    (ScheduleStore().state / "skills/spending.json").write_text("{")
    async with serving(skills) as served:
        answer = await page(served, "/page/schedules")
    assert answer.status_code == 200
    assert "the spending of schedules cannot be read" in answer.text
    assert "0 tokens" not in answer.text


async def test_texts_of_strangers_are_texts(skills: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_in(monkeypatch, may_change=True)
    name = make(task=VISIBLY_HOSTILE, skill=VISIBLY_HOSTILE, model="x")
    ran(name, VISIBLY_HOSTILE, problem=VISIBLY_HOSTILE, message=VISIBLY_HOSTILE, notice=VISIBLY_HOSTILE)
    odd = {"creator": VISIBLY_HOSTILE, "note": VISIBLY_HOSTILE, "model": VISIBLY_HOSTILE, "skipped": 2}
    odd["rights"] = RunRights(run_tools=(VISIBLY_HOSTILE,), workspace=VISIBLY_HOSTILE)
    ScheduleStore().update(name, lambda binding: structs.replace(binding, **odd))
    ran(make("second"), "second")
    trace_store().write("second", {"output": HOSTILE})
    async with serving(skills) as served:
        answer = await page(served, "/page/schedules")
    assert answer.status_code == 200
    assert is_safe(answer.text)


async def test_a_long_list_comes_page_by_page(skills: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules_page, "PAGE_SIZE", 2)
    let_in(monkeypatch)
    names = sorted(make(short) for short in ("a", "b", "c"))
    async with serving(skills) as served:
        first = (await page(served, "/page/schedules")).text
        second = (await page(served, "/page/schedules?page=2")).text
    assert [name in first for name in names] == [True, True, False]
    assert [name in second for name in names] == [False, False, True]


async def test_who_may_change_something_pauses_and_resumes(skills: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_in(monkeypatch)
    name, store = make(), ScheduleStore()
    async with serving(skills) as served:
        assert "pause_schedule" not in (await page(served, "/page/schedules")).text
        assert (await act(served, "pause_schedule", name=name)).status_code == 403
        assert store.read(name).state == "active"
        let_in(monkeypatch, may_change=True)
        assert "pause_schedule" in (await page(served, "/page/schedules")).text
        assert (await act(served, "pause_schedule", name=name)).status_code == 200
        assert store.read(name).state == "paused"
        assert "resume_schedule" in (await page(served, "/page/schedules")).text
        assert (await act(served, "resume_schedule", name=name)).status_code == 200
        assert store.read(name).state == "active"
        unknown = await act(served, "pause_schedule", name=VISIBLY_HOSTILE)
    assert unknown.status_code == 409
    assert is_safe(unknown.text)
