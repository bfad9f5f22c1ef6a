"""The client's model as the model of a run: whole runs in both eras, and valid and invalid answers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import mcp_types as types
import pytest
from mcp_types import TextContent, ToolUseContent
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import (
    BinaryContent,
    DocumentUrl,
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from server.conversation.client_model import DEFAULT_MAX_TOKENS, request_of, response_of
from tests.server.conversation.clients import Callbacks, Connect, allow

RUN = {"agent": {"message": "do it"}}
WITHOUT_TOOLS = {"agent": {"message": "do it", "tools": False}}


def answer(*blocks: Any, role: Any = "assistant", stop: str = "endTurn") -> types.CreateMessageResultWithTools:
    return types.CreateMessageResultWithTools(role=role, content=[*blocks], model="some-model", stop_reason=stop)


def call(name: str = "danger", number: str = "1", **arguments: Any) -> ToolUseContent:
    return ToolUseContent(name=name, id=number, input=arguments)


def model(*answers: Any) -> tuple[Callable[[Any], Any], list[types.CreateMessageRequestParams]]:
    """Return a model that gives these answers in turn, and what it is asked."""
    asked: list[types.CreateMessageRequestParams] = []

    async def sample(params: types.CreateMessageRequestParams) -> Any:
        asked.append(params)
        return answers[min(len(asked), len(answers)) - 1]

    return sample, asked


async def test_a_run_with_the_clients_model_calls_tools_and_asks_the_user(connect: Connect) -> None:
    both = answer(TextContent(text="I try"), call(x="1"), call(number="2", x="2"), stop="toolUse")
    sample, asked = model(both, answer(TextContent(text="all done")))
    async with connect(Callbacks(sample=sample, elicit=allow)) as connection:
        assert await connection.said(RUN) == ["all done [2 requests, 2 unmeasured]"]
        assert sorted(line for line in connection.logged() if line.startswith("danger")) == [
            "danger 1: True",
            "danger 2: True",
        ]
    first, second = asked
    assert first.system_prompt == second.system_prompt == "the skill's body"
    assert (first.include_context, first.max_tokens) == ("none", DEFAULT_MAX_TOKENS)
    assert [tool.name for tool in first.tools or []] == ["danger"]
    assert [message.role for message in second.messages] == ["user", "assistant", "user"]
    results = [block for block in second.messages[-1].content_as_list if isinstance(block, types.ToolResultContent)]
    assert [(result.tool_use_id, result.content[0]) for result in results] == [
        ("1", TextContent(text="did 1")),
        ("2", TextContent(text="did 2")),
    ]


async def test_a_client_without_sampling_tools_serves_only_runs_without_tools(connect: Connect) -> None:
    sample, asked = model(answer(TextContent(text="all done")))
    async with connect(Callbacks(sample=sample, sampling=types.SamplingCapability())) as connection:
        (refused,) = await connection.said(RUN)
        assert "did not declare sampling.tools), but this run has tools (danger)" in refused
        assert asked == []
        assert await connection.said(WITHOUT_TOOLS) == ["all done [1 requests, 1 unmeasured]"]
        assert asked[0].tools is None


async def test_structured_output_is_requested_by_a_tool_or_by_a_prompt(connect: Connect) -> None:
    run = {"agent": {"message": "score it", "tools": False, "form": True}}
    sample, asked = model(answer(call("final_result", score=0.5), stop="toolUse"))
    async with connect(Callbacks(sample=sample)) as connection:
        assert await connection.said(run) == ["score=0.5 [1 requests, 1 unmeasured]"]
    assert asked[0].tool_choice == types.ToolChoice(mode="required")
    sample, asked = model(answer(TextContent(text='{"score": 0.5}')))
    async with connect(Callbacks(sample=sample, sampling=types.SamplingCapability())) as connection:
        assert await connection.said(run) == ["score=0.5 [1 requests, 1 unmeasured]"]
    assert asked[0].tools is None
    assert '"score"' in (asked[0].system_prompt or "")


async def test_a_client_that_cannot_sample_is_a_model_error(connect: Connect) -> None:
    async with connect(Callbacks()) as connection:
        for step in (RUN, WITHOUT_TOOLS):
            (said,) = await connection.said(step)
            assert said.startswith("ModelAPIError: the client")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (answer(TextContent(text="x"), role="user"), "in the role 'user'"),
        (answer(), "is empty"),
        (answer(TextContent(text="")), "is empty"),
        (answer(call(number="")), "without a name or an id"),
        (answer(call(name="")), "without a name or an id"),
        (answer(call(), call()), "one id for several tool calls"),
        (answer(types.ToolResultContent(tool_use_id="1")), "with a tool result"),
        (answer(types.ImageContent(data="no!", mime_type="image/png")), "is not base64"),
    ],
    ids=["role", "nothing", "no text", "no id", "no name", "same id", "result", "no image"],
)
def test_an_unusable_answer_is_an_error_that_says_why(given: types.CreateMessageResultWithTools, why: str) -> None:
    with pytest.raises(UnexpectedModelBehavior, match=why):
        response_of(given, ["danger"])


def test_a_tool_call_is_an_error_if_no_tools_were_offered() -> None:
    with pytest.raises(UnexpectedModelBehavior, match="was offered none"):
        response_of(answer(call()), [])


async def test_a_malformed_answer_is_a_model_error_and_the_connection_lives(connect: Connect) -> None:
    sample, _ = model(answer(), answer(TextContent(text="fine")))
    async with connect(Callbacks(sample=sample)) as connection:
        assert await connection.said(WITHOUT_TOOLS) == ["UnexpectedModelBehavior: the client's answer is empty"]
        assert await connection.said(WITHOUT_TOOLS) == ["fine [1 requests, 1 unmeasured]"]


def test_a_response_has_the_model_name_and_the_finish_reason() -> None:
    for stop, reason in [("endTurn", "stop"), ("maxTokens", "length"), ("toolUse", "tool_call"), ("other", None)]:
        said = response_of(answer(TextContent(text="x"), stop=stop), [])
        assert (said.finish_reason, said.model_name) == (reason, "some-model")
        assert said.usage.unmeasured_requests == 1


def test_messages_keep_their_order_and_only_tool_calls_and_results_are_lists() -> None:
    image = BinaryContent(b"\x89PNG", media_type="image/png")
    messages: list[ModelMessage] = [
        ModelRequest([SystemPromptPart("be brief"), UserPromptPart(["look", image])]),
        ModelResponse([ThinkingPart("hm"), ToolCallPart("danger", '{"x": "1"}', tool_call_id="1")]),
        ModelRequest([ToolReturnPart("danger", {"a": 1}, tool_call_id="1", outcome="failed"), UserPromptPart("on")]),
        ModelResponse([ThinkingPart("only thoughts")]),
    ]
    parameters = ModelRequestParameters(
        output_tools=[ToolDefinition(name="result", parameters_json_schema={"type": "object"})],
        allow_text_output=False,
        instruction_parts=[InstructionPart(content="the body")],
    )
    params = request_of(messages, {"max_tokens": 5, "temperature": 0.5, "stop_sequences": ["."]}, parameters).params
    assert params.system_prompt == "be brief\n\nthe body"
    assert (params.max_tokens, params.temperature, params.stop_sequences) == (5, 0.5, ["."])
    assert params.tool_choice == types.ToolChoice(mode="required")
    assert [(each.role, [block.type for block in each.content_as_list]) for each in params.messages] == [
        ("user", ["text"]),
        ("user", ["image"]),
        ("assistant", ["tool_use"]),
        ("user", ["tool_result"]),
        ("user", ["text"]),
    ]
    assert [isinstance(each.content, list) for each in params.messages] == [False, False, True, True, False]
    (result,) = params.messages[3].content_as_list
    assert isinstance(result, types.ToolResultContent)
    assert (result.is_error, result.content) == (True, [TextContent(text='{"a":1}')])


def test_content_that_sampling_cannot_carry_is_an_error() -> None:
    with pytest.raises(UnexpectedModelBehavior, match="sampling cannot carry DocumentUrl"):
        request_of([ModelRequest([UserPromptPart([DocumentUrl("http://x/y.pdf")])])], {}, ModelRequestParameters())


def test_text_of_a_tool_result_is_never_wrapped_in_another_error() -> None:
    failed = ToolReturnPart("danger", "denied", tool_call_id="1", outcome="failed")
    request = request_of([ModelRequest([failed])], {}, ModelRequestParameters())
    (result,) = request.params.messages[0].content_as_list
    assert isinstance(result, types.ToolResultContent)
    assert result.content == [TextContent(text="denied")]


def test_a_part_of_text_stays_what_it_was() -> None:
    said = response_of(answer(TextContent(text="a"), TextContent(text="b")), [])
    assert said.parts == [TextPart("a"), TextPart("b")]


def test_pydantic_ai_is_not_imported_before_a_run() -> None:
    code = "import sys, server.protocol.server, server.conversation.elicitation; sys.exit('pydantic_ai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
