"""The skills of a server: paged listings, and skills by URI."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from server.capabilities.remote.client import RemoteError
from server.capabilities.remote.skills import RemoteSkill
from skills_core import Reason
from tests.capabilities.remote.helpers import connected, faults, verified
from tests.capabilities.remote.hostile import Hostile, running, serve_skill
from tests.capabilities.remote.tampering import raises


async def test_the_numbers_of_pages_and_skills_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.capabilities.remote.client._MAX_PAGES", 10)
    monkeypatch.setattr("server.capabilities.remote.client._MAX_ENTRIES", 12)
    turns = iter(range(1000))
    one = serve_skill("one").entry

    def pages(count: int, entries: int) -> Callable[[Any], Any]:
        left = iter(range(count - 1, -1, -1))
        return lambda _: Hostile.complete(
            skills=[one] * entries, **({"nextCursor": f"{next(turns)}"} if next(left) else {})
        )

    app = Hostile([])
    async with connected(app) as server:
        app.answers["skills/list"] = pages(10, 1)
        assert len(await server.entries()) == 10
        for count, entries in ((11, 1), (7, 2)):
            app.answers["skills/list"] = pages(count, entries)
            with pytest.raises(RemoteError) as caught:
                await server.entries()
            assert caught.value.reason is Reason.INVALID_LISTING


async def test_an_update_between_list_and_get_is_accepted_and_a_lasting_difference_reported() -> None:
    app = Hostile([serve_skill("one", {"a.md": b"a"})])
    before = json.loads(json.dumps(app.one.entry))
    app.one.add("skill://one/b.md", b"b")
    lists = iter([before, app.one.entry])
    app.answers["skills/list"] = lambda _: app.complete(skills=[next(lists)])
    async with running(app) as url:
        outcome = await verified(url)
        assert faults(outcome) == set()
        assert all(not result.diagnostics for result in outcome.results if isinstance(result, RemoteSkill))
        app.answers["skills/list"] = app.complete(skills=[before])
        (skill,) = (await verified(url)).results
    assert isinstance(skill, RemoteSkill)
    assert skill.valid
    assert [fault.code for fault in skill.diagnostics] == [Reason.ENTRY_MISMATCH]


async def test_a_skill_that_is_not_listed_is_found_by_its_uri() -> None:
    app = Hostile([serve_skill("acme/one")], {"skills/list": Hostile.complete(skills=[])})
    async with running(app) as url:
        assert faults(await verified(url, "skill://acme/one/SKILL.md")) == set()
        assert faults(await verified(url, "one")) == {"unknown_skill"}
        assert faults(await verified(url, "skill://two/SKILL.md")) == {"unknown_skill"}


async def test_an_entry_for_another_skill_is_refused() -> None:
    app = Hostile([], {"skills/get": Hostile.complete(skill=serve_skill("two").entry)})
    async with running(app) as url:
        assert faults(await verified(url, "skill://one/SKILL.md")) == {"entry_mismatch"}
        app.answers["skills/get"] = Hostile.complete(skill=[])
        assert faults(await verified(url, "skill://one/SKILL.md")) == {"invalid_entry"}
    assert "resources/read" not in [method for method, _ in app.asked]


async def test_a_server_of_the_handshake_era_need_not_declare_the_extension() -> None:
    app = Hostile([serve_skill("one")], {"server/discover": raises(-32601, "?")})
    who = {"name": "old", "version": "1"}
    app.answers["initialize"] = {"protocolVersion": "2025-06-18", "capabilities": {"resources": {}}, "serverInfo": who}
    async with running(app) as url:
        outcome = await verified(url)
        assert (faults(outcome), outcome.protocol) == (set(), "2025-06-18")
        app.answers["skills/list"] = raises(-32601, "?")
        assert faults(await verified(url)) == {"no_skills_extension"}
        app.answers["initialize"] = {**app.answers["initialize"], "protocolVersion": "1999-01-01"}
        assert faults(await verified(url)) == {"not_mcp"}


async def test_a_name_that_two_skills_share_means_both_and_a_uri_one() -> None:
    app = Hostile([serve_skill("a/one"), serve_skill("b/one"), serve_skill("c/two")])
    async with running(app) as url:
        assert len((await verified(url, "one")).results) == 2
        assert len((await verified(url, "skill://a/one/SKILL.md")).results) == 1
        assert len((await verified(url, "one", "two", "skill://a/one/SKILL.md")).results) == 3
