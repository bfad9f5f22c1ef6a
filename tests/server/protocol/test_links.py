"""Gemini CLI frames results of tools as untrusted, so its activations link the instructions."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import Implementation

from server.clients.known import KNOWN_CLIENTS, find_client
from server.clients.layout import link_reader_of
from server.config.machine import current_environment
from server.hosting.host import Host
from server.protocol.server import SkillServer
from skills_core.disk.sources import explicit_sources
from skills_core.live.library import Library
from tests.conftest import MakeSkill
from tests.server.sessions import texts_of
from tests.server.settings import make_settings

GEMINI = "gemini-cli-mcp-client"
NAME = "mcp_*_activate_skill"


@asynccontextmanager
async def connected(skills: Path, name: str = GEMINI, **settings: Any) -> AsyncGenerator[Any]:
    host = Host(Library(explicit_sources([skills]), current_environment), make_settings(**settings))
    info = Implementation(name=name, version="0.61.0")
    async with Client(SkillServer(host, local=True), mode="legacy", client_info=info, cache=None) as client:
        yield client


async def listed_uris(client: Any) -> set[str]:
    uris: set[str] = set()
    cursor = None
    while True:
        page = await client.list_resources(cursor=cursor)
        uris |= {str(resource.uri) for resource in page.resources}
        cursor = page.next_cursor
        if cursor is None:
            return uris


@pytest.fixture
def kinds(make_skill: MakeSkill, skills: Path) -> Path:
    """A skill in a folder, a single document and a convention file."""
    make_skill("pdf", body="Fill {{form}}. BODY-MARK", files={"references/forms.md": b"x"})
    (skills / "brief.skill.md").write_text("---\nname: brief\ndescription: d\n---\nBODY-MARK")
    (skills / "project").mkdir()
    (skills / "project" / "AGENTS.md").write_text("BODY-MARK")
    return skills


@pytest.mark.parametrize("name", ["pdf", "brief", "agents"])
async def test_an_activation_links_a_listed_resource_that_holds_the_body(kinds: Path, name: str) -> None:
    async with connected(kinds, page_size=1) as client:
        result = await client.call_tool("activate_skill", {"name": name, "message": "Now."})
        link, _ = result.content
        text, message = texts_of(result)
        assert str(link.uri) in await listed_uris(client)
        assert "BODY-MARK" in (await client.read_resource(str(link.uri))).contents[0].text
    assert (link.type, link.name) == ("resource_link", name)
    assert link.title.startswith(f"Instructions of the skill {name}. Read them now with read_mcp_resource")
    assert "BODY-MARK" not in text
    assert f"The instructions are the resource {link.uri}" in text
    assert "with read_skill_file" in text
    assert "<user_request>\nNow." in message
    assert result.meta["skillserve/skill"]["name"] == name


async def test_a_long_body_is_linked_whole_and_its_link_says_nothing_of_parts(
    make_skill: MakeSkill, skills: Path
) -> None:
    make_skill("long", body="A line of a long body.\n" * 5000)
    async with connected(skills) as client:
        result = await client.call_tool("activate_skill", {"name": "long"})
        link, text = result.content
        assert len((await client.read_resource(str(link.uri))).contents[0].text) > 100_000
        digest = text.text.partition('receipt="')[2].partition('"')[0]
        (again,) = (await client.call_tool("activate_skill", {"name": "long", "have": digest})).content
    assert "rest" not in result.meta["skillserve/skill"]
    assert "offset" not in text.text + again.text
    assert "has not changed" in again.text


@pytest.mark.usefixtures("kinds")
async def test_prompts_and_other_clients_get_the_body_as_text(skills: Path) -> None:
    async with connected(skills) as client:
        prompt = await client.get_prompt("pdf", {"form": "A4"})
        assert "Fill A4. BODY-MARK" in prompt.messages[0].content.text
    for name in ("claude-code", "nobody-knows-it"):
        async with connected(skills, name) as client:
            (text,) = (await client.call_tool("activate_skill", {"name": "pdf"})).content
            assert "BODY-MARK" in text.text
    async with connected(skills, adapt=False) as client:
        (text,) = (await client.call_tool("activate_skill", {"name": "pdf"})).content
        assert "BODY-MARK" in text.text


@pytest.mark.usefixtures("kinds")
async def test_every_text_calls_our_tool_as_gemini_does(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("house-rules", fields="triggers: ['*']")
    async with connected(skills) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        first = (await client.call_tool("activate_skill", {"name": "pdf"})).content[1].text
        digest = first.partition('receipt="')[2].partition('"')[0]
        again = (await client.call_tool("activate_skill", {"name": "pdf", "have": digest})).content[0].text
        error = (await client.call_tool("activate_skill", {"name": "pdf", "wrong": 1})).content[0].text
        texts = [client.instructions, error, again, *(tool.description for tool in tools.values())]
    for text in texts:
        assert "activate_skill" not in text.replace(NAME, "")
    assert f"call {NAME} for it once more" in again
    assert "read it with read_mcp_resource" in texts[0]
    assert "read the resource that it links with read_mcp_resource" in tools["activate_skill"].description


async def test_news_call_our_tool_as_gemini_does(make_skill: MakeSkill, skills: Path) -> None:
    make_skill("pdf")
    host = Host(Library(explicit_sources([skills]), current_environment), make_settings(server_name="tools"))
    info = Implementation(name=GEMINI, version="0.61.0")
    async with Client(SkillServer(host, local=True), mode="legacy", client_info=info, cache=None) as client:
        await client.call_tool("activate_skill", {"name": "pdf"})
        make_skill("pdf", body="Another body.")
        await host.try_reload()
        result: Any = await client.call_tool("find_skills", {"query": "pdf"})
    assert texts_of(result)[-1].endswith("has changed: load it again with mcp_tools_activate_skill.")


def test_only_a_client_that_frames_results_and_not_resources_gets_links() -> None:
    settings = make_settings()
    with_links = [client.key for client in KNOWN_CLIENTS if link_reader_of(client, settings)]
    assert with_links == ["gemini"]
    gemini = find_client("gemini")
    for lacking in (
        gemini._replace(untrusted=None),
        gemini._replace(model_reads=None),
        gemini._replace(toolbox=None),
    ):
        assert link_reader_of(lacking, settings) is None
