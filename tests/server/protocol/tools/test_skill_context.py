"""The prompt `with_skills` and the tool `skill_context`: what goes with a message, for clients."""

from __future__ import annotations

import json
import logging
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, PromptReference

from server.config.machine import current_environment
from server.config.settings.model import Settings
from server.hosting.usage import UsageCounts, read_counts
from server.listing.snapshot import Snapshot
from skills_core import Catalog, Library, explicit_sources
from skills_core.context.injection import MAX_INJECTED_CHARS
from tests.conftest import MakeSkill
from tests.server.sessions import Connect, ConnectHosted, Session, texts_of
from tests.server.settings import make_settings

TOOL = {"SKILLSERVE_TOOLS": "skill_context"}
PDF = "Fill PDF forms."


@pytest.fixture
def skills(make_skill: MakeSkill) -> Path:
    make_skill("brief", body="Be brief.", fields='triggers: ["*"]')
    make_skill("git", body="Small commits.", fields="triggers: [commit]")
    return make_skill("pdf", description=PDF, body="Open {{arguments}}.", files={"notes.md": b"n"}).parent


async def context(session: Session, message: str) -> Any:
    """Return the answer of the tool, after holding it against its schema and the prompt."""
    tools = {each.name: each for each in (await session.client.list_tools()).tools}
    result = await session.client.call_tool("skill_context", {"message": message})
    assert not result.is_error, result.content
    Draft202012Validator(tools["skill_context"].output_schema).validate(result.structured_content)
    texts = texts_of(result)
    assert result.structured_content["text"] == "\n\n".join(texts)
    assert await with_skills(session, message) == result.structured_content["text"]
    return result.structured_content


async def with_skills(session: Session, message: str) -> str:
    (told,) = (await session.client.get_prompt("with_skills", {"message": message})).messages
    assert told.role == "user"
    return str(told.content.text)


def names(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["name"] for entry in entries]


async def test_prompt_and_tool_give_the_section_the_hit_and_the_message(connect: Connect) -> None:
    async with connect(**TOOL) as session:
        told = await context(session, "Commit, then fill my pdf forms")
        assert names(told["always"]) == ["brief"]
        assert [(each["name"], each["triggers"]) for each in told["triggered"]] == [("git", ["commit"])]
        assert (told["selected"]["name"], told["selected"]["band"]) == ("pdf", "high")
        assert told["selected"]["digest"].startswith("sha256:")
        assert (told["menu"], told["called"], told["left_out"]) == ([], None, [])
        text = told["text"]
        section, block = text.index("<skills>"), text.index("[skill:pdf]\nOpen {{arguments}}.\n[/skill]")
        assert section < block < text.index("<user_request>\nCommit, then fill my pdf forms\n</user_request>")


async def test_a_slash_call_is_answered_with_the_bytes_of_the_tool_and_the_users_words(connect: Connect) -> None:
    async with connect(**TOOL) as session:
        told = await context(session, " /pdf tax form")
        assert (told["called"]["name"], told["selected"], told["menu"]) == ("pdf", None, [])
        text = await with_skills(session, "/pdf tax form")
        activated = await session.client.call_tool(
            "activate_skill", {"name": "pdf", "arguments": {"arguments": "tax form"}}
        )
        of_tool = "\n\n".join(block.text for block in activated.content)
        assert text.endswith(f"</skills>\n\n{of_tool}")
        assert "Open tax form." in of_tool
        (message,) = (await session.client.get_prompt("pdf", {"arguments": "tax form"})).messages
        assert message.content.text == of_tool
        assert (await with_skills(session, "@pdf")).endswith("\n\n@pdf")


async def test_where_the_first_ones_lie_close_together_a_menu_is_named(connect: Connect, make_skill: MakeSkill) -> None:
    make_skill("pdf-too", description=PDF, body="Shut {{arguments}}.")
    make_skill("pdf", description=PDF, body="Shut {{arguments}}.")
    make_skill("pdf-two", description=PDF, body="Shut {{arguments}}.")
    async with connect(**TOOL) as session:
        told = await context(session, "fill forms")
        assert told["selected"] is None
        assert sorted(names(told["menu"])) == ["pdf", "pdf-too", "pdf-two"]
        assert "Shut" not in told["text"]


async def test_what_nothing_goes_with_comes_back_as_it_is(connect: Connect, skills: Path) -> None:
    shutil.rmtree(skills / "brief")
    async with connect(**TOOL) as session:
        told = await context(session, "zebra")
        assert told == {
            "text": "zebra",
            "always": [],
            "triggered": [],
            "left_out": [],
            "menu": [],
            "called": None,
            "selected": None,
        }


