"""What a client sees and gets, over each transport in each protocol era."""

from __future__ import annotations

import base64
import logging
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, PromptReference, ResourceTemplateReference

from tests.conftest import MakeSkill
from tests.server.sessions import Connect, ConnectHosted

ODD_FILES = {
    "scripts/run me.py": b"print('spaces')\n",
    "references/100%#?.md": b"# odd\r\ncarriage returns stay\r\n",
    "assets/bom.txt": b"\xef\xbb\xbfwith a byte order mark",
    "assets/logo.png": bytes(range(256)),
    "assets/latin.txt": b"caf\xe9",
    "index.json": b"{}",
    "empty.txt": b"",
    "no-suffix": b"text without a suffix\n",
}


async def test_the_three_tools_are_there_and_the_enum_names_the_active_skills(
    connect: Connect, make_skill: MakeSkill
) -> None:
    make_skill("alpha")
    make_skill("beta")
    make_skill("broken", description="''")
    async with connect() as session:
        tools = (await session.client.list_tools()).tools
        assert [tool.name for tool in tools] == ["activate_skill", "read_skill_file", "find_skills"]
        assert await session.enum() == ["alpha", "beta"]
        assert "\n- alpha: " in (tools[0].description or "")
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)
        for tool in tools:
            Draft202012Validator.check_schema(tool.input_schema)


async def test_activation_text_is_the_same_bytes_as_tool_prompt_and_command(
    connect: Connect, make_skill: MakeSkill, skills: Path, transport: str
) -> None:
    make_skill("greet", body="Greet {{who}} in {{language}}.\n\nSee notes.md.", files={"notes.md": b"n"})
    arguments = {"who": "Ana & <Bo>", "language": "Latin"}
    # Its own tools read the disk, as the person at the command line does.
    async with connect(client_name="codex") as session:
        by_tool = await session.activate("greet", arguments=arguments)
        prompt = await session.client.get_prompt("greet", arguments)
        (message,) = prompt.messages
        assert message.content.text == f"{by_tool}\n\n/greet"
        assert "Greet Ana & <Bo> in Latin." in by_tool
        assert '<path name="notes.md"' in by_tool
    if transport == "stdio":
        command = [sys.executable, "-m", "server", "activate", "greet", str(skills), "--client", "codex"]
        flags = [flag for name, value in arguments.items() for flag in ("--param", f"{name}={value}")]
        printed = subprocess.run([*command, *flags], check=True, capture_output=True, cwd=Path(__file__).parents[3])
        assert printed.stdout.decode().removesuffix("\n") == by_tool


async def test_the_users_message_follows_the_skill_as_binding_context(connect: Connect, make_skill: MakeSkill) -> None:
    make_skill("greet")
    async with connect() as session:
        prompt = await session.client.get_prompt("greet", {"arguments": "only in French"})
        result = await session.client.call_tool("activate_skill", {"name": "greet", "message": "only in French"})
        (message,) = prompt.messages
        assert message.content.text == "\n\n".join(block.text for block in result.content)
        assert message.content.text.endswith("<user_request>\nonly in French\n</user_request>")


async def test_every_file_is_a_resource_and_reads_back_with_equal_bytes(
    connect: Connect, make_skill: MakeSkill
) -> None:
    folder = make_skill("files", files=ODD_FILES)
    async with connect(SKILLSERVE_PAGE_SIZE="4") as session:
        listed = await _all_resources(session.client)
        assert len(listed) == len(ODD_FILES) + 1
        for resource in listed:
            contents = (await session.client.read_resource(resource.uri)).contents[0]
            text = getattr(contents, "text", None)
            raw = text.encode() if text is not None else base64.b64decode(contents.blob)
            path = "SKILL.md" if resource.name == "files" else resource.name.removeprefix("files/")
            assert raw == (folder / path).read_bytes()
            assert resource.size == len(raw)
            assert contents.mime_type == resource.mime_type
        by_name = {resource.name: resource for resource in listed}
        assert by_name["files"].mime_type == "text/markdown"
        assert by_name["files"].annotations.priority > by_name["files/index.json"].annotations.priority
        assert by_name["files/assets/latin.txt"].mime_type == "text/plain"
        assert by_name["files/no-suffix"].mime_type == "text/plain"


