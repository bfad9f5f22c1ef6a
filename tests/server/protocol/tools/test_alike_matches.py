"""Alike skills take one place of a search's result, and all of them can be activated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio.to_thread
import pytest

from server.hosting.views import COMMON_VIEW
from tests.server.sessions import ConnectHosted, texts_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import MakeSkill

BODY = " ".join(f"Write field {number} of the form into row {number * 7}." for number in range(60))


@pytest.fixture
def forked(make_skill: MakeSkill, skills: Path) -> Path:
    for number in range(12):
        tags = "tags: [new]" if number in {3, 4} else "tags: [old]"
        make_skill(f"form-{number:02}", description="Sign a form.", body=f"{BODY} Fork {number}.", fields=tags)
    make_skill("letter", description="Answer a letter that came with some form.", body="Be polite.")
    return skills


async def find(session: Any, **arguments: Any) -> tuple[list[dict[str, Any]], str]:
    result = await session.client.call_tool("find_skills", arguments)
    return result.structured_content["matches"], texts_of(result)[0]


async def test_the_best_of_alike_skills_stands_for_all_and_leaves_its_place_to_others(
    in_memory: ConnectHosted, forked: Path
) -> None:
    async with in_memory(forked) as session:
        await anyio.to_thread.run_sync(session.host.view_called(COMMON_VIEW).prepare_search, lambda: None)
        matches, text = await find(session, query="sign a form", limit=2)
        assert [match["name"] for match in matches] == ["form-00", "letter"]
        assert matches[0]["alike"] == "11 alike: form-01, form-02, form-03, …"
        assert "alike" not in matches[1]
        assert f"; and {matches[0]['alike']}" in text
        for name in ("form-00", "form-11"):
            activated = await session.client.call_tool("activate_skill", {"name": name})
            assert not activated.is_error


async def test_only_skills_with_a_given_tag_are_named_as_alike(in_memory: ConnectHosted, forked: Path) -> None:
    async with in_memory(forked) as session:
        await anyio.to_thread.run_sync(session.host.view_called(COMMON_VIEW).prepare_search, lambda: None)
        (match,), _ = await find(session, query="sign a form", tags=["new"])
        assert (match["name"], match["alike"]) == ("form-03", "1 alike: form-04")


async def test_a_skill_that_was_edited_is_found_by_itself_until_it_is_compared(
    in_memory: ConnectHosted, forked: Path, make_skill: MakeSkill
) -> None:
    async with in_memory(forked) as session:
        view = session.host.view_called(COMMON_VIEW)
        await anyio.to_thread.run_sync(view.prepare_search, lambda: None)
        make_skill("form-05", description="Sign a form.", body="A text of its own.")
        await session.host.reload()
        matches, _ = await find(session, query="sign a form")
        assert {match["name"] for match in matches} == {"form-00", "form-05", "letter"}
        assert {match.get("alike", "")[:8] for match in matches} == {"10 alike", ""}
