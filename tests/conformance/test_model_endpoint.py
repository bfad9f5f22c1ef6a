from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from conformance.clients.dialects import dialect_of
from conformance.clients.dialects.messages import Call, Request
from conformance.clients.endpoint import endpoint, serving
from conformance.clients.recording import Recorder, Recording
from conformance.clients.scripted_model import Play, ScriptedModel

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

ARGUMENTS = {"name": "release-notes", "message": 'ünïcödé "quoted"'}
OFFERED = "mcp__skills__activate_skill"
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "enum": ["release-notes"]}}}
ASKED = "Write the release notes."


def play(first: Request) -> Play:
    assert ASKED in first.text
    assert first.tools[0].schema == SCHEMA
    request = yield Call("activate_skill", ARGUMENTS)
    assert request.results == ("the body",)


@asynccontextmanager
async def asked(folder: Path) -> AsyncGenerator[str]:
    """Serve the script; afterwards, the recording has its step, and the script has read the result."""
    path = folder / "requests.jsonl"
    async with serving(endpoint(ScriptedModel(play), Recorder(path))) as address:
        yield address
    first, second = Recording.read(path).exchanges
    assert first.step
    assert first.step.arguments == ARGUMENTS
    assert second.step is None
    assert second.request.results == ("the body",)


def test_results_that_are_messages_of_the_user_are_results() -> None:
    retry = "Now let's retry: take care not to repeat previous errors!"
    texts = [f"New task:\nWrite.\nError:\nis required\n{retry}\n", "Observation:\nthe body", "What does\nError:\nmean?"]
    dialect = dialect_of("/v1/chat/completions")
    assert dialect
    request = dialect.read({"messages": [{"role": "user", "content": text} for text in texts]})
    assert request.results == (f"is required\n{retry}\n", "the body")


async def test_anthropic_messages_stream_to_the_sdk(tmp_path: Path) -> None:
    from anthropic import AsyncAnthropic  # noqa: PLC0415 - its import takes a second

    messages: list[Any] = [{"role": "user", "content": ASKED}]
    tools: list[Any] = [{"name": OFFERED, "description": "Activate.", "input_schema": SCHEMA}]
    async with asked(tmp_path) as address, AsyncAnthropic(base_url=address, api_key="-") as api:
        async with api.messages.stream(model="m", max_tokens=9, messages=messages, tools=tools) as stream:
            answer = await stream.get_final_message()
        [call] = answer.content
        assert call.type == "tool_use"
        assert (call.name, call.input) == (OFFERED, ARGUMENTS)
        content = [{"type": "tool_result", "tool_use_id": call.id, "content": "the body"}]
        messages += [answer.model_dump(include={"role", "content"}), {"role": "user", "content": content}]
        last = await api.messages.create(model="m", max_tokens=9, messages=messages, tools=tools)
        assert (last.stop_reason, last.content[0].type) == ("end_turn", "text")


