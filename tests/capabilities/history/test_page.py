"""The panel `History` of a skill's page: which versions a visitor sees, and the way back to one."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest

from server.access import LOCAL
from server.capabilities.history import page as history_page
from server.capabilities.web.visitors import Visitor
from server.config.machine import state_home
from skills_core.history.history import History
from skills_core.history.maintenance import Secret
from skills_core.history.store import has_history, open_history
from skills_core.history.versions import Cause
from tests.capabilities.pages import (
    ANYBODY,
    FORM_TOKEN,
    HOSTILE,
    OPERATOR,
    Page,
    assert_harmless,
    page_for,
    panel,
    shown,
)
from tests.conftest import MakeSkill


def opened_history(skills: Path) -> History:
    return open_history(skills, state_home())


@pytest.fixture
def recorded(skills: Path, make_skill: MakeSkill) -> Path:
    """A source with three versions of the skill `one`."""
    make_skill("one", body="Step 1.")
    with opened_history(skills) as history:
        history.record_manual_edits()
        make_skill("one", body="Step 2.")
        history.record_manual_edits()
        history.change("one", {"notes.md": b"Noted."}, Cause.IMPROVEMENT, "Note what failed", "trace-7")
    return skills


async def panel_of(page: Page, path: str = "/page/skill/one") -> str:
    return panel(await page.get(path), "history") or ""


def versions(markup: str) -> list[str]:
    return [shown(each) for each in re.findall(r"<li>(.*?)</li>", markup, re.DOTALL)]


def links(markup: str) -> list[str]:
    return [html.unescape(each) for each in re.findall(r'href="([^"]*restore=[^"]*)"', markup)]


def fields(markup: str) -> dict[str, str]:
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', markup)
    return {name: html.unescape(value) for name, value in found}


async def test_versions_are_listed_newest_first_with_what_they_changed(recorded: Path) -> None:
    async with page_for(ANYBODY, recorded) as opened:
        markup = await panel_of(opened)
    improvement, manual, initial = versions(markup)
    assert improvement.startswith("improvement Note what failed")
    assert "+Noted." in improvement
    assert manual.startswith("edited by hand")
    assert "-Step 1. +Step 2." in manual
    assert initial.startswith("first recorded")
    assert "trace-7" not in markup
    assert "restore" not in markup


async def test_without_a_history_there_is_no_panel_and_none_begins(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    async with page_for(OPERATOR, skills) as opened:
        assert await panel_of(opened) == ""
    assert not has_history(skills, state_home())


async def test_the_differences_of_evals_are_for_operators(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    with opened_history(skills) as history:
        history.record_manual_edits()
        make_skill("one", files={"evals/a.json": b"the answer", "inner/evals/b.json": b"the answer"})
        make_skill("one/inner")
        history.record_manual_edits()
    for visitor in (OPERATOR, ANYBODY):
        async with page_for(visitor, skills) as opened:
            markup = await panel_of(opened)
        assert markup.count("the answer") == (2 if visitor.is_operator else 0)


async def test_a_role_sees_no_version_that_it_could_not_have_seen(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one", fields="tags: [secret]", body="The secret one.")
    with opened_history(skills) as history:
        history.record_manual_edits()
        make_skill("one", fields="tags: [open]", body="The open one.")
        history.record_manual_edits()
        make_skill("one", fields="tags: [open]", body="The open one, again.")
        history.record_manual_edits()
    roles = {"all": ["*"], "some": ["tag:open"]}
    for role, count in (("all", 3), ("some", 2)):
        async with page_for(Visitor(LOCAL, frozenset({role})), skills, access_roles=roles) as opened:
            markup = await panel_of(opened)
        assert len(versions(markup)) == count
        assert ("The secret one" in markup) == (role == "all")


async def test_a_rollback_shows_what_it_takes_back_and_does_that(recorded: Path) -> None:
    main, notes = recorded / "one" / "SKILL.md", recorded / "one" / "notes.md"
    async with page_for(OPERATOR, recorded) as opened:
        address = links(await panel_of(opened))[1]
        asked = await panel_of(opened, address.partition("#")[0])
        assert "-Step 1. +Step 2." in shown(asked)
        assert "+Noted." in shown(asked)
        assert main.read_text(encoding="utf-8").endswith("Step 2.\n")
        answer = await opened.do("rollback", **fields(asked))
        assert answer.status_code == 200, answer.text
        assert "is restored" in answer.text
        assert main.read_text(encoding="utf-8").endswith("Step 1.\n")
        assert not notes.exists()
        # It is served at once, and a version of its own.
        page = await opened.get("/page/skill/one")
        assert "Step 1." in page
        assert versions(panel(page, "history") or "")[0].startswith("rollback")


async def test_what_was_not_shown_is_not_taken_back(recorded: Path, make_skill: MakeSkill) -> None:
    async with page_for(OPERATOR, recorded) as opened:
        address = links(await panel_of(opened))[0]
        asked = await panel_of(opened, address.partition("#")[0])
        make_skill("one", body="Step 3.")
        answer = await opened.do("rollback", **fields(asked))
    assert answer.status_code == 409
    assert "was changed after you were shown" in html.unescape(answer.text)
    assert (recorded / "one" / "SKILL.md").read_text(encoding="utf-8").endswith("Step 3.\n")


@pytest.mark.parametrize(
    "visitor", [ANYBODY, ANYBODY._replace(is_operator=True), ANYBODY._replace(form_token=FORM_TOKEN)]
)
async def test_who_may_change_nothing_goes_back_to_nothing(recorded: Path, visitor: Visitor) -> None:
    async with page_for(OPERATOR, recorded) as opened:
        address = links(await panel_of(opened))[0]
        form = fields(await panel_of(opened, address.partition("#")[0]))
    async with page_for(visitor, recorded) as opened:
        markup = await panel_of(opened, address.partition("#")[0])
        assert "<form" not in markup
        assert links(markup) == []
        assert (await opened.do("rollback", **form)).status_code == 403
    assert (recorded / "one" / "notes.md").exists()


@pytest.mark.parametrize("change", [{"rev": "0000"}, {"rev": ""}, {"rev": HOSTILE}, {"skill": "/page/skill/none"}])
async def test_a_form_of_something_else_is_refused(recorded: Path, change: dict[str, str]) -> None:
    async with page_for(OPERATOR, recorded) as opened:
        address = links(await panel_of(opened))[0]
        form = fields(await panel_of(opened, address.partition("#")[0]))
        answer = await opened.do("rollback", **{**form, **change})
    assert answer.status_code == 409
    assert "<script>alert" not in answer.text


async def test_a_version_that_is_not_there_cannot_be_asked_for(recorded: Path) -> None:
    async with page_for(OPERATOR, recorded) as opened:
        markup = await panel_of(opened, "/page/skill/one?restore=%3Cscript%3Ealert(1)%3C/script%3E")
    assert "there is no such commit" in shown(markup)
    assert "<script>" not in markup
    assert "<form" not in markup


async def test_only_the_newest_versions_are_listed(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    with opened_history(skills) as history:
        for number in range(23):
            make_skill("one", body=f"Step {number}.")
            history.record_manual_edits()
    async with page_for(ANYBODY, skills) as opened:
        markup = await panel_of(opened)
    assert len(versions(markup)) == 20
    assert "These are the newest 20 versions" in markup


async def test_a_long_difference_is_cut_with_a_note(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    with opened_history(skills) as history:
        history.record_manual_edits()
        make_skill("one", body="\n".join(f"Line {number} of many." for number in range(5_000)))
        history.record_manual_edits()
    async with page_for(ANYBODY, skills) as opened:
        markup = await panel_of(opened)
    assert "more characters are left out" in markup
    assert len(markup) < 30_000


async def test_comparisons_end_after_a_while(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_page, "_SECONDS", -1.0)
    async with page_for(ANYBODY, recorded) as opened:
        markup = await panel_of(opened)
    assert len(versions(markup)) == 3
    assert "take too long to compare here" in markup
    assert "+Step 2." not in markup


async def test_hostile_texts_are_shown_as_text(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    with opened_history(skills) as history:
        history.record_manual_edits()
        make_skill("one", body=HOSTILE, files={"<img src=x onerror=alert(3)>.md": HOSTILE.encode()})
        history.record(("one",), HOSTILE, HOSTILE, HOSTILE)
    async with page_for(OPERATOR, skills) as opened:
        markup = await panel_of(opened)
        address = links(markup)[0].partition("#")[0]
        markup += await panel_of(opened, address)
    assert_harmless(markup)


async def test_versions_are_compared_again_only_after_a_change(
    recorded: Path, make_skill: MakeSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[str] = []
    change_of = History.change_of

    def counted(self: History, name: str, rev: str, *more: Any) -> str:
        compared.append(rev)
        return change_of(self, name, rev, *more)

    monkeypatch.setattr(History, "change_of", counted)
    async with page_for(ANYBODY, recorded) as opened:
        await panel_of(opened)
        await panel_of(opened)
        assert len(compared) == 2
        make_skill("one", body="Step 3.")
        with opened_history(recorded) as history:
            history.record_manual_edits()
        assert "+Step 3." in await panel_of(opened)
        make_skill("two")
        await opened.served.host.reload()
        assert "+Step 3." in await panel_of(opened)
    assert len(compared) == 5


async def test_what_was_forgotten_is_gone_from_the_page(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one", body="The key is 0123456789.")
    with opened_history(skills) as history:
        history.record_manual_edits()
        make_skill("one", body="The key is elsewhere.")
        history.record_manual_edits()
        async with page_for(ANYBODY, skills) as opened:
            assert "0123456789" in await panel_of(opened)
            history.forget(Secret("0123456789"))
            markup = await panel_of(opened)
    assert "0123456789" not in markup
    assert len(versions(markup)) == 2
