"""The improvements on the page: for operators alone, with no more evidence than is recorded, accepted as by command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from server.capabilities.improve import installation
from server.capabilities.improve import page as improvements_page
from server.capabilities.improve.installation import ClosedProposalError, accept, reject, stored_change
from server.capabilities.improve.records import improvement_records
from server.config.machine import current_environment, state_home
from skills_core.disk.sources import explicit_sources
from skills_core.live.library import Library
from tests.capabilities.improve.conftest import OpenLoop
from tests.capabilities.improve.loops import RIGHT, SKILL, WRONG
from tests.capabilities.web.operators import HOSTILE, VISIBLY_HOSTILE, act, is_safe, let_in
from tests.capabilities.web.test_catalog import page
from tests.server.serving import serving
from tests.server.settings import make_settings

BEFORE, AFTER = SKILL.encode(), SKILL.replace(WRONG, RIGHT).encode()


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def record(skills: Path, begun_after: str = "run-1", **more: Any) -> str:
    """Record a proposal."""
    records = improvement_records()
    number = records.begin(begun_after, "tidy", skills, "tidy", 1000)
    assert isinstance(number, str)
    change = stored_change({"SKILL.md": BEFORE}, {"SKILL.md": AFTER})
    given = {"status": "proposed", "summary": "The right tool", "change": change, "measured": {"by": "replay"}}
    records.update(number, **{**given, **more})
    return number


async def test_only_operators_see_improvements(skills: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    number = record(skills)
    async with serving(skills) as served:
        assert (await page(served, "/page/improvements")).status_code == 404
        let_in(monkeypatch)
        text = (await page(served, "/page/improvements")).text
    assert number in text
    assert f"<del>-Call the tool {WRONG} to see the files.</del>" in text
    assert f"<ins>+Call the tool {RIGHT} to see the files.</ins>" in text
    assert 'href="/page/runs?run=run-1"' in text
    assert "accept_improvement" not in text
    assert f"skillserve history accept {number}" in text


EVIDENCE = [
    ({"measured": None}, "Nothing is recorded of a measurement."),
    ({"measured": {"by": "replay"}}, "nothing is known of other tasks"),
    (
        {"measured": {"by": "evals", "before": 0.5, "after": 0.75}},
        "pass rate 50\u00a0% before the change, 75\u00a0% with",
    ),
    ({"measured": {"by": "evals"}}, "pass rate — before the change, — with it"),
    ({"measured": {"by": "replay"}, "status": "dropped"}, "was asked for once more with the new text. No evals ran."),
]


@pytest.mark.parametrize(("more", "claim"), EVIDENCE, ids=[each for _, each in EVIDENCE])
async def test_the_evidence_is_what_is_recorded(
    more: dict[str, Any], claim: str, skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_in(monkeypatch)
    record(skills, **more)
    async with serving(skills) as served:
        text = (await page(served, "/page/improvements")).text
    assert claim in text
    assert ("did not repeat the failure" in text) == (claim == "nothing is known of other tasks")


async def test_open_proposals_come_first_page_by_page(skills: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(improvements_page, "PAGE_SIZE", 2)
    let_in(monkeypatch)
    numbers = [
        record(skills, f"run-{status}", status=status, at=f"2026-11-2{day}T10:00:00+00:00")
        for day, status in enumerate(("proposed", "rejected", "dropped"))
    ]
    async with serving(skills) as served:
        first = (await page(served, "/page/improvements")).text
        second = (await page(served, "/page/improvements?page=2")).text
    assert [number in first for number in numbers] == [True, False, True]
    assert [number in second for number in numbers] == [False, True, False]


DAMAGE: list[dict[str, Any]] = [
    {"change": None},
    {"change": {"SKILL.md": {"before": "?"}}},
    {"change": {"SKILL.md": {"before": "/w==", "after": "/g=="}}},
    {"summary": 7},
    {"measured": {"by": 3}},
    {"corrections": [{"kind": "link"}]},
]


@pytest.mark.parametrize("damage", DAMAGE, ids=json.dumps)
async def test_a_damaged_record_is_said_and_hides_no_other(
    damage: dict[str, Any], skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_in(monkeypatch, may_change=True)
    good, bad = record(skills), record(skills, "run-2", **damage)
    (state_home() / "improvements/abcdef12.json").write_text("{")
    async with serving(skills) as served:
        answer = await page(served, "/page/improvements")
        if "change" in damage:
            assert (await act(served, "accept_improvement", id=bad)).status_code == 409
    assert answer.status_code == 200
    assert f'value="{good}"' in answer.text
    assert f'value="{bad}"' not in answer.text
    assert f"The improvement {bad} is not shown, because its record is damaged" in answer.text
    assert "abcdef12.json" in answer.text


async def test_records_that_cannot_be_listed_are_said(skills: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_in(monkeypatch)
    state_home().mkdir(parents=True)
    (state_home() / "improvements").write_text("no folder")
    async with serving(skills) as served:
        text = (await page(served, "/page/improvements")).text
    assert "improvements cannot be read" in text
    assert "No improvements yet" not in text


async def test_texts_of_strangers_are_texts(skills: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_in(monkeypatch, may_change=True)
    names = ("summary", "reason", "message", "commit", "trace_id", "skill", "run_id", "diff")
    odd: dict[str, Any] = dict.fromkeys(names, VISIBLY_HOSTILE)
    correction = {"kind": VISIBLY_HOSTILE, "path": HOSTILE, "line": 1, "old": HOSTILE, "new": HOSTILE}
    odd |= {"measured": {"by": VISIBLY_HOSTILE}, "corrections": [correction]}
    record(skills, **odd, status="dropped")
    raw = stored_change({"SKILL.md": BEFORE}, {"SKILL.md": AFTER + VISIBLY_HOSTILE.encode()})
    record(skills, "run-2", **{**odd, "change": raw})
    async with serving(skills) as served:
        answer = await page(served, "/page/improvements")
    assert answer.status_code == 200
    assert is_safe(answer.text)


async def test_nobody_accepts_what_is_not_shown(skills: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record's diff may say anything: the change that accepting makes is shown, and all of it."""
    monkeypatch.setattr(improvements_page, "MAX_LINES", 100)
    let_in(monkeypatch, may_change=True)
    record(skills, diff="+nothing to see here\n")
    long = stored_change({"SKILL.md": BEFORE}, {"SKILL.md": AFTER + b"more\n" * 200})
    cut = record(skills, "run-2", change=long)
    async with serving(skills) as served:
        text = (await page(served, "/page/improvements")).text
    assert "nothing to see here" not in text
    assert "further lines not shown" in text
    assert text.count("/page/do/accept_improvement") == 1
    assert text.count("/page/do/reject_improvement") == 2
    assert f"skillserve history propose {cut}" in text


