"""What a host is told of a call that it is about to make."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from server.capabilities.guard.settings import GuardSettings
from server.config.files import ConfigurationError
from server.config.settings.layers import load_settings
from tests.conftest import write_skill
from tests.server.sessions import Connect, ConnectHosted, Session

ON = {"SKILLSERVE_TOOLS": "check_tool_call"}


async def ask(session: Session, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    result = await session.client.call_tool("check_tool_call", {"tool": tool, "arguments": arguments})
    assert not result.is_error, result.content
    answer: dict[str, Any] = result.structured_content
    listed = {entry.name: entry for entry in (await session.client.list_tools()).tools}
    Draft202012Validator(listed["check_tool_call"].output_schema).validate(answer)
    return answer


async def test_active_skills_decide_on_calls_of_any_tool(connect: Connect, skills: Path) -> None:
    write_skill(skills, "sql", fields="danger_patterns: ['DROP TABLE']\nconfirm_patterns: ['^query .*DELETE']")
    write_skill(skills, "off", fields="danger_patterns: [SELECT]\nwhen: {requires: {env: [NO_SUCH_VARIABLE]}}")
    async with connect(**ON) as session:
        denied = await ask(session, "query", {"sql": "DROP TABLE x"})
        assert (denied["decision"], denied["pattern"], denied["skill"]) == ("deny", "DROP TABLE", "sql")
        assert "calls dangerous" in denied["reason"]
        assert (await ask(session, "query", {"sql": "DELETE FROM x"}))["decision"] == "confirm"
        assert await ask(session, "query", {"sql": "SELECT 1"}) == {
            "decision": "allow",
            "reason": None,
            "pattern": None,
            "skill": None,
        }


async def test_a_pattern_that_is_written_while_serving_counts_at_once(in_memory: ConnectHosted, skills: Path) -> None:
    write_skill(skills, "a")
    async with in_memory(skills, watch=False, tools=("check_tool_call",)) as session:
        assert (await ask(session, "sh", {"c": "ls"}))["decision"] == "allow"
        write_skill(skills, "a", fields="danger_patterns: [ls]")
        await session.host.reload()
        assert (await ask(session, "sh", {"c": "ls"}))["decision"] == "deny"


async def test_the_users_own_patterns_count_without_any_skill(in_memory: ConnectHosted, skills: Path) -> None:
    settings = {"danger_patterns": ("rm -rf",), "confirm_patterns": ("git push",)}
    async with in_memory(skills, tools=("check_tool_call",), **settings) as session:
        assert (await ask(session, "sh", {"c": "rm -rf /"}))["skill"] is None
        assert (await ask(session, "sh", {"c": "git push"}))["decision"] == "confirm"


async def test_the_tool_is_there_only_where_it_is_switched_on(in_memory: ConnectHosted, skills: Path) -> None:
    write_skill(skills, "a")
    async with in_memory(skills) as session:
        assert "check_tool_call" not in {tool.name for tool in (await session.client.list_tools()).tools}


@pytest.mark.parametrize("arguments", [{"tool": "x"}, {"tool": "x", "arguments": "ls"}, {"arguments": {}}])
async def test_a_question_that_lacks_something_is_told_what(
    in_memory: ConnectHosted, skills: Path, arguments: dict[str, Any]
) -> None:
    async with in_memory(skills, tools=("check_tool_call",)) as session:
        result = await session.client.call_tool("check_tool_call", arguments)
        assert result.is_error
        assert re.match(r"arguments (must be|is missing)|tool is missing", result.content[0].text)


def test_patterns_of_the_configuration_stand_in_the_users_own_file(tmp_path: Path) -> None:
    own = tmp_path / "config" / "skillserve" / "skillserve.toml"
    own.parent.mkdir(parents=True)
    own.write_text("[guard]\ndanger_patterns = ['a{1,2}']\n")
    assert load_settings({}, {}, tmp_path / "config").section(GuardSettings).danger_patterns == ("a{1,2}",)
    own.write_text("[guard]\nconfirm_patterns = ['(?=x)']\n")
    with pytest.raises(ConfigurationError, match=r"skillserve\.toml: guard\.confirm_patterns\.0: .*cannot be used"):
        load_settings({}, {}, tmp_path / "config")
