"""Calls that patterns want consent for: the user is asked at the real server, in both eras and over both transports."""

from __future__ import annotations

from typing import Any

import mcp_types as types

from skills_core.testing import Call
from tests.conftest import MakeSkill
from tests.model_endpoint import ModelEndpoint
from tests.server.conversation.clients import Callbacks
from tests.server.protocol.tools.test_run_skill import Served, served

__all__ = ["served"]

FIELDS = """confirm_patterns: ['"n":14', '--force']
tools:
- name: double
  description: Doubles a number.
  script: double.py
  parameters: {type: object, properties: {n: {type: integer}}, required: [n]}
"""
FILES = {
    "double.py": b"import json, sys; print(json.load(sys.stdin)['n'] * 2)",
    "hello.py": b"import sys; print('ran with', *sys.argv[1:])",
}

ASKED = "skillserve asks for your consent to a tool call that uses the skill 'numbers':\n> "

ANSWERS = [("accept", {"allow": True}), ("accept", {"allow": False}), ("decline", None), ("cancel", None)]


def peer(*answers: tuple[Any, Any]) -> Callbacks:
    """Return a client whose user gives these answers, one after the other."""
    given = iter(answers)

    async def elicit(_: object) -> Any:
        action, content = next(given)
        return types.ElicitResult(action=action, content=content)

    return Callbacks(elicit=elicit)


async def test_a_declared_tool_is_carried_out_when_the_user_agrees(make_skill: MakeSkill, served: Served) -> None:
    make_skill("numbers", fields=FIELDS, files=FILES)
    user = peer(*ANSWERS)
    async with served(user, skill_tools="numbers/*") as client:
        for number, (_, content) in enumerate(ANSWERS, 1):
            result = await client.call_tool("numbers__double", {"n": 14})
            agreed = content == {"allow": True}
            assert (not result.is_error, result.content[0].text == "28") == (agreed, agreed)
            assert len(user.asked) == number
            assert user.asked[-1].startswith(ASKED)
            assert '{"n":14}' in user.asked[-1]


async def test_a_script_runs_when_the_user_agrees(make_skill: MakeSkill, served: Served) -> None:
    make_skill("numbers", fields=FIELDS, files=FILES)
    user = peer(*ANSWERS)
    async with served(user, tools="run_skill_script") as client:
        for number, (_, content) in enumerate(ANSWERS, 1):
            arguments = {"skill": "numbers", "path": "hello.py", "args": ["--force"]}
            result = await client.call_tool("run_skill_script", arguments)
            agreed = content == {"allow": True}
            assert (not result.is_error, "ran with --force" in str(result.content)) == (agreed, agreed)
            assert len(user.asked) == number
            assert user.asked[-1].startswith(ASKED)
            assert "--force" in user.asked[-1]


async def test_where_nobody_can_be_asked_nothing_is_carried_out(make_skill: MakeSkill, served: Served) -> None:
    make_skill("numbers", fields=FIELDS, files=FILES)
    async with served(tools="run_skill_script", skill_tools="numbers/*") as client:
        results = [
            await client.call_tool("numbers__double", {"n": 14}),
            await client.call_tool("run_skill_script", {"skill": "numbers", "path": "hello.py", "args": ["--force"]}),
        ]
    for result, reason in zip(results, ("No user can be asked", "This client cannot ask the user"), strict=True):
        assert result.is_error
        assert reason in result.content[0].text


async def test_a_run_asks_the_user_and_goes_on_with_the_answer(
    make_skill: MakeSkill, served: Served, endpoint: ModelEndpoint
) -> None:
    make_skill("numbers", fields=FIELDS, files=FILES)
    endpoint.script = [Call("double", {"n": 14}), "28, then"]
    user = peer(ANSWERS[0])
    async with served(user, model=endpoint.model, skill_tools="numbers/*") as client:
        result = await client.call_tool("run_skill", {"name": "numbers", "message": "double 14"})
    assert result.structured_content["tool_calls"] == [{"tool": "double", "decision": "done", "reason": ""}]
    assert result.structured_content["output"] == "28, then"
    (asked,) = user.asked
    assert asked.startswith("skillserve asks for your consent to what a run of the skill 'numbers' wants:\n> ")


async def test_without_forms_consent_is_a_further_call(
    make_skill: MakeSkill, served: Served, endpoint: ModelEndpoint
) -> None:
    make_skill("numbers", fields=FIELDS, files=FILES)
    endpoint.script = [Call("double", {"n": 14}), "28, then"]
    async with served(model=endpoint.model, skill_tools="numbers/*") as client:
        first = await client.call_tool("run_skill", {"name": "numbers", "message": "double 14"})
        assert first.structured_content["status"] == "needs_consent"
        second = await client.call_tool("run_skill", {"confirm": first.structured_content["confirm"]})
    assert second.structured_content["output"] == "28, then"
    assert second.structured_content["tool_calls"][0]["decision"] == "done"
