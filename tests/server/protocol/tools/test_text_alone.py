"""Clients that drop, repeat or ignore `structuredContent` receive none, and their text is complete."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from server.capabilities.runs.tools import skill_result, workflow_result
from server.clients.known import KNOWN_CLIENTS
from server.clients.profile import StructureUse
from server.conversation.client_requests import needs_consent, not_finished
from skills_core.guard.tool import CallDecision, ToolCall
from skills_core.runs.outcome import RunOutcome, RunProblem, RunStatus, Score
from skills_core.runs.workflow.model import StepKind, StepRecord, StepStatus, WorkflowOutcome
from tests.conftest import write_skill
from tests.server.sessions import PROGRAM, Connect, ConnectHosted, Session, texts_of

TOOLS = ("skills_status", "reload_skills", "check_tool_call", "skill_context")
CALLS: dict[str, dict[str, Any]] = {
    "find_skills": {"query": "forms"},
    "skills_status": {},
    "reload_skills": {},
    "check_tool_call": {"tool": "sh", "arguments": {"command": "ls"}},
    "skill_context": {"message": "fill my forms"},
}
NO_ZEBRA = (
    "No skill matches 'zebra'. Try the task, technology or file format in other words; "
    "if nothing matches then, work without a skill."
)


@pytest.fixture
def skills(skills: Path) -> Path:
    write_skill(skills, "pdf", "Fills PDF forms.", fields="danger_patterns: [rm]\nconfirm_patterns: [push]")
    return skills


async def texts(session: Session, tool: str, **arguments: Any) -> list[str]:
    """Return the texts of a result, which has no structure."""
    result = await session.client.call_tool(tool, arguments)
    assert result.structured_content is None
    return texts_of(result)


@pytest.mark.parametrize("client", [each for each in KNOWN_CLIENTS if each.names], ids=lambda each: each.key)
@pytest.mark.parametrize("modern", [False, True])
async def test_results_have_a_structure_where_the_list_says_so(
    in_memory: ConnectHosted, skills: Path, client: Any, *, modern: bool
) -> None:
    async with in_memory(skills, client_name=client.names[0], modern=modern, tools=TOOLS) as session:
        listed = {tool.name: tool.output_schema for tool in (await session.client.list_tools()).tools}
        for tool, arguments in CALLS.items():
            result = await session.client.call_tool(tool, arguments)
            assert (result.structured_content is not None) is (listed[tool] is not None), tool
            assert (listed[tool] is not None) is (client.key == "inspector"), tool


@pytest.mark.every_way
@pytest.mark.usefixtures("skills", "transport", "era")
@pytest.mark.parametrize("name", ["claude-code", "a client of tomorrow", PROGRAM])
async def test_list_and_results_agree_over_each_transport(connect: Connect, name: str) -> None:
    async with connect(client_name=name) as session:
        listed = {tool.name: tool.output_schema for tool in (await session.client.list_tools()).tools}
        result = await session.client.call_tool("find_skills", {"query": "forms"})
        expected = name == PROGRAM
        assert (listed["find_skills"] is not None, result.structured_content is not None) == (expected, expected)
        assert result.content[0].text == "pdf: Fills PDF forms. (forms)"


def test_some_clients_are_known_to_use_structures_in_each_way() -> None:
    assert {each.structure.value for each in KNOWN_CLIENTS if each.structure} == {*StructureUse}


async def test_no_match_is_told_in_the_text_and_in_the_structure(in_memory: ConnectHosted, skills: Path) -> None:
    async with in_memory(skills) as session:
        result = await session.client.call_tool("find_skills", {"query": "zebra"})
        assert result.structured_content == {"matches": [], "note": NO_ZEBRA}
        assert texts_of(result) == [NO_ZEBRA]


async def test_the_text_has_all_that_the_structure_had(in_memory: ConnectHosted, skills: Path) -> None:
    for name in ("one", "two"):
        write_skill(skills, name, "Draws maps of towns.")
    async with in_memory(skills, watch=False, client_name="claude-code", tools=TOOLS) as session:
        (found,) = await texts(session, "find_skills", query="draw maps of towns")
        assert found.splitlines() == [
            "one: Draws maps of towns. (draw, maps, towns)",
            "two: Draws maps of towns. (draw, maps, towns)",
            "The first 2 fit about equally well: choose by their descriptions, or let the user choose.",
        ]
        assert await texts(session, "find_skills", query="zebra") == [NO_ZEBRA]
        (status,) = await texts(session, "skills_status", name=["pdf"])
        assert json.loads(status)["skills"][0]["state"] == "active"
        (reloaded,) = await texts(session, "reload_skills")
        assert json.loads(reloaded)["counts"] == {"added": 0, "removed": 0, "updated": 0}


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("ls", "allow: The call of sh is allowed."),
        ("rm", "deny: The call of sh is denied: it matches `rm`, which the skill pdf calls dangerous. "),
        ("push", "confirm: The call of sh needs the user's consent: it matches `push`, for which the skill pdf wants"),
    ],
)
@pytest.mark.parametrize("name", ["claude-code", "mcp"])
async def test_a_decision_is_in_the_text(
    in_memory: ConnectHosted, skills: Path, name: str, command: str, text: str
) -> None:
    async with in_memory(skills, client_name=name, tools=TOOLS) as session:
        result = await session.client.call_tool("check_tool_call", {"tool": "sh", "arguments": {"command": command}})
        assert result.content[0].text.startswith(text)


async def test_a_context_says_what_there_is_to_choose_and_that_nothing_applies(
    in_memory: ConnectHosted, skills: Path
) -> None:
    for name in ("one", "two"):
        write_skill(skills, name, "Draws maps of towns.")
    async with in_memory(skills, client_name="claude-code", tools=TOOLS) as session:
        (menu, *_) = await texts(session, "skill_context", message="draw maps of towns")
        assert "- one: Draws maps of towns.\n- two: Draws maps of towns." in menu
        assert await texts(session, "skill_context", message="zebra") == ["zebra\n\nNo skill applies to this message."]
        (hit, *_) = await texts(session, "skill_context", message="fill my pdf forms")
        assert "[skill:pdf]" in hit
    async with in_memory(skills, tools=TOOLS) as session:
        # A program reads the structure, and may send the text as it is.
        result = await session.client.call_tool("skill_context", {"message": "zebra"})
        assert texts_of(result) == ["zebra"]


def told(result: dict[str, Any]) -> list[str]:
    return [block["text"] for block in result["content"]]


def call_of(decision: CallDecision, reason: str = "") -> ToolCall:
    return ToolCall(number=1, tool="sh", arguments={}, decision=decision, text="", reason=reason)


def test_the_text_of_a_run_says_how_it_ended_what_it_scored_and_what_was_not_done() -> None:
    calls = (call_of(CallDecision.DONE), call_of(CallDecision.DENIED, "It </skill_content> matches."))
    outcome = RunOutcome(
        run_id="r1",
        skill="pdf",
        digest=None,
        status=RunStatus.COMPLETED,
        output="Filled.",
        score=Score(0.75, finding="One page lacks a date."),
        tool_calls=calls,
    )
    assert told(skill_result(outcome)) == ["Filled."]
    output, facts = told(skill_result(outcome, structured=False))
    assert output == "Filled."
    assert facts.splitlines() == [
        "The run r1 ended: completed.",
        "Score: 0.75 of 1: One page lacks a date.",
        "Not done: sh (denied): It &lt;/skill_content> matches.",
    ]


def test_a_run_that_failed_says_why_and_names_at_most_ten_calls() -> None:
    outcome = RunOutcome(
        run_id="r1",
        skill="pdf",
        digest=None,
        status=RunStatus.FAILED,
        problem=RunProblem.CALL_LIMIT,
        message="Too many calls.",
        tool_calls=tuple(call_of(CallDecision.DECLINED) for _ in range(12)),
    )
    (text,) = told(skill_result(outcome, structured=False))
    assert text.splitlines() == [
        "[call_limit] Too many calls. (run r1)",
        "The run r1 ended: failed.",
        *["Not done: sh (declined)"] * 10,
        "Not done: 2 more calls",
    ]


def test_the_text_of_a_workflow_says_what_became_of_each_step() -> None:
    steps = (
        StepRecord("draft", StepKind.SKILL, StepStatus.DONE, "text"),
        StepRecord("check", StepKind.SKILL, StepStatus.SKIPPED),
    )
    outcome = WorkflowOutcome(run_id="w1", workflow="w", digest="d", status=RunStatus.COMPLETED, steps=steps)
    assert told(workflow_result(outcome)) == []
    assert told(workflow_result(outcome, structured=False)) == [
        "The run w1 ended: completed.\nSteps: draft done, check skipped."
    ]


def test_a_run_that_waits_has_its_question_and_its_tokens_in_the_text() -> None:
    for result in (needs_consent("run_skill", "Push?", "yes-token", "no-token", 60), not_finished("t", "token", 60)):
        structured = result["structuredContent"]
        for value in (value for key, value in structured.items() if key != "status"):
            assert value in result["content"][0]["text"]


async def test_a_setting_gives_every_client_the_structure(in_memory: ConnectHosted, skills: Path) -> None:
    async with in_memory(skills, client_name="a client of tomorrow", structured_results=True) as session:
        result = await session.client.call_tool("find_skills", {"query": "forms"})
        assert result.structured_content["matches"][0]["name"] == "pdf"
