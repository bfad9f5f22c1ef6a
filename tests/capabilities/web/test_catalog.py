"""The list of skills on the page: who finds what, page by page, and what a role does not see is not there."""

from __future__ import annotations

import re
from pathlib import Path

import httpx2
import pytest

from server.access import LOCAL
from skills_core.live.library import Library, Progress
from tests.conftest import MakeSkill
from tests.server.serving import Served, serving

HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


async def page(served: Served, path: str = "/") -> httpx2.Response:
    return await served.client.get(served.at(path), headers=HTML)


def names(answer: httpx2.Response) -> list[str]:
    """Return the names in the list."""
    return re.findall(r'<h2><a href="[^"]*" dir="auto">([^<]*)</a>', answer.text)


async def test_browsers_get_the_page_and_other_tools_the_way_to_connect(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    async with serving(skills) as served:
        shown = await page(served)
        text = await served.client.get(served.at("/"), headers={"Accept": "*/*"})
    assert shown.status_code == 200
    assert names(shown) == ["one"]
    assert text.headers["content-type"].startswith("text/plain")
    assert "claude mcp add" in text.text


async def test_without_the_page_everybody_gets_the_way_to_connect(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    async with serving(skills, web_enabled=False) as served:
        shown = await page(served)
        other = await page(served, "/page/skill/one")
    assert shown.headers["content-type"].startswith("text/plain")
    assert other.status_code == 404


async def test_the_headers_keep_a_browser_from_everything_else(skills: Path) -> None:
    async with serving(skills) as served:
        for path in ("/", "/page/skill/none", "/page/assets/page.js", "/page/assets/none"):
            answer = await page(served, path)
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "*" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(("header", "value"), [("Host", "evil.example"), ("Origin", "https://evil.example")])
async def test_other_sites_get_nothing(skills: Path, make_skill: MakeSkill, header: str, value: str) -> None:
    make_skill("one")
    async with serving(skills) as served:
        for path in ("/", "/page/skill/one", "/page/events"):
            answer = await served.client.get(served.at(path), headers={**HTML, header: value})
            assert answer.status_code in {403, 421}
            assert "one" not in answer.text


async def test_a_search_finds_skills_that_have_all_words_and_names_first(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("reader", description="Reads a PDF. Use for a pdf.")
    make_skill("pdf-maker", description="Makes documents. Use when asked.")
    make_skill("other", description="Paints. Use for paint.")
    async with serving(skills) as served:
        assert names(await page(served, "/?q=PDF")) == ["pdf-maker", "reader"]
        assert names(await page(served, "/?q=pdf+reads")) == ["reader"]
        similar = await page(served, "/?q=please+paint+my+house")
        assert names(similar) == ["other"]
        assert "what a model finds" in similar.text
        nothing = await page(served, "/?q=zzzz")
    assert names(nothing) == []
    assert "Nothing found" in nothing.text


async def test_states_and_findings_are_filters_and_every_reason_is_shown(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("good")
    make_skill("elsewhere", fields="metadata:\n  jdai:\n    requires:\n      os: [windows, plan9]")
    (skills / "broken").mkdir()
    (skills / "broken/SKILL.md").write_text("---\nname: broken\n---\nx")
    async with serving(skills) as served:
        everything = await page(served)
        invalid = await page(served, "/?state=invalid")
        faulty = await page(served, "/?faulty=yes")
        link = re.search(r'href="(/page/skill/broken[^"]*)"', invalid.text)
        assert link is not None
        broken = await page(served, link[1])
    assert set(names(everything)) >= {"good", "broken"}
    assert names(invalid) == ["broken"]
    assert "broken" in names(faulty)
    assert "good" not in names(faulty)
    assert broken.status_code == 200
    assert "Not served" in broken.text
    assert "Findings" in broken.text


async def test_a_list_has_pages_of_a_hundred(skills: Path, make_skill: MakeSkill) -> None:
    for number in range(205):
        make_skill(f"skill-{number:03}")
    async with serving(skills) as served:
        pages = [await page(served, f"/?page={number}") for number in (1, 2, 3)]
        beyond = await page(served, "/?page=99")
        odd = await page(served, "/?page=-1&state=none&order=sideways")
    assert [len(names(each)) for each in pages] == [100, 100, 5]
    assert names(beyond) == names(pages[2])
    assert names(odd) == names(pages[0])
    assert len({name for each in pages for name in names(each)}) == 205


async def test_the_list_tells_how_far_loading_is(
    skills: Path, make_skill: MakeSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(skills) as served:
        monkeypatch.setattr(Library, "progress", Progress(skills, 0.42, seconds=1))
        empty = await page(served)
        make_skill("one")
        await served.host.reload()
        some = await page(served)
        monkeypatch.undo()
        whole = await page(served)
    assert "about 42 %" in empty.text
    assert "No skills yet" not in empty.text
    assert "about 42 %" in some.text
    assert names(some) == ["one"]
    assert "being loaded" not in whole.text


HOSTILE = '"><script>x()</script><b>{{ 7*7 }}</b>\u202e&'


async def test_texts_of_strangers_are_text_in_every_field(skills: Path, make_skill: MakeSkill) -> None:
    folder = make_skill(
        "bad",
        description="placeholder",
        body=f"# {HOSTILE}\n\n[x](javascript:x()) {HOSTILE}",
        files={'<img src=x onerror="x()">.md': HOSTILE.encode(), "a.html": HOSTILE.encode()},
    )
    text = (folder / "SKILL.md").read_text()
    quoted = HOSTILE.replace('"', '\\"')
    (folder / "SKILL.md").write_text(
        text.replace("placeholder", f'"{quoted}"').replace(
            "name: bad", f'name: bad\nversion: "{quoted}"\ntags: ["{quoted}"]'
        )
    )
    async with serving(skills) as served:
        found = [await page(served, "/?q=" + "%3Cscript%3E"), await page(served), await page(served, "/page/skill/bad")]
        links = set(re.findall(r'href="(/page/skill/bad\?file=[^"]*)"', found[2].text))
        found += [await page(served, link.replace("&amp;", "&")) for link in links]
    assert len(links) == 3
    for answer in found:
        assert answer.status_code == 200
        body = answer.text
        assert "<script>x" not in body
        assert "<b>{{" not in body
        assert "<img" not in body
        assert "49" not in re.sub(r"\d{3,}|sha256:\w+", "", body) or "{{ 7*7 }}" in body
        assert "\u202e" not in body
        assert "javascript:x" not in re.findall(r'href="([^"]*)"', body)


async def test_requests_for_the_page_are_recorded(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one")
    async with serving(skills) as served:
        await page(served, "/page/skill/one")
        await page(served, "/page/skill/none")
    found = [(each.method, each.target, each.decision, each.principal) for each in served.found]
    assert found == [("page", "/page/skill/one", "allowed", LOCAL), ("page", "/page/skill/none", "invalid", LOCAL)]