async def test_the_hit_is_cut_at_the_setting(connect: Connect, make_skill: MakeSkill) -> None:
    make_skill("pdf", description=PDF, body="é" * 100)
    async with connect(**TOOL, SKILLSERVE_MAX_INJECTED_CHARS="7") as session:
        assert f"[skill:pdf]\n{'é' * 7}\n[/skill]" in (await context(session, "fill pdf forms"))["text"]


async def test_who_did_not_ask_for_the_tool_has_the_prompt_alone(connect: Connect) -> None:
    async with connect() as session:
        assert [tool.name for tool in (await session.client.list_tools()).tools] == [
            *("activate_skill", "read_skill_file", "find_skills")
        ]
        with pytest.raises(MCPError) as caught:
            await session.client.call_tool("skill_context", {"message": "x"})
        assert caught.value.error.code == INVALID_PARAMS
        prompts = {prompt.name: prompt for prompt in (await session.client.list_prompts()).prompts}
        assert list(prompts) == ["brief", "git", "pdf", "with_skills"]
        assert [(each.name, each.required) for each in prompts["with_skills"].arguments] == [("message", True)]
        found = await session.client.complete(PromptReference(name="with_skills"), {"name": "message", "value": "x"})
        assert found.completion.values == []


async def test_the_tool_says_that_it_only_reads(connect: Connect) -> None:
    async with connect(**TOOL) as session:
        tool = (await session.client.list_tools()).tools[-1]
        assert tool.name == "skill_context"
        hints = tool.annotations
        assert (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint) == (True, False, True)
        Draft202012Validator.check_schema(tool.input_schema)
        Draft202012Validator.check_schema(tool.output_schema)


async def test_a_message_is_needed_and_has_a_bound(connect: Connect) -> None:
    wrong: list[dict[str, str]] = [{}, {"text": "x"}, {"message": "x" * 100_001}]
    async with connect(**TOOL) as session:
        for arguments in wrong:
            result = await session.client.call_tool("skill_context", arguments)
            assert result.is_error
            assert "message" in result.content[0].text
            with pytest.raises(MCPError) as caught:
                await session.client.get_prompt("with_skills", arguments)
            assert caught.value.error.code == INVALID_PARAMS


async def test_the_longest_message_is_answered(in_memory: ConnectHosted, skills: Path) -> None:
    async with in_memory(skills, tools=("skill_context",)) as session:
        for message in ("x" * 100_000, "/ " * 50_000, "[skill" * 16_000, "漢" * 100_000, "</user_request" * 7_000):
            assert (await context(session, message))["always"]


async def test_without_a_skill_for_models_neither_is_there(
    connect: Connect, skills: Path, make_skill: MakeSkill
) -> None:
    for folder in list(skills.iterdir()):
        shutil.rmtree(folder)
    make_skill("manual", fields="disable-model-invocation: true")
    async with connect(**TOOL) as session:
        assert [prompt.name for prompt in (await session.client.list_prompts()).prompts] == ["manual"]
        assert [tool.name for tool in (await session.client.list_tools()).tools] == ["read_skill_file"]
        with pytest.raises(MCPError):
            await session.client.get_prompt("with_skills", {"message": "x"})
        with pytest.raises(MCPError):
            await session.client.call_tool("skill_context", {"message": "x"})


async def test_the_prompt_comes_and_goes_with_the_first_skill_for_models(
    connect: Connect, skills: Path, make_skill: MakeSkill
) -> None:
    for folder in list(skills.iterdir()):
        shutil.rmtree(folder)
    async with connect(**TOOL) as session:
        make_skill("quiet", fields="user-invocable: false")
        await session.until_told("prompts")
        assert [prompt.name for prompt in (await session.client.list_prompts()).prompts] == ["with_skills"]
        session.told.clear()
        shutil.rmtree(skills / "quiet")
        await session.until_told("prompts")
        assert (await session.client.list_prompts()).prompts == []


@pytest.mark.parametrize("fields", ["", "user-invocable: false", "disable-model-invocation: true"])
async def test_a_skill_of_the_same_name_wins(
    in_memory: ConnectHosted, skills: Path, make_skill: MakeSkill, fields: str
) -> None:
    make_skill("with_skills", description="Mine.", body="My own body.", fields=fields)
    async with in_memory(skills) as session:
        prompts = {prompt.name: prompt for prompt in (await session.client.list_prompts()).prompts}
        if fields.startswith("user"):
            assert "with_skills" not in prompts
            with pytest.raises(MCPError, match="for models only"):
                await session.client.get_prompt("with_skills", {"message": "x"})
        else:
            assert prompts["with_skills"].description == "Mine."
            assert "My own body." in await with_skills(session, "x")


