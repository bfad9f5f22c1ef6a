"""The use of skills on the page: for operators alone, where it is recorded, and never zero where it cannot be read."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from server.capabilities.auditlog.analytics import Counted, UsageEvent, UsageFile
from server.capabilities.auditlog.log_folder import LogFile
from server.capabilities.auditlog.reading import LogReader, RecordFilter
from server.capabilities.auditlog.records import AuditEvent, timestamp
from server.config.machine import state_home
from tests.capabilities.auditlog.helpers import activation, skills_in, write_file
from tests.capabilities.web.operators import VISIBLY_HOSTILE, is_safe, let_in
from tests.capabilities.web.test_catalog import page
from tests.conftest import MakeSkill
from tests.server.serving import serving


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "log"
    folder.mkdir(mode=0o700)
    return folder


def day(ago: int) -> str:
    return (datetime.now(UTC).date() - timedelta(days=ago)).isoformat()


def count(*uses: tuple[int, str, str, int], event: UsageEvent = UsageEvent.ACTIVATED) -> None:
    """Count uses: how many days ago, the skill, the client and the number."""
    rows = {Counted(day(ago), skill, event, client, "user:anna"): number for ago, skill, client, number in uses}
    UsageFile(state_home()).add(rows, "2000-01-01")


def log(folder: Path, *skills: str, **more: Any) -> None:
    """Log activations, one a second, the last one now."""
    file = LogFile(folder, datetime.now(UTC).date())
    now = datetime.now(UTC)
    for number, skill in enumerate(skills, 1 - len(skills)):
        record = activation(skill, when=timestamp(now + timedelta(seconds=number)))
        assert file.append([structs.replace(record, **more)]) == 1
    file.close(ended=True)


async def test_only_operators_see_use(
    skills: Path, make_skill: MakeSkill, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill("one")
    count((1, "one", "cursor", 3))
    log(folder, "one")
    async with serving(skills, audit_log_folder=str(folder), audit_log=True) as served:
        assert (await page(served, "/page/activity")).status_code == 404
        stranger = (await page(served, "/page/skill/one")).text
        let_in(monkeypatch)
        operator = (await page(served, "/page/skill/one")).text
        activity = (await page(served, "/page/activity")).text
    assert 'id="use"' not in stranger
    assert "anna" not in stranger
    for text in (operator, activity):
        assert "anna" in text
        assert "3 uses from" in text
        assert "style=" not in text


async def test_without_counts_and_log_there_is_nothing(
    skills: Path, make_skill: MakeSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill("one")
    let_in(monkeypatch)
    async with serving(skills, analytics=False, audit_log=False) as served:
        assert (await page(served, "/page/activity")).status_code == 404
        assert 'id="use"' not in (await page(served, "/page/skill/one")).text


@pytest.mark.parametrize("settings", [{"analytics": False}, {"audit_log": False}], ids=str)
async def test_what_is_off_is_said(
    settings: dict[str, Any], skills: Path, make_skill: MakeSkill, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill("one")
    let_in(monkeypatch)
    count((0, "one", "cursor", 3))
    log(folder, "one")
    async with serving(skills, **{"audit_log": True, "audit_log_folder": str(folder), **settings}) as served:
        texts = [(await page(served, path)).text for path in ("/page/activity", "/page/skill/one")]
    for text in texts:
        assert ("audit_log.analytics</code> is off" in text) == ("analytics" in settings)
        assert ("3 uses" in text) == ("analytics" not in settings)
        assert ("audit_log.enabled</code> is off" in text) == ("audit_log" in settings)
        assert ("anna" in text) == ("audit_log" not in settings)
        assert "0 uses" not in text


async def test_what_cannot_be_read_is_said_and_not_zero(
    skills: Path, make_skill: MakeSkill, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill("one")
    let_in(monkeypatch)
    async with serving(skills, audit_log=True, audit_log_folder=str(folder), analytics=True) as served:
        state_home().mkdir(parents=True, exist_ok=True)
        (state_home() / "analytics.db").write_text("no database " * 1000)
        # It was a folder when the server began.
        folder.rename(folder.with_name("gone"))
        folder.write_text("no folder")
        texts = [(await page(served, path)).text for path in ("/page/activity", "/page/skill/one")]
        folder.unlink()
        folder.with_name("gone").rename(folder)
    for text in texts:
        assert "the counts cannot be read" in text
        assert "the audit log cannot be read" in text
        assert not re.search(r"0 uses|no record of it|No denied request|No record fits|Nothing has been counted", text)


async def test_days_before_the_first_count_are_not_zero(skills: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_in(monkeypatch)
    async with serving(skills) as served:
        assert "Nothing has been counted yet" in (await page(served, "/page/activity")).text
        count((2, "one", "cursor", 4), (0, "one", "cursor", 1))
        text = (await page(served, "/page/activity")).text
    assert f"5 uses from {day(2)} to {day(0)}, days in UTC; nothing was counted before" in text
    # The day between has no use, and says so.
    assert re.findall(r'<th scope="row">(\d{4}-[\d-]+)</th><td>(\d+)</td>', text) == [
        *((day(2), "4"), (day(1), "0"), (day(0), "1"))
    ]


async def test_clients_beyond_those_that_can_be_told_apart_are_one(
    skills: Path, make_skill: MakeSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill("one")
    let_in(monkeypatch)
    count(*((0, "one", f"client-{number}", number) for number in range(1, 7)), (0, "two", "other", 50))
    async with serving(skills) as served:
        text = (await page(served, "/page/skill/one")).text
    legend = re.findall(r'</svg></span><span dir="auto">([^<]*)</span>', text)
    assert legend == ["client-6", "client-5", "client-4", "3 other clients"]
    assert "21 uses" in text


async def test_filters_choose_skill_decision_and_time(
    skills: Path, make_skill: MakeSkill, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill("one")
    make_skill("two")
    let_in(monkeypatch)
    count((0, "one", "cursor", 3), (20, "one", "cursor", 40), (0, "two", "cursor", 500))
    log(folder, "one", "two")
    log(folder, "one", event=AuditEvent.REQUEST, decision="denied", reason="role", principal="ben", count=7)
    async with serving(skills, audit_log=True, audit_log_folder=str(folder)) as served:
        everything = (await page(served, "/page/activity")).text
        denied = (await page(served, "/page/activity?skill=one&decision=denied&days=7")).text
        allowed = (await page(served, "/page/activity?decision=allowed")).text
        odd = await page(served, "/page/activity?days=x&decision=y&skill=%00")
    assert "543 uses" in everything
    assert "3 uses" in denied
    assert "/page/skill/two" not in denied
    assert "anna" not in denied
    # The denials are all those of the time, whatever decision is asked for.
    for text in (everything, denied, allowed):
        assert '<th scope="row" dir="auto">role</th><td>request</td><td>7</td>' in text
    assert "ben" not in allowed
    assert odd.status_code == 200


async def test_the_latest_records_come_first_and_others_are_counted(
    skills: Path, make_skill: MakeSkill, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill("one")
    let_in(monkeypatch)
    log(folder, *(f"skill-{number:02}" for number in range(60)), *["one"] * 30)
    async with serving(skills, audit_log=True, audit_log_folder=str(folder)) as served:
        activity = (await page(served, "/page/activity")).text
        panel = (await page(served, "/page/skill/one")).text
    assert "newest 50 of 90 records" in activity
    assert "skill-59" in activity
    assert "skill-39" not in activity
    assert panel.count(">activation<") == 20


async def test_a_damaged_line_is_said_and_hides_no_other(
    skills: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_in(monkeypatch)
    path = write_file(folder, "one", "two")
    with path.open("ab") as file:
        file.write(b"{}\n")
    async with serving(skills, audit_log=True, audit_log_folder=str(folder)) as served:
        text = (await page(served, "/page/activity")).text
    assert "1 line of the log cannot be read" in text
    assert "two" in text


async def test_texts_of_strangers_are_texts(
    skills: Path, make_skill: MakeSkill, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill("one")
    let_in(monkeypatch)
    odd = VISIBLY_HOSTILE
    count((0, odd, odd, 3), (0, "one", odd, 3))
    names = ("principal", "kind", "client", "method", "tool", "target", "decision", "reason")
    log(folder, "one", odd, **dict.fromkeys(names, odd))
    log(folder, odd, decision="denied", reason=odd)
    async with serving(skills, audit_log=True, audit_log_folder=str(folder)) as served:
        for path in ("/page/activity", "/page/skill/one", "/page/activity?skill=%3Cscript%3Ealert(1)"):
            answer = await page(served, path)
            assert answer.status_code == 200
            assert is_safe(answer.text)


def test_the_newest_records_are_read_from_the_end(folder: Path) -> None:
    today = datetime.now(UTC).date()
    for ago in (2, 1, 0):
        write_file(folder, *(f"{ago}-{number}" for number in range(3)), day=today - timedelta(days=ago))
    whole = [*LogReader(folder).newest(RecordFilter())]
    assert {each.skill for each in whole} == {*skills_in(folder)}
    size = max(path.stat().st_size for path in folder.iterdir())
    reader = LogReader(folder)
    part = [each.skill for each in reader.newest(RecordFilter(), size + size // 2)]
    # All of today, and the lines that lie wholly in the rest.
    assert [each for each in part if each and each[0] == "0"] == ["0-2", "0-1", "0-0"]
    assert {each and each[0] for each in part} == {"0", "1"}
    assert reader.is_cut
    assert reader.unreadable == 0
