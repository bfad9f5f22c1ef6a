"""The panel `What clients show` of a skill's page."""

from __future__ import annotations

import re
from pathlib import Path

from server.access import LOCAL
from server.capabilities.visibility.report import visibility_report
from server.capabilities.visibility.served_listing import Sight
from server.capabilities.web.visitors import Visitor
from server.cli.client_lists import served_lists
from server.clients.known import KNOWN_CLIENTS
from tests.capabilities.pages import ANYBODY, HOSTILE, assert_harmless, page_for, panel, shown
from tests.conftest import MakeSkill

LONG = "Handles invoices of kind {0}: reads them, checks every sum, and files them. " * 12


def rows(markup: str) -> dict[str, str]:
    """Return what the table says of each client."""
    found = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', markup, re.DOTALL)
    return {shown(client): shown(cells) for client, cells in found}


async def test_the_panel_says_the_same_as_the_report(skills: Path, make_skill: MakeSkill) -> None:
    for number in range(120):
        make_skill(f"skill-{number:03}", description=LONG.format(number))
    words = {
        Sight.DESCRIBED: ("described", "shortened to"),
        Sight.NAMED: ("named only", "cut after"),
        Sight.TOOL_SEARCH: ("after a search for tools",),
        Sight.FIND_SKILLS: ("hidden",),
    }
    async with page_for(ANYBODY, skills) as opened:
        view = opened.served.host.view_called(ANYBODY.view)
        report = visibility_report(
            served_lists(view.catalog, view.settings), [(c, None) for c in KNOWN_CLIENTS], 200_000
        )
        found = set()
        for name in ("skill-000", "skill-119"):
            said = rows(panel(await opened.get(f"/page/skill/{name}"), "visibility") or "")
            assert len(said) == len(KNOWN_CLIENTS)
            for client in report.clients:
                served = next(each for each in client.served.skills if each.skill.key == name)
                assert served.sight is not None
                assert said[client.client.title].startswith(words[served.sight]), (client.label, name)
                found.add(served.sight)
    assert len(found) > 1


async def test_a_skill_for_users_is_not_for_models(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one", fields="disable-model-invocation: true")
    async with page_for(ANYBODY, skills) as opened:
        said = rows(panel(await opened.get("/page/skill/one"), "visibility") or "")
    assert all(each.startswith("not for models the skill is for users only") for each in said.values())


async def test_what_is_not_served_appears_nowhere(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    (skills / "one" / "SKILL.md").write_bytes(b"")
    async with page_for(ANYBODY, skills) as opened:
        page = await opened.get("/?state=invalid")
        address = re.search(r'href="(/page/skill/[^"]+)"', page)
        assert address is not None
        assert panel(await opened.get(address[1]), "visibility") is None


async def test_the_lists_of_clients_are_not_touched(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    async with page_for(ANYBODY, skills) as opened:
        view = opened.served.host.view_called(ANYBODY.view)
        before = view.built_layouts
        await opened.get("/page/skill/one")
        assert view.built_layouts == before


async def test_a_role_hears_of_no_skill_that_it_does_not_see(skills: Path, make_skill: MakeSkill) -> None:
    same = "Converts spreadsheets of invoices into ledgers. Use for invoices, ledgers and spreadsheets."
    for name in ("ledger", "ledgers", "secret-ledger"):
        make_skill(name, description=same)
    roles = {"all": ["*"], "some": ["ledger", "ledgers"]}
    pages = {}
    for role in roles:
        visitor = Visitor(LOCAL, frozenset({role}))
        async with page_for(visitor, skills, access_roles=roles) as opened:
            pages[role] = panel(await opened.get("/page/skill/ledger"), "visibility") or ""
    assert "secret-ledger" in pages["all"]
    assert "secret-ledger" not in pages["some"]
    assert "differ only by case, separators or a plural. ledgers" in shown(pages["some"])


async def test_hostile_names_are_shown_as_text(skills: Path, make_skill: MakeSkill) -> None:
    same = "Converts spreadsheets of invoices into ledgers. Use for invoices, ledgers and spreadsheets."
    make_skill("one", description=same)
    folder = skills / "other"
    folder.mkdir()
    (folder / "SKILL.md").write_text(f"---\nname: {HOSTILE!r}\ndescription: {same}\n---\nDo.\n", encoding="utf-8")
    async with page_for(ANYBODY, skills) as opened:
        markup = panel(await opened.get("/page/skill/one"), "visibility") or ""
    assert_harmless(markup)