def test_the_prompt_has_its_place_on_the_pages(skills: Path, make_skill: MakeSkill) -> None:
    make_skill("zoo")
    catalog: Catalog = Library(explicit_sources([skills]), current_environment).catalog
    for size in range(1, 7):
        snapshot = Snapshot(catalog, make_settings(page_size=size))
        listed, cursor = [], None
        while True:
            page = snapshot.prompts.page(cursor)
            assert len(page["prompts"]) <= size
            listed += names(page["prompts"])
            cursor = page.get("nextCursor")
            if cursor is None:
                break
        assert listed == ["brief", "git", "pdf", "with_skills", "zoo"]


async def test_each_decision_is_in_the_log_with_score_and_digest_and_without_the_message(
    in_memory: ConnectHosted, skills: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with in_memory(skills, tools=("skill_context",)) as session:
        with caplog.at_level(logging.INFO, "skills_core"):
            told = await session.client.call_tool("skill_context", {"message": "fill pdf forms secretly"})
    digest = told.structured_content["selected"]["digest"]
    assert f"context: selected pdf {digest} score " in caplog.text
    assert "secretly" not in caplog.text
    assert json.dumps(told.structured_content)


async def test_a_skill_that_a_message_calls_counts_as_used_and_one_that_is_found_does_not(
    in_memory: ConnectHosted, skills: Path, tmp_path: Path
) -> None:
    usage = UsageCounts(tmp_path / "usage.db")
    async with in_memory(skills) as session:
        session.host.usage = usage
        await with_skills(session, "/git now")
        await with_skills(session, "fill pdf forms")
    usage.write()
    assert read_counts(tmp_path / "usage.db") == {"git": 1}


def test_the_setting_and_the_function_inject_as_much() -> None:
    assert Settings().search.max_injected_chars == MAX_INJECTED_CHARS


async def test_a_caller_sets_least_score_number_and_tags(connect: Connect, make_skill: MakeSkill) -> None:
    make_skill("pdf-too", description=PDF, body="Shut {{arguments}}.", fields="tags: [Office]")
    make_skill("pdf", description=PDF, body="Shut {{arguments}}.", fields="tags: [web]")
    async with connect(**TOOL) as session:
        for given, typed, selected in (
            ({"top_k": "1"}, {"top_k": 1}, "pdf"),
            ({"tags": "office, print"}, {"tags": ["office", "print"]}, "pdf-too"),
            ({"tags": '["office"]'}, {"tags": "office"}, "pdf-too"),
            ({"exclude_tags": "web"}, {"exclude_tags": ["web"]}, "pdf-too"),
            ({"min_score": "1e6"}, {"min_score": 1e6}, None),
            ({"min_score": "0.1", "top_k": "1"}, {"min_score": 0.1, "top_k": "1"}, "pdf"),
        ):
            prompt = await session.client.get_prompt("with_skills", {"message": "fill pdf forms", **given})
            result = await session.client.call_tool("skill_context", {"message": "fill pdf forms", **typed})
            assert not result.is_error, result.content
            (told,) = prompt.messages
            assert told.content.text == "\n\n".join(block.text for block in result.content)
            found = result.structured_content["selected"]
            assert (found["name"] if found else None) == selected, given
            assert result.structured_content["menu"] == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"min_score": "high"}, "min_score must be a number, from 0 on"),
        ({"min_score": "-1"}, "min_score must be a number, from 0 on"),
        ({"min_score": "NaN"}, "min_score must be a number, from 0 on"),
        ({"min_score": "1e999"}, "min_score must be a number, from 0 on"),
        ({"top_k": "0"}, "top_k must be a whole number from 1 to 5"),
        ({"top_k": "6"}, "top_k must be a whole number from 1 to 5"),
        ({"top_k": "1.5"}, "top_k must be a whole number from 1 to 5"),
        ({"tags": ",".join("t" * 51)}, "tags may have at most 50 items"),
        ({"minscore": "1"}, "Did you mean 'min_score'?"),
    ],
)
async def test_a_choice_that_cannot_be_read_is_an_error_that_says_what_is_expected(
    given: dict[str, str], told: str, connect: Connect
) -> None:
    async with connect(**TOOL) as session:
        with pytest.raises(MCPError, match=re.escape(told)):
            await session.client.get_prompt("with_skills", {"message": "x", **given})
        typed = {name: value.split(",") if name == "tags" else value for name, value in given.items()}
        result = await session.client.call_tool("skill_context", {"message": "x", **typed})
        assert told in result.content[0].text
