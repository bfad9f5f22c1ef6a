"""Every surface that takes the name of a skill takes its `skillKey`, and explains a name that two skills have."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError

from tests.conftest import MakeSkill, write_skill
from tests.server.cli.test_cli import run
from tests.server.sessions import Connect

KEYED = "metadata: {jdai: {skillKey: reviews}}"


@pytest.fixture
def keyed(skills: Path, make_skill: MakeSkill) -> Path:
    """Skills of which one has a stable key, and two have one name."""
    make_skill("code-review", body="Review {{what}}.", fields=KEYED, files={"a.md": b"text"})
    write_skill(skills / "a", "architect", description="Plan a house.")
    write_skill(skills / "b", "architect", description="Plan a <system>.")
    return skills


@pytest.mark.usefixtures("keyed")
async def test_tools_and_prompts_take_the_stable_key(connect: Connect) -> None:
    async with connect() as session:
        by_name = await session.activate("code-review", arguments={"what": "this"})
        async with connect() as other:
            assert await other.activate("reviews", arguments={"what": "this"}) == by_name
        prompt = await session.client.get_prompt("reviews", {"what": "this"})
        assert prompt.messages[0].content.text == f"{by_name}\n\n/code-review"
        read = await session.client.call_tool("read_skill_file", {"skill": "reviews", "path": "a.md"})
        assert read.content[0].text == "text"


@pytest.mark.usefixtures("keyed")
async def test_a_model_that_asks_by_the_name_of_two_skills_learns_their_full_names(connect: Connect) -> None:
    expected = (
        "2 skills are named 'architect'. Use the full name of the one that you mean:\n"
        "- a/architect: Plan a house.\n"
        "- b/architect: Plan a "
    )
    async with connect() as session:
        for tool, arguments in {
            "activate_skill": {"name": "architect"},
            "read_skill_file": {"skill": "architect", "path": "SKILL.md"},
        }.items():
            result = await session.client.call_tool(tool, arguments)
            assert result.is_error
            assert result.content[0].text.startswith(expected)
        with pytest.raises(MCPError, match="2 skills are named 'architect'"):
            await session.client.get_prompt("architect", {})


async def test_a_skill_for_users_is_not_among_the_full_names_for_a_model(connect: Connect, skills: Path) -> None:
    write_skill(skills / "a", "architect", description="Secret.", fields="disable-model-invocation: true")
    write_skill(skills / "b", "architect")
    async with connect() as session:
        result = await session.client.call_tool("activate_skill", {"name": "architect"})
    assert result.content[0].text == "There is no active skill 'architect'. Did you mean 'b/architect'?"


def test_commands_take_the_stable_key_and_list_the_full_names(keyed: Path) -> None:
    by_name, by_key = (run("activate", name, str(keyed)) for name in ("code-review", "reviews"))
    assert by_name.stdout == by_key.stdout
    assert '"name": "code-review"' in run("show", "reviews", str(keyed), "--json").stdout
    refused = run("activate", "architect", str(keyed))
    assert refused.returncode == 1
    assert "- a/architect: Plan a house.\n- b/architect: Plan a <system>." in refused.stderr


async def test_a_stable_key_does_not_answer_for_an_excluded_skill_of_this_name(
    connect: Connect, make_skill: MakeSkill
) -> None:
    make_skill("deploy", fields="When: {os: linux}")
    make_skill("thief", fields="metadata: {jdai: {skillKey: deploy}}")
    async with connect() as session:
        result = await session.client.call_tool("activate_skill", {"name": "deploy"})
        assert result.is_error
        assert "it is excluded (unreadable_condition: unknown field 'When'; did you mean 'when'?)" in (
            result.content[0].text
        )
        with pytest.raises(MCPError, match="no active skill 'deploy'"):
            await session.client.get_prompt("deploy", {})
