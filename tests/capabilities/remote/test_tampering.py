"""Every tampering is refused with its reasons and affects no other skill."""

from __future__ import annotations

import pytest

from server.capabilities.remote.skills import RemoteSkill
from tests.capabilities.remote.helpers import faults, verified
from tests.capabilities.remote.hostile import Hostile, running, serve_skill
from tests.capabilities.remote.tampering import TAMPERINGS, Tampering


@pytest.mark.parametrize(("tamper", "reasons"), list(TAMPERINGS.values()), ids=TAMPERINGS)
async def test_tampering_is_refused_with_its_reasons(tamper: Tampering, reasons: set[str]) -> None:
    app = Hostile([serve_skill("one", {"sub/a.md": b"a"})])
    tamper(app)
    async with running(app) as url:
        assert faults(await verified(url)) == reasons


async def test_without_tampering_the_same_server_verifies() -> None:
    app = Hostile([serve_skill("one", {"sub/a.md": b"a"})], extension={"directoryRead": True})
    async with running(app) as url:
        outcome = await verified(url)
    assert faults(outcome) == set()
    assert outcome.protocol == "2026-07-28"
    asked = [method for method, _ in app.asked]
    assert asked.count("skills/list") == asked.count("skills/get") == 1


async def test_tampering_with_one_skill_affects_no_other() -> None:
    app = Hostile([serve_skill("one"), serve_skill("two"), serve_skill("three")])
    app.one.resources[0]["size"] += 1
    app.skills[1].entry["uri"] = 7
    async with running(app) as url:
        outcome = await verified(url)
    assert {result.name: result.valid for result in outcome.results if isinstance(result, RemoteSkill)} == {
        "one": False,
        "two": False,
        "three": True,
    }


async def test_directories_are_read_only_if_the_server_offers_it() -> None:
    app = Hostile([serve_skill("one")], extension={"directoryRead": "yes"})
    async with running(app) as url:
        assert faults(await verified(url)) == set()
    assert "resources/directory/read" not in [method for method, _ in app.asked]


async def test_a_repeated_cursor_is_not_followed() -> None:
    cursors = iter("abcabc")
    app = Hostile([], {"skills/list": lambda _: Hostile.complete(skills=[], nextCursor=next(cursors))})
    async with running(app) as url:
        assert faults(await verified(url)) == {"invalid_listing"}
    assert [method for method, _ in app.asked].count("skills/list") == 4
