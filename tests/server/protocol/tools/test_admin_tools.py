"""The tools and the resource that settings switch on for those who look after a server."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest
from jsonschema import Draft202012Validator
from mcp import StdioServerParameters
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from tests.conftest import MakeSkill
from tests.server.cli.test_status import credential, run, status
from tests.server.sessions import (
    REPOSITORY,
    Connect,
    ConnectHosted,
    Era,
    Session,
    open_session,
    server_command,
    server_environment,
    texts_of,
)

STATUS = "skillserve://status"
BOTH = {"SKILLSERVE_TOOLS": "skills_status,reload_skills"}
UNWATCHED = {**BOTH, "SKILLSERVE_WATCH": "off"}
SKILL_TOOLS = ["activate_skill", "read_skill_file", "find_skills"]


# The SDK's client advises against what this era knows no other way to do.
NEW = "New: comes: Does a thing. Use when the thing is to be done."

old_era = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")


async def answer(session: Session, tool: str, **arguments: Any) -> Any:
    """Return the structured answer of a call, after holding it against its text and its schema."""
    tools = {each.name: each for each in (await session.client.list_tools()).tools}
    result = await session.client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    Draft202012Validator(tools[tool].output_schema).validate(result.structured_content)
    told: dict[str, Any] = {key: value for key, value in result.structured_content.items() if key != "news"}
    assert json.loads(texts_of(result)[0]) == told
    return result.structured_content


async def test_tools_that_nobody_switched_on_are_neither_listed_nor_known(
    connect: Connect, make_skill: MakeSkill
) -> None:
    make_skill("one")
    async with connect() as session:
        assert [tool.name for tool in (await session.client.list_tools()).tools] == SKILL_TOOLS
        for name in ("skills_status", "reload_skills"):
            with pytest.raises(MCPError) as caught:
                await session.client.call_tool(name, {})
            assert caught.value.error.code == INVALID_PARAMS
        with pytest.raises(MCPError) as caught:
            await session.client.read_resource(STATUS)
        assert caught.value.error.code == INVALID_PARAMS
        assert STATUS not in [resource.uri for resource in (await session.client.list_resources()).resources]


async def test_tools_that_are_switched_on_say_what_they_do_to_the_server(
    connect: Connect, make_skill: MakeSkill
) -> None:
    make_skill("one")
    async with connect(**BOTH) as session:
        tools = {tool.name: tool for tool in (await session.client.list_tools()).tools}
        assert list(tools) == [*SKILL_TOOLS, "skills_status", "reload_skills"]
        hints = {
            name: (hint.read_only_hint, hint.destructive_hint, hint.idempotent_hint)
            for name, tool in tools.items()
            if (hint := tool.annotations)
        }
        assert hints["skills_status"] == (True, False, True)
        assert hints["reload_skills"] == (False, False, True)
        for name in ("skills_status", "reload_skills"):
            Draft202012Validator.check_schema(tools[name].input_schema)
            Draft202012Validator.check_schema(tools[name].output_schema)


async def test_where_no_skill_is_active_they_are_there_and_the_tools_for_skills_are_not(
    connect: Connect, make_skill: MakeSkill
) -> None:
    make_skill("broken", description="''")
    async with connect(**BOTH) as session:
        assert [tool.name for tool in (await session.client.list_tools()).tools] == ["skills_status", "reload_skills"]
        assert session.client.instructions is None
        with pytest.raises(MCPError) as caught:
            await session.client.call_tool("find_skills", {"query": "x"})
        assert caught.value.error.code == INVALID_PARAMS
        assert [skill["reason"] for skill in (await answer(session, "skills_status"))["skills"]] == [
            "missing_description"
        ]


async def test_tool_resource_and_command_tell_the_same(connect: Connect, skills: Path, make_skill: MakeSkill) -> None:
    make_skill("one", fields=credential("SOME_TOKEN"))
    make_skill("gated", fields="when: {os: plan9}")
    make_skill("broken", description="''")
    async with connect(**BOTH, SOME_TOKEN="x") as session:  # noqa: S106 - a value nobody may see
        told = await answer(session, "skills_status")
        assert told == status(skills, SOME_TOKEN="x")  # noqa: S106 - likewise
        contents = (await session.client.read_resource(STATUS)).contents
        assert [(each.uri, each.mime_type, json.loads(each.text)) for each in contents] == [
            (STATUS, "application/json", told)
        ]
        listed = (await session.client.list_resources()).resources
        assert (listed[0].uri, listed[0].mime_type) == (STATUS, "application/json")


async def test_the_status_is_in_no_cache_and_private(connect: Connect, era: str) -> None:
    async with connect(**BOTH) as session:
        result = await session.client.read_resource(STATUS)
        expected = (0, "private") if era == "modern" else (None, None)
        raw = result.model_dump(by_alias=True, exclude_unset=True)
        assert (raw.get("ttlMs"), raw.get("cacheScope")) == expected


async def test_arguments_choose_as_the_flags_of_the_command_do(
    connect: Connect, skills: Path, make_skill: MakeSkill
) -> None:
    for name in ("one", "other"):
        make_skill(name)
    make_skill("gated", fields="when: {os: plan9}")
    async with connect(**BOTH) as session:
        told = await answer(session, "skills_status", state=["excluded", "active"], name=["o*", "gat?d"], scope=None)
        assert told == status(skills, "--state", "excluded", "--state", "active", "--name", "o*", "--name", "gat?d")
        assert [skill["name"] for skill in told["skills"]] == ["gated", "one", "other"]
        wrong = await session.client.call_tool("skills_status", {"state": ["on"]})
        assert wrong.is_error
        assert "expected one of active, excluded, shadowed, invalid" in wrong.content[0].text
        refused = await session.client.call_tool("reload_skills", {"name": "one"})
        assert refused.is_error


async def test_a_reload_tells_by_name_what_it_altered_and_every_client_hears_of_it(
    connect: Connect, skills: Path, make_skill: MakeSkill
) -> None:
    for name in ("goes", "stays", "turns"):
        make_skill(name, files={"last.md": b"0"})
    async with connect(subscribe=(STATUS, "skill://stays/last.md"), **UNWATCHED) as session:
        make_skill("comes")
        make_skill("turns", description="''")
        shutil.rmtree(skills / "goes")
        changed = await answer(session, "reload_skills")
        # The call itself brings the news.
        assert [news.splitlines()[1:3] for news in changed.pop("news")] == [[NEW, "Removed: goes, turns."]]
        assert changed == {
            "added": ["comes"],
            "removed": ["goes"],
            "updated": ["turns"],
            "counts": {"added": 1, "removed": 1, "updated": 1},
            "states": {"active": 2, "excluded": 0, "shadowed": 0, "invalid": 1},
        }
        await session.until_all_told(["prompts", "resources", "tools", f"updated {STATUS}"])
        assert await session.enum() == ["comes", "stays"]
        session.told.clear()
        again = await answer(session, "reload_skills")
        assert (again["added"], again["removed"], again["updated"]) == ([], [], [])
        (skills / "stays/last.md").write_bytes(b"1")
        await answer(session, "reload_skills")
        await session.until_told("updated skill://stays/last.md")
        assert session.told == ["updated skill://stays/last.md"]


@old_era
async def test_who_subscribes_to_the_status_hears_of_each_change_of_it_and_of_nothing_else(
    in_memory: ConnectHosted, skills: Path, make_skill: MakeSkill
) -> None:
    folder = make_skill("one", files={"notes.md": b"a"})
    async with in_memory(skills, watch=False, tools=("skills_status",)) as session:
        await session.client.session.subscribe_resource(STATUS)

        async def told_after_reload() -> list[str]:
            session.told.clear()
            await session.host.reload()
            await anyio.wait_all_tasks_blocked()
            return [what for what in sorted(session.told) if what.startswith("updated")]

        (folder / "notes.md").write_text("b")
        assert await told_after_reload() == []
        make_skill("broken", description="''")
        assert await told_after_reload() == [f"updated {STATUS}"]
        shutil.rmtree(skills)
        assert await told_after_reload() == [f"updated {STATUS}"]
        assert (await session.client.read_resource(STATUS)).contents[0].text.count('"missing_directory"') == 1


@old_era
@pytest.mark.parametrize(
    "uri",
    ["skillserve://status/", "skillserve://Status", "skillserve://status?x", "skillserve://other", "skillserve:status"],
)
async def test_no_other_uri_names_the_status(in_memory: ConnectHosted, skills: Path, uri: str) -> None:
    async with in_memory(skills, tools=("skills_status",)) as session:
        for ask in (session.client.read_resource, session.client.session.subscribe_resource):
            with pytest.raises(MCPError) as caught:
                await ask(uri)
            assert caught.value.error.code == INVALID_PARAMS


@old_era
async def test_the_status_cannot_be_subscribed_to_where_it_is_not_switched_on(
    in_memory: ConnectHosted, skills: Path
) -> None:
    async with in_memory(skills, tools=("reload_skills",)) as session:
        assert [tool.name for tool in (await session.client.list_tools()).tools] == ["reload_skills"]
        with pytest.raises(MCPError):
            await session.client.session.subscribe_resource(STATUS)


async def test_flags_name_the_tools_too(skills: Path, era: Era) -> None:
    command, *arguments = server_command(skills, "--tool", "reload_skills", "--tool", "skills_status")
    parameters = StdioServerParameters(command=command, args=arguments, cwd=REPOSITORY, env=server_environment())
    async with open_session(parameters, era) as session:
        tools = (await session.client.list_tools()).tools
        assert [tool.name for tool in tools] == ["skills_status", "reload_skills"]


def test_a_tool_that_does_not_exist_is_wrong_use(skills: Path) -> None:
    assert run("serve", skills, "--tool", "no_such_tool").returncode == 2
    done = run("serve", skills, SKILLSERVE_TOOLS="skills_status, no_such_tool")
    assert done.returncode == 2
    assert "SKILLSERVE_TOOLS: tools" in done.stderr
    assert "'no_such_tool': expected one of skill_context, run_skill_script" in done.stderr
