"""The page of a skill, and of its files."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import anyio.to_thread
import pytest

from server.capabilities.web.part import WebPage
from server.hosting.views import COMMON_VIEW
from skills_core.disk.sources import explicit_sources
from tests.capabilities.web.operators import let_in
from tests.capabilities.web.test_catalog import page
from tests.conftest import MakeSkill
from tests.server.serving import serving


async def test_the_instructions_are_rendered_and_links_lead_to_the_files(skills: Path, make_skill: MakeSkill) -> None:
    body = "# Title\n\nSee [the forms](references/forms.md#top) and [gone](none.md)."
    make_skill("pdf", body=body, files={"references/forms.md": b"[back](../SKILL.md)", "a.bin": bytes(range(256))})
    async with serving(skills) as served:
        shown = (await page(served, "/page/skill/pdf")).text
        forms = (await page(served, "/page/skill/pdf?file=references/forms.md")).text
        binary = (await page(served, "/page/skill/pdf?file=a.bin")).text
        missing = await page(served, "/page/skill/pdf?file=../../etc/passwd")
    assert "<h3>Title</h3>" in shown
    assert 'href="/page/skill/pdf?file=references/forms.md"' in shown
    assert 'href="none.md"' not in shown
    assert 'href="/page/skill/pdf?file=SKILL.md"' in forms
    assert "not text" in binary
    assert missing.status_code == 404


async def test_files_of_evals_are_for_operators(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one", files={"evals/evals.json": b'{"secret": 1}', "notes.md": b"x"})
    async with serving(skills) as served:
        shown = (await page(served, "/page/skill/one")).text
        evals = await page(served, "/page/skill/one?file=evals/evals.json")
    assert "notes.md" in shown
    assert "evals.json" not in shown
    assert evals.status_code == 404


async def test_two_skills_of_one_name_have_pages_of_their_own(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("a/same", description="First. Use for one.")
    make_skill("b/same", description="Second. Use for two.")
    async with serving(skills) as served:
        links = re.findall(r'<h2><a href="([^"]*)"', (await page(served)).text)
        texts = [(await page(served, link)).text for link in links]
    assert len(set(links)) == 2
    assert ["First" in text for text in texts] != ["Second" in text for text in texts]


async def test_a_huge_file_is_cut_and_says_so(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one", files={"big.txt": b"0123456789abcdef" * 60_000})
    async with serving(skills) as served:
        shown = await page(served, "/page/skill/one?file=big.txt")
    assert "Only the beginning" in shown.text
    assert len(shown.text) < 300_000


async def test_the_part_is_made_once(skills: Path) -> None:
    async with serving(skills) as served:
        assert sum(isinstance(part, WebPage) for part in served.host.http_parts) == 1


async def test_places_on_the_disk_are_for_operators(
    skills: Path, make_skill: MakeSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("first/same", "second/same", "project/skills/untrusted"):
        make_skill(folder)
    first, second, third = explicit_sources([skills / "first", skills / "second", skills / "project" / "skills"])
    sources = first, second, replace(third, project=skills / "project")
    monkeypatch.setattr("tests.server.serving.explicit_sources", lambda _: sources)
    async with serving(skills) as served:
        listed = await page(served)
        links = re.findall(r'<h2><a href="([^"]*)"', listed.text)
        texts = [listed.text, *[(await page(served, link)).text for link in links]]
        let_in(monkeypatch)
        of_operator = (await page(served)).text
    assert len(links) == 3
    assert "shadowed by same" in listed.text
    assert "is not trusted" in listed.text
    assert not [text for text in texts if str(skills) in text]
    assert str(skills / "first") in of_operator


async def test_alike_skills_are_named(skills: Path, make_skill: MakeSkill) -> None:
    body = " ".join(f"Write field {number} into row {number * 7}." for number in range(60))
    for name in ("form", "fork"):
        make_skill(name, body=f"{body} As {name}.")
    make_skill("letter", body="Be polite.")
    async with serving(skills) as served:
        view = served.host.view_called(COMMON_VIEW)
        await anyio.to_thread.run_sync(view.prepare_search, lambda: None)
        shown = (await page(served, "/page/skill/form")).text
        alone = (await page(served, "/page/skill/letter")).text
    assert '<dt>Alike</dt><dd dir="auto">1: fork</dd>' in shown
    assert "<dt>Alike</dt>" not in alone
