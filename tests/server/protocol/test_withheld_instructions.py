"""No tool hands a model the instructions of a skill that only users may call, nor tells of it by a mistaken name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MakeSkill
from tests.server.sessions import Connect, ConnectHosted

SECRET = "The words that only users hand to a model."  # noqa: S105 - a text to look for
TOOLS = ("skill_context", "skills_status", "reload_skills", "check_tool_call")

FOR_USERS = ["disable-model-invocation: true", "trigger: true"]


@pytest.fixture(params=FOR_USERS)
def hidden(request: pytest.FixtureRequest, make_skill: MakeSkill) -> None:
    """Write one skill for models, and below and beside it such as are for users alone."""
    fields: str = request.param
    make_skill("outer", files={"notes.md": b"notes"})
    make_skill("outer/inner", body=SECRET, fields=fields, files={"inner.md": b"more"})
    other = make_skill("outer/elsewhere", body=SECRET, fields=fields) / "SKILL.md"
    other.write_text(other.read_text().replace("name: elsewhere", "name: mapped"))
    make_skill("deploy-everything", body=SECRET, fields=f"{fields}\ntags: [deploying]", files={"steps.md": b"steps"})


CALLS: list[tuple[str, dict[str, Any]]] = [
    *(
        ("read_skill_file", {"skill": skill, "path": path})
        for skill, path in (
            ("deploy-everything", "SKILL.md"),
            ("deploy-everything", "./SKILL.md"),
            ("deploy-everything", "skill://deploy-everything/SKILL.md"),
            ("skill://deploy-everything/SKILL.md", "SKILL.md"),
            ("outer", "inner/SKILL.md"),
            ("outer", "skill://outer/inner/SKILL.md"),
            ("outer", "elsewhere/SKILL.md"),
            ("inner", "SKILL.md"),
            ("mapped", "SKILL.md"),
        )
    ),
    *(("activate_skill", {"name": name}) for name in ("deploy-everything", "inner", "outer/inner", "mapped")),
    ("find_skills", {"query": "deploy everything, only words, hand to a model"}),
    ("find_skills", {"query": "", "tags": ["deploying"]}),
    ("skill_context", {"message": "/deploy-everything now"}),
    ("skill_context", {"message": "@mapped"}),
    ("skill_context", {"message": "deploy everything"}),
]


@pytest.mark.usefixtures("hidden")
@pytest.mark.parametrize(("tool", "arguments"), CALLS, ids=lambda value: str(value)[:60])
async def test_no_tool_hands_out_the_instructions_of_a_skill_for_users(
    tool: str, arguments: dict[str, Any], skills: Path, in_memory: ConnectHosted
) -> None:
    async with in_memory(skills, tools=TOOLS) as session:
        result = await session.client.call_tool(tool, arguments)
        told = result.model_dump_json()
        assert SECRET not in told
        assert "deploy-everything" not in json.dumps(result.structured_content or {})
        if tool != "find_skills" and arguments != {"message": "deploy everything"}:
            assert result.is_error
            assert "for the user to call" in told


@pytest.mark.usefixtures("hidden")
async def test_what_belongs_to_a_skill_for_users_is_there_once_a_user_called_it(connect: Connect) -> None:
    async with connect() as session:
        prompt = await session.client.get_prompt("deploy-everything")
        assert SECRET in prompt.messages[0].content.text
        for skill, path in (("deploy-everything", "steps.md"), ("outer", "inner/inner.md"), ("inner", "inner.md")):
            assert not (await session.client.call_tool("read_skill_file", {"skill": skill, "path": path})).is_error


@pytest.mark.parametrize("tool", ["activate_skill", "read_skill_file"])
async def test_a_mistaken_name_is_answered_with_names_for_models_alone(
    tool: str, skills: Path, make_skill: MakeSkill, in_memory: ConnectHosted
) -> None:
    make_skill("release-notes")
    make_skill("release-note", fields="disable-model-invocation: true")
    make_skill("release-noted", fields="user-invocable: false")
    async with in_memory(skills) as session:
        arguments = {"name": "release-nots"} if tool == "activate_skill" else {"skill": "release-nots", "path": "x"}
        told = (await session.client.call_tool(tool, arguments)).content[0].text
        assert "'release-notes'" in told
        assert "'release-noted'" in told
        assert "'release-note'" not in told
        with pytest.raises(Exception, match="release-note") as caught:
            await session.client.get_prompt("release-nots")
        assert "'release-noted'" not in str(caught.value)
