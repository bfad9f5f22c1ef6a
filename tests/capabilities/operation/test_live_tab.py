"""The tab with what happens at the server now."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.capabilities.web.operators import HOSTILE, is_safe, let_in
from tests.capabilities.web.test_catalog import HTML, page
from tests.conftest import MakeSkill
from tests.server.serving import serving


async def test_operators_see_activations_edits_and_denials(
    skills: Path, make_skill: MakeSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_in(monkeypatch)
    make_skill("one")
    async with serving(skills) as served:
        served.host.records.add(served.host.activity.record)
        assert "Nothing yet" in (await page(served, "/page/live")).text
        await served.call("activate_skill", name="one")
        await served.call("activate_skill", name="absent")
        make_skill("two")
        await served.host.reload()
        served.host.activity.add("schedule", f"{HOSTILE} fires")
        text = (await page(served, "/page/live")).text
    assert text.index("fires") < text.index("two") < text.index("absent") < text.index("one activated")
    assert 'href="/page/skill/one"' in text
    assert is_safe(text)


async def test_others_have_no_such_page(skills: Path) -> None:
    async with serving(skills) as served:
        assert (await page(served, "/page/live")).status_code == 404
        assert "/page/live" not in (await page(served)).text


async def test_a_page_of_an_operator_hears_of_the_kinds_that_it_shows(
    skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_in(monkeypatch)
    async with serving(skills) as served:
        address = served.at("/page/events?of=run+schedule")
        async with served.client.stream("GET", address, headers=HTML) as answer:
            lines = answer.aiter_lines()
            assert await anext(lines) == "retry: 1000"
            served.host.activity.add("edited", "not shown")
            served.host.activity.add("schedule", "fires")
            with anyio.fail_after(60):
                async for line in lines:
                    if line.startswith("event:"):
                        break
            served.host.activity.end()
            rest = [line async for line in lines if line.startswith("event:")]
    assert rest == []
