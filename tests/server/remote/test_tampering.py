"""A lie is refused for what it is, and hurts nothing else."""

from __future__ import annotations

import pytest

from server.remote.verification import RemoteSkill
from tests.server.remote.helpers import faults, verified
from tests.server.remote.hostile import Hostile, running, serve_skill
from tests.server.remote.tampering import LIES, Lie


@pytest.mark.parametrize(("lie", "reasons"), list(LIES.values()), ids=LIES)
async def test_a_lie_is_refused_for_what_it_is(lie: Lie, reasons: set[str]) -> None:
    app = Hostile([serve_skill("one", {"sub/a.md": b"a"})])
    lie(app)
    async with running(app) as url:
        assert faults(await verified(url)) == reasons


async def test_without_lies_the_same_server_is_believed() -> None:
    app = Hostile([serve_skill("one", {"sub/a.md": b"a"})], extension={"directoryRead": True})
    async with running(app) as url:
        outcome = await verified(url)
    assert faults(outcome) == set()
    assert outcome.protocol == "2026-07-28"
    asked = [method for method, _ in app.asked]
    assert asked.count("skills/list") == asked.count("skills/get") == 1


async def test_a_lie_about_one_skill_hurts_no_other() -> None:
    app = Hostile([serve_skill("one"), serve_skill("two"), serve_skill("three")])
    app.one.resources[0]["size"] += 1
    app.skills[1].entry["uri"] = 7
    async with running(app) as url:
        outcome = await verified(url)
    assert {result.name: result.sound for result in outcome.results if isinstance(result, RemoteSkill)} == {
        "one": False,
        "two": False,
        "three": True,
    }


async def test_directories_are_never_read_of_a_server_that_does_not_offer_it() -> None:
    app = Hostile([serve_skill("one")], extension={"directoryRead": "yes"})
    async with running(app) as url:
        assert faults(await verified(url)) == set()
    assert "resources/directory/read" not in [method for method, _ in app.asked]


async def test_a_cursor_that_comes_again_is_not_followed_again() -> None:
    cursors = iter("abcabc")
    app = Hostile([], {"skills/list": lambda _: Hostile.complete(skills=[], nextCursor=next(cursors))})
    async with running(app) as url:
        assert faults(await verified(url)) == {"invalid_listing"}
    assert [method for method, _ in app.asked].count("skills/list") == 4