async def _all_resources(client: Any) -> list[Any]:
    page = await client.list_resources()
    found = list(page.resources)
    while page.next_cursor:
        page = await client.list_resources(cursor=page.next_cursor)
        found += page.resources
    return found


async def test_a_nested_skills_file_is_listed_once_and_readable_through_both_skills(
    connect: Connect, make_skill: MakeSkill
) -> None:
    make_skill("outer")
    make_skill("outer/inner", files={"data.txt": b"inner data"})
    async with connect() as session:
        uris = [resource.uri for resource in await _all_resources(session.client)]
        assert sorted(uris) == sorted(set(uris))
        assert await session.enum() == ["inner", "outer"]
        for skill, path in (("outer", "inner/data.txt"), ("inner", "data.txt")):
            result = await session.client.call_tool("read_skill_file", {"skill": skill, "path": path})
            assert result.content[0].text == "inner data"


async def test_the_file_tool_gives_text_images_and_other_bytes_in_their_own_kind(
    connect: Connect, make_skill: MakeSkill
) -> None:
    make_skill("kinds", files={"a.md": b"text", "b.png": b"\x89PNG\x00\xff", "c.bin": b"\x00\xff"})
    async with connect() as session:
        kinds = {}
        for path in ("a.md", "b.png", "c.bin"):
            result = await session.client.call_tool("read_skill_file", {"skill": "kinds", "path": path})
            kinds[path] = result.content[0].type
        assert kinds == {"a.md": "text", "b.png": "image", "c.bin": "resource"}


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("activate_skill", {"name": "alhpa"}, "'alpha'"),
        ("activate_skill", {"nme": "x"}, "it has no argument 'nme'; it takes name, arguments, message"),
        ("activate_skill", {"message": "x"}, "name is missing; the call has message"),
        ("activate_skill", {"name": "alpha", "arguments": ["x"]}, "object of strings"),
        ("activate_skill", {"name": "manual"}, "for the user to call"),
        ("read_skill_file", {"skill": "alpha", "path": "notse.md"}, "'notes.md'"),
        ("read_skill_file", {"skill": "alpha", "path": "../beta/SKILL.md"}, "has no file"),
        ("read_skill_file", {"skill": "alpha", "path": "/etc/passwd"}, "has no file"),
        ("find_skills", {"query": "thing", "limit": 0}, "from 1 to 100"),
        ("find_skills", {"query": 3}, "query must be a string"),
        ("find_skills", {"query": "word " * 500}, "query may have at most 2000 characters"),
        ("find_skills", {"query": "x", "tags": ["t"] * 51}, "tags may have at most 50 items"),
        ("activate_skill", {"name": "alpha", "arguments": {"a": "x" * 100_001}}, "100000 characters"),
        ("activate_skill", {"name": "elsewhere"}, "it is excluded (missing_env"),
    ],
)
async def test_what_a_model_gets_wrong_is_answered_with_what_was_expected(
    skills: Path, make_skill: MakeSkill, tool: str, arguments: dict[str, Any], told: str, in_memory: ConnectHosted
) -> None:
    make_skill("alpha", files={"notes.md": b"n"})
    make_skill("manual", fields="disable-model-invocation: true")
    make_skill("elsewhere", fields="when:\n  requires:\n    env: [SKILLSERVE_NO_SUCH_VARIABLE]")
    async with in_memory(skills) as session:
        result = await session.client.call_tool(tool, arguments)
        assert result.is_error
        assert told in result.content[0].text