async def test_who_may_change_something_accepts_and_rejects_as_the_command_does(
    loop: OpenLoop, skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with loop(improve_review=True) as found:
        for _ in range(3):
            await found.run()
        first, second, third = (each["id"] for each in reversed(found.records))
    main = skills / "tidy/SKILL.md"
    let_in(monkeypatch)
    async with serving(skills) as served:
        assert (await act(served, "accept_improvement", id=first)).status_code == 403
        let_in(monkeypatch, may_change=True)
        rejected = await act(served, "reject_improvement", id=third)
        await anyio.to_thread.run_sync(main.write_text, f"{SKILL}Mine.\n")
        await served.host.reload()
        edited = await act(served, "accept_improvement", id=first)
        await anyio.to_thread.run_sync(main.write_text, SKILL)
        await served.host.reload()
        accepted = await act(served, "accept_improvement", id=first)
        # Clients have it at once, although nothing is watched.
        assert RIGHT in served.host.everything.skill("tidy").body
        late = await act(served, "accept_improvement", id=second)
        closed = await act(served, "reject_improvement", id=first)
        unknown = await act(served, "reject_improvement", id=VISIBLY_HOSTILE)
    assert [each.status_code for each in (rejected, edited, accepted, late, closed, unknown)] == [
        *(200, 409, 200, 409, 409, 409)
    ]
    assert "was edited since" in edited.text
    assert is_safe(unknown.text)
    assert main.read_bytes() == AFTER
    assert [each["status"] for each in improvement_records().all()] == ["rejected", "proposed", "accepted"]


async def test_a_proposal_is_accepted_or_rejected_and_not_both(
    loop: OpenLoop, skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two operators decide at the same time."""
    async with loop(improve_review=True) as found:
        for _ in range(2):
            await found.run()
        first, second = (each["id"] for each in reversed(found.records))
    library, records = Library(explicit_sources([skills]), current_environment), improvement_records()
    install, skill_of = installation.install, installation.skill_of

    def reject_first(*given: Any) -> Any:
        with pytest.raises(ClosedProposalError):
            reject(records, first)
        return install(*given)

    def reject_second(*given: Any) -> Any:
        reject(records, second)
        return skill_of(*given)

    monkeypatch.setattr(installation, "skill_of", reject_second)
    with pytest.raises(ClosedProposalError, match="rejected"):
        accept(records, second, library.catalog, make_settings())
    assert (skills / "tidy/SKILL.md").read_bytes() == BEFORE
    monkeypatch.setattr(installation, "skill_of", skill_of)
    monkeypatch.setattr(installation, "install", reject_first)
    assert accept(records, first, library.catalog, make_settings())["status"] == "accepted"
    assert (skills / "tidy/SKILL.md").read_bytes() == AFTER
    assert [each["status"] for each in records.all()] == ["rejected", "accepted"]
