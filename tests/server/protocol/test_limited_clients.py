"""Clients that make a tool of each prompt or resource, and clients that the news of a changed list stops."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPDeprecationWarning

from tests.conftest import MakeSkill
from tests.server.sessions import Connect, ConnectHosted

EDITED = "skill://one/last.md"


async def on_sample(_context: object, _params: object) -> types.ErrorData:
    return types.ErrorData(code=types.INVALID_REQUEST, message="never asked")


@pytest.mark.parametrize("name", ["mcp-use", "nobody-knows-it"])
async def test_prompts_and_resources_are_not_listed_where_each_would_be_a_tool(
    connect: Connect, make_skill: MakeSkill, name: str
) -> None:
    make_skill("one")
    listed = name != "mcp-use"
    async with connect(client_name=name) as session:
        assert bool((await session.client.list_prompts()).prompts) is listed
        assert bool((await session.client.list_resources()).resources) is listed
        # What is not listed can be used all the same.
        assert (await session.client.get_prompt("one", {})).messages
        assert (await session.client.read_resource("skill://one/SKILL.md")).contents


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize("samples", [False, True])
async def test_frameworks_that_sample_are_listed_no_prompts_but_all_resources(
    in_memory: ConnectHosted,
    skills: Path,
    make_skill: MakeSkill,
    samples: bool,  # noqa: FBT001 - pytest passes it by name
    modern: bool,  # noqa: FBT001
) -> None:
    make_skill("one")
    callback = on_sample if samples else None
    async with in_memory(skills, client_name="mcp", on_sample=callback, modern=modern) as session:
        assert bool((await session.client.list_prompts()).prompts) is not samples
        assert (await session.client.list_resources()).resources


async def test_an_empty_list_has_no_further_page(in_memory: ConnectHosted, skills: Path, make_skill: MakeSkill) -> None:
    for name in ("one", "two", "three"):
        make_skill(name)
    async with in_memory(skills, client_name="mcp-use", page_size=1) as session:
        assert (await session.client.list_prompts()).next_cursor is None
        assert (await session.client.list_resources()).next_cursor is None


@pytest.mark.parametrize(("samples", "lists_prompts"), [(False, True), (True, False), (True, True)])
async def test_a_framework_that_stalls_is_told_of_no_changed_list_but_of_its_resources(
    in_memory: ConnectHosted,
    skills: Path,
    make_skill: MakeSkill,
    samples: bool,  # noqa: FBT001 - pytest passes it by name
    lists_prompts: bool,  # noqa: FBT001
) -> None:
    stalls = samples and lists_prompts
    one = make_skill("one", files={"last.md": b"0"})
    options: dict[str, Any] = {"on_sample": on_sample} if samples else {}
    async with in_memory(skills, client_name="mcp", watch=False, **options) as session:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            await session.client.subscribe_resource(EDITED)
        await session.client.list_tools()
        if lists_prompts:
            await session.client.list_prompts()
        make_skill("two")
        await session.host.reload()
        await anyio.wait_all_tasks_blocked()
        (one / "last.md").write_bytes(b"1")
        await session.host.reload()
        # It is sent after the news of the lists.
        await session.until_told(f"updated {EDITED}")
        assert ("tools" in session.told, "prompts" in session.told) == (not stalls, not stalls)