async def test_what_is_not_there_is_an_invalid_params_error_in_both_eras(
    connect: Connect, make_skill: MakeSkill
) -> None:
    make_skill("alpha")
    async with connect() as session:
        client = session.client
        calls: tuple[Callable[[], Awaitable[object]], ...] = (
            lambda: client.read_resource("skill://alpha/missing.md"),
            lambda: client.read_resource("skill://alpha/%2e%2e/alpha/SKILL.md"),
            lambda: client.read_resource("file:///etc/passwd"),
            lambda: client.list_resources(cursor="no cursor of ours"),
            lambda: client.get_prompt("nobody"),
            lambda: client.call_tool("no_such_tool", {}),
        )
        for call in calls:
            with pytest.raises(MCPError) as caught:
                await call()
            assert caught.value.code == INVALID_PARAMS


async def test_a_skill_for_users_only_is_a_prompt_but_in_no_enum_and_the_mirror(
    connect: Connect, make_skill: MakeSkill
) -> None:
    make_skill("for-users", fields="disable-model-invocation: true")
    make_skill("by-mention", fields="trigger: true")
    make_skill("for-models", fields="user-invocable: false")
    async with connect() as session:
        assert await session.enum() == ["for-models"]
        prompts = (await session.client.list_prompts()).prompts
        assert [prompt.name for prompt in prompts] == ["by-mention", "for-users", "with_skills"]
        description = (await session.client.list_tools()).tools[0].description
        assert "for-users" not in description


async def test_prompts_take_the_parameters_of_the_body_and_free_arguments(
    connect: Connect, make_skill: MakeSkill
) -> None:
    make_skill("report", body="{{a}} then {{b}} then {{a}}", fields='argument-hint: "[a] [short|long]"')
    async with connect() as session:
        prompt = (await session.client.list_prompts()).prompts[0]
        assert [argument.name for argument in prompt.arguments] == ["a", "b", "arguments"]
        assert "[short|long]" in prompt.arguments[-1].description


async def test_completions_cover_hinted_choices_and_the_resource_template(
    connect: Connect, make_skill: MakeSkill
) -> None:
    make_skill("report", body="{{a}} {{b}}", fields='argument-hint: "[a] [short|long]"', files={"x/y.md": b""})
    async with connect() as session:
        client = session.client
        reference = PromptReference(name="report")
        found = await client.complete(reference, {"name": "b", "value": "lo"})
        assert found.completion.values == ["long"]
        template = (await client.list_resource_templates()).resource_templates[0]
        by_template = ResourceTemplateReference(uri=template.uri_template)
        found = await client.complete(by_template, {"name": "skill", "value": ""})
        assert found.completion.values == ["report"]
        found = await client.complete(by_template, {"name": "path", "value": "y"}, {"skill": "report"})
        assert found.completion.values == ["x/y.md"]


async def test_find_skills_answers_in_the_shape_that_its_schema_promises(
    connect: Connect, make_skill: MakeSkill
) -> None:
    make_skill("pdf-forms", description="Fill PDF forms.")
    make_skill("csv-tables", description="Profile CSV tables, never a pdf.")
    async with connect() as session:
        tools = {tool.name: tool for tool in (await session.client.list_tools()).tools}
        result = await session.client.call_tool("find_skills", {"query": "fill a pdf form"})
        Draft202012Validator(tools["find_skills"].output_schema).validate(result.structured_content)
        best, second = result.structured_content["matches"]
        assert (best["name"], best["why"], best["weak"]) == ("pdf-forms", "pdf, form, fill", False)
        assert (second["name"], second["why"]) == ("csv-tables", "weak: pdf")
        assert result.structured_content.keys() == {"matches"}
        assert best.keys() == {"name", "description", "why", "weak", "uri"}


async def test_find_skills_offers_a_menu_where_the_first_ones_lie_close_together(
    connect: Connect, make_skill: MakeSkill
) -> None:
    for name in ("first", "other"):
        make_skill(name, description="Fill PDF forms.")
    make_skill("third", description="Convert a page of text to a PDF of many pages.")
    async with connect() as session:
        tools = {tool.name: tool for tool in (await session.client.list_tools()).tools}
        result = await session.client.call_tool("find_skills", {"query": "fill pdf forms"})
        Draft202012Validator(tools["find_skills"].output_schema).validate(result.structured_content)
        assert result.structured_content["menu"] == ["first", "other"]
        assert [match["name"] for match in result.structured_content["matches"]] == ["first", "other", "third"]


