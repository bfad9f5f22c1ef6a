"""The tool `new_skills_N`: news for a client that shows its model tools of new names, but no changed ones."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from server.clients.known import KNOWN_CLIENTS
from tests.conftest import write_skill
from tests.server.sessions import ConnectHosted, Session, texts_of

HEAD = "The list of skills has changed since you received it."
TAKES = "activate_skill takes the new names too."


@pytest.fixture
def skills(skills: Path) -> Path:
    write_skill(skills, "a", "Does a.")
    write_skill(skills, "b", "Does b.")
    return skills


async def tools_of(session: Session) -> dict[str, Any]:
    return {tool.name: tool for tool in (await session.client.list_tools()).tools}


OWN = ["activate_skill", "read_skill_file", "find_skills"]
OTHERS = [client.names[0] for client in KNOWN_CLIENTS if client.names and client.key != "claude-code"]


@pytest.mark.parametrize("modern", [False, True])
async def test_claude_code_has_a_tool_of_a_new_name_while_there_is_news(
    in_memory: ConnectHosted, skills: Path, *, modern: bool
) -> None:
    async with in_memory(skills, watch=False, client_name="claude-code", modern=modern) as session:
        assert [*await tools_of(session)] == OWN
        text = f"{HEAD}\nNew: n: Does new things.\n{TAKES}"
        write_skill(skills, "n", "Does new things.")
        await session.host.reload()
        # Fetching the list again takes nothing away.
        await tools_of(session)
        *_, entry = (await tools_of(session)).values()
        assert entry.name == "new_skills_1"
        assert entry.description == f"{text}\nThis tool only brings this news: there is no need to call it."
        assert entry.meta == {"anthropic/alwaysLoad": True}
        assert entry.annotations.read_only_hint
        result = await session.client.call_tool("read_skill_file", {"skill": "a", "path": "SKILL.md"})
        assert texts_of(result)[1] == text
        assert [*await tools_of(session)] == OWN


async def test_the_news_tool_tells_the_news_under_an_older_number_too(in_memory: ConnectHosted, skills: Path) -> None:
    async with in_memory(skills, watch=False, client_name="claude-code") as session:
        await tools_of(session)
        for name in ("n", "m"):
            write_skill(skills, name, f"Does {name}.")
            await session.host.reload()
        assert [*await tools_of(session)][-1] == "new_skills_2"
        told = await session.client.session.call_tool("new_skills_1", {})
        assert texts_of(told) == [
            "This is new:",
            f"{HEAD}\nNew: m: Does m.\nNew: n: Does n.\n{TAKES}",
        ]
        again = await session.client.session.call_tool("new_skills_2", {})
        assert texts_of(again) == ["There is no further news of skills."]


async def test_without_skills_there_is_no_news_tool(in_memory: ConnectHosted, skills: Path) -> None:
    async with in_memory(skills, watch=False, client_name="claude-code") as session:
        await tools_of(session)
        for name in ("a", "b"):
            shutil.rmtree(skills / name)
        await session.host.reload()
        assert [*await tools_of(session)] == []


@pytest.mark.parametrize("name", [*OTHERS, "test"])
async def test_no_other_client_has_a_news_tool(in_memory: ConnectHosted, skills: Path, name: str) -> None:
    async with in_memory(skills, watch=False, client_name=name) as session:
        await tools_of(session)
        write_skill(skills, "n")
        await session.host.reload()
        assert [*await tools_of(session)] == OWN
        with pytest.raises(MCPError, match="Unknown tool: new_skills_1"):
            await session.client.session.call_tool("new_skills_1", {})


@pytest.mark.parametrize("end", ["", "x", "1x", "9" * 19, "\u0661"])
async def test_what_only_begins_like_the_news_tool_is_unknown(in_memory: ConnectHosted, skills: Path, end: str) -> None:
    async with in_memory(skills, watch=False, client_name="claude-code") as session:
        with pytest.raises(MCPError, match="Unknown tool"):
            await session.client.session.call_tool(f"new_skills_{end}", {})
