"""A search that cannot wait for the index of a large library answers from what is indexed, and says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio.to_thread
import pytest

from server.hosting import views
from server.hosting.background import SearchPreparation
from server.hosting.views import COMMON_VIEW
from tests.server.sessions import ConnectHosted, texts_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import MakeSkill


async def test_a_search_says_how_many_skills_were_searched_and_asks_for_the_others_to_be_indexed(
    in_memory: ConnectHosted, make_skill: MakeSkill, skills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "MOST_INDEXED", 2)
    asked: list[None] = []
    monkeypatch.setattr(SearchPreparation, "refresh", lambda _: asked.append(None))
    for name in ("alpha", "beta", "gamma"):
        make_skill(name, description="Sign a form.")
    async with in_memory(skills) as session:
        first = await session.client.call_tool("find_skills", {"query": "form"})
        assert first.structured_content is not None
        assert "0 of 3 skills were searched" in first.structured_content["note"]
        assert first.structured_content["note"] in texts_of(first)[0]
        assert first.structured_content["matches"] == []
        assert asked
        asked.clear()
        await anyio.to_thread.run_sync(session.host.view_called(COMMON_VIEW).prepare_search, lambda: None)
        second = await session.client.call_tool("find_skills", {"query": "form"})
        assert second.structured_content is not None
        assert "note" not in second.structured_content
        assert len(second.structured_content["matches"]) == 3
        assert not asked