async def test_find_skills_finds_what_was_edited_meanwhile(connect: Connect, make_skill: MakeSkill) -> None:
    make_skill("moving", description="Fill forms.")
    async with connect() as session:
        assert (await session.client.call_tool("find_skills", {"query": "zebra"})).structured_content["matches"] == []
        make_skill("moving", description="Draw a zebra.")
        await session.until_told("tools")
        (match,) = (await session.client.call_tool("find_skills", {"query": "zebra"})).structured_content["matches"]
        assert match["name"] == "moving"


async def test_without_an_active_skill_there_is_no_tool_and_no_instruction(
    connect: Connect, make_skill: MakeSkill
) -> None:
    make_skill("broken", description="''")
    async with connect() as session:
        client = session.client
        assert (await client.list_tools()).tools == []
        assert (await client.list_prompts()).prompts == []
        assert (await client.list_resources()).resources == []
        assert (await client.list_resource_templates()).resource_templates == []
        assert client.instructions is None


async def test_arguments_left_empty_and_free_text_mean_the_same_to_tool_and_prompt(
    connect: Connect, make_skill: MakeSkill
) -> None:
    make_skill("report", body="As {{format}}.")
    arguments = {"format": "", "arguments": "make it short"}
    async with connect() as session:
        prompt = await session.client.get_prompt("report", arguments)
        result = await session.client.call_tool("activate_skill", {"name": "report", "arguments": arguments})
        (message,) = prompt.messages
        assert message.content.text == "\n\n".join(block.text for block in result.content)
        assert "{{format}}" in result.content[0].text


async def test_files_of_a_skill_that_only_users_may_call_can_be_read(connect: Connect, make_skill: MakeSkill) -> None:
    make_skill("manual", fields="disable-model-invocation: true", files={"a.md": b"a"})
    async with connect() as session:
        assert [tool.name for tool in (await session.client.list_tools()).tools] == ["read_skill_file"]
        result = await session.client.call_tool("read_skill_file", {"skill": "manual", "path": "a.md"})
        assert result.content[0].text == "a"


async def test_beyond_its_limit_the_enum_holds_the_first_names_and_any_other_is_accepted(
    connect: Connect, make_skill: MakeSkill
) -> None:
    for name in ("a", "b", "c"):
        make_skill(name)
    async with connect(SKILLSERVE_ENUM_LIMIT="2") as session:
        assert await session.enum() == ["a", "b"]
        assert "<skill_content" in await session.activate("c")


async def test_completed_template_values_expand_to_uris_that_can_be_read(
    connect: Connect, make_skill: MakeSkill
) -> None:
    make_skill("odd", files={"100%41.md": b"x", "we?ird#.md": b"x", "a b": b"x"})
    async with connect() as session:
        reference = ResourceTemplateReference(uri="skill://{+skill}/{+path}")
        found = await session.client.complete(reference, {"name": "path", "value": ""}, {"skill": "odd"})
        assert len(found.completion.values) == 4
        for path in found.completion.values:
            assert (await session.client.read_resource(f"skill://odd/{path}")).contents


async def test_what_a_search_found_is_in_the_log_with_scores_and_digests(
    in_memory: ConnectHosted, skills: Path, make_skill: MakeSkill, caplog: pytest.LogCaptureFixture
) -> None:
    make_skill("zebra-a", description="Draw a zebra.")
    async with in_memory(skills) as session:
        with caplog.at_level(logging.INFO, logger="server.protocol.tools.find_skills"):
            await session.client.call_tool("find_skills", {"query": "zebra"})
            await session.client.call_tool("find_skills", {"query": "giraffe"})
    first, second = (record.message for record in caplog.records if record.name == "server.protocol.tools.find_skills")
    assert re.fullmatch(r"found: zebra-a sha256:[0-9a-f]{64} score [0-9.]+", first)
    assert second == "found: nothing"