async def test_chat_completions_stream_to_the_sdk(tmp_path: Path) -> None:
    from openai import AsyncOpenAI  # noqa: PLC0415 - its import takes a second

    messages: list[Any] = [{"role": "user", "content": ASKED}]
    tools: list[Any] = [{"type": "function", "function": {"name": OFFERED, "parameters": SCHEMA}}]
    async with asked(tmp_path) as address, AsyncOpenAI(base_url=address, api_key="-") as api:
        async with api.chat.completions.stream(model="m", messages=messages, tools=tools) as stream:
            message = (await stream.get_final_completion()).choices[0].message
        [call] = message.tool_calls or []
        assert (call.function.name, json.loads(call.function.arguments)) == (OFFERED, ARGUMENTS)
        messages += [message.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": "the body"}]
        last = await api.chat.completions.create(model="m", messages=messages, tools=tools)
        assert last.choices[0].finish_reason == "stop"


async def test_responses_stream_to_the_sdk(tmp_path: Path) -> None:
    from openai import AsyncOpenAI  # noqa: PLC0415 - its import takes a second

    items: list[Any] = [{"role": "user", "content": ASKED}]
    tools: list[Any] = [{"type": "function", "name": OFFERED, "parameters": SCHEMA, "strict": False}]
    async with asked(tmp_path) as address, AsyncOpenAI(base_url=address, api_key="-") as api:
        async with api.responses.stream(model="m", input=items, tools=tools) as stream:
            [call] = (await stream.get_final_response()).output
        assert call.type == "function_call"
        assert (call.name, json.loads(call.arguments)) == (OFFERED, ARGUMENTS)
        items += [
            {"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": call.arguments},
            {"type": "function_call_output", "call_id": call.call_id, "output": "the body"},
        ]
        last = await api.responses.create(model="m", input=items, tools=tools)
        assert last.output_text == "done"


async def test_gemini_generates_content(tmp_path: Path) -> None:
    contents: list[Any] = [{"role": "user", "parts": [{"text": ASKED}]}]
    tools: list[Any] = [{"functionDeclarations": [{"name": OFFERED, "parametersJsonSchema": SCHEMA}]}]
    async with asked(tmp_path) as address, httpx2.AsyncClient() as http:
        model = f"{address}/v1beta/models/m"
        asking = {"contents": contents, "tools": tools}
        streamed = await http.post(f"{model}:streamGenerateContent", params={"alt": "sse"}, json=asking)
        event = json.loads(streamed.text.removeprefix("data: "))
        said = event["candidates"][0]["content"]
        assert said["parts"] == [{"functionCall": {"name": OFFERED, "args": ARGUMENTS}}]
        result = {"functionResponse": {"name": OFFERED, "response": {"output": "the body"}}}
        contents += [said, {"role": "user", "parts": [result]}]
        whole = await http.post(f"{model}:generateContent", json={"contents": contents, "tools": tools})
        assert whole.json()["candidates"][0]["content"]["parts"] == [{"text": "done"}]


async def test_a_request_without_tools_advances_no_script_and_other_paths_are_unknown(tmp_path: Path) -> None:
    async with (
        asked(tmp_path) as address,
        httpx2.AsyncClient(base_url=f"{address}/v1/") as http,
    ):
        message = {"role": "user", "content": ASKED}
        title = await http.post("chat/completions", json={"messages": [message]})
        assert title.json()["choices"][0]["message"]["content"] == "ok"
        assert (await http.get("models")).json()["data"][0]["id"] == "scripted"
        assert (await http.post("telemetry", json={})).status_code == 404
        tools = [{"type": "function", "function": {"name": OFFERED, "parameters": SCHEMA}}]
        await http.post("chat/completions", json={"messages": [message], "tools": tools})
        result = {"role": "tool", "content": [{"type": "text", "text": "the body"}]}
        await http.post("chat/completions", json={"messages": [message, result], "tools": tools})


@pytest.mark.parametrize("hidden", ["ToolSearch", "tool_search"])
def test_a_deferred_tool_is_searched_once_and_then_called(hidden: str) -> None:
    def one(_first: Request) -> Play:
        yield Call("find_skills", {"query": "q"})

    dialect = dialect_of("/messages")
    assert dialect
    model = ScriptedModel(one)
    before = dialect.read({"tools": [{"name": hidden}, {"name": "tool_call"}]})
    [search] = model.answer(before).parts
    assert search == Call(hidden, {"query": "select:mcp__skills__find_skills"})
    reply = model.answer(before)
    assert reply.step == Call("find_skills", {"query": "q"})
    assert reply.parts == [Call("tool_call", {"name": "mcp__skills__find_skills", "arguments": {"query": "q"}})]


def test_in_code_mode_a_program_calls_the_tool() -> None:
    def one(_first: Request) -> Play:
        yield Call("find_skills", {"query": "q"})

    dialect = dialect_of("/responses")
    assert dialect
    tools: list[Any] = [{"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}]
    request = dialect.read({"input": [{"type": "additional_tools", "tools": tools}]})
    reply = ScriptedModel(one).answer(request)
    assert reply.parts == [Call("exec", 'text(await tools.mcp__skills__find_skills({"query": "q"}))', "functions")]
    [item] = dialect.answer(reply.parts, "m")["output"]
    assert (item["type"], item["namespace"]) == ("custom_tool_call", "functions")
