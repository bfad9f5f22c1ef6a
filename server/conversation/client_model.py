"""The client's own model, as a model of pydantic-ai: messages are converted to those of MCP sampling and back.

This module imports pydantic-ai, which takes a second, so it is imported when a run begins.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import mcp_types as types
from pydantic_ai.exceptions import ModelAPIError, UnexpectedModelBehavior
from pydantic_ai.messages import (
    ERROR_OUTCOMES,
    BinaryContent,
    FilePart,
    FinishReason,
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.usage import RequestUsage

from server.conversation.errors import ExchangeError, UnusableAnswerError
from skills_core.diagnostics import one_line

if TYPE_CHECKING:
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import ToolDefinition

    from server.conversation.client_exchange import ClientExchange

    Block = types.TextContent | types.ImageContent | types.AudioContent | types.ToolUseContent | types.ToolResultContent

DEFAULT_MAX_TOKENS = 16_384
"""The default limit of an answer's tokens; sampling requires a number."""

_MAX_NAME = 100

_FINISH: dict[str, FinishReason] = {
    "endTurn": "stop",
    "stopSequence": "stop",
    "maxTokens": "length",
    "toolUse": "tool_call",
}


def request_of(
    messages: Sequence[ModelMessage], settings: ModelSettings, parameters: ModelRequestParameters
) -> types.CreateMessageRequest:
    """Return the sampling request for a conversation.

    Raises:
        UnexpectedModelBehavior: sampling cannot express a part of a message.
    """
    tools = [_tool(each) for each in (*parameters.declared_function_tools, *parameters.output_tools)]
    choice = types.ToolChoice(mode="auto" if parameters.allow_text_output else "required") if tools else None
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(
            messages=[message for each in messages for message in _messages(each)],
            system_prompt=_system_prompt(messages, parameters) or None,
            include_context="none",
            max_tokens=settings.get("max_tokens") or DEFAULT_MAX_TOKENS,
            temperature=settings.get("temperature"),
            stop_sequences=settings.get("stop_sequences"),
            # A skill's instructions must be followed exactly; otherwise the choice of model is the client's.
            model_preferences=types.ModelPreferences(intelligence_priority=0.8),
            tools=tools or None,
            tool_choice=choice,
        )
    )


def response_of(answer: types.CreateMessageResultWithTools, tools: Iterable[str]) -> ModelResponse:
    """Return the response of the client's model, which was offered `tools`; sampling does not report token counts.

    Raises:
        UnexpectedModelBehavior: the answer is not that of a model.
    """
    if answer.role != "assistant":
        raise UnexpectedModelBehavior(f"the client answered in the role {answer.role!r}, expected 'assistant'")
    parts = [part for block in answer.content_as_list if (part := _response_part(block)) is not None]
    calls = [part.tool_call_id for part in parts if isinstance(part, ToolCallPart)]
    if calls and not [*tools]:
        raise UnexpectedModelBehavior("the client's model calls a tool, but it was offered none")
    if len(set(calls)) < len(calls):
        raise UnexpectedModelBehavior("the client's model uses one id for several tool calls")
    if not parts:
        raise UnexpectedModelBehavior("the client's answer is empty")
    return ModelResponse(
        parts=parts,
        usage=RequestUsage(unmeasured_requests=1),
        model_name=one_line(answer.model)[:_MAX_NAME] or None,
        finish_reason=_FINISH.get(answer.stop_reason or ""),
    )


def _tool(definition: ToolDefinition) -> types.Tool:
    schema = definition.parameters_json_schema
    return types.Tool(name=definition.name, description=definition.description, input_schema=schema)


def _system_prompt(messages: Sequence[ModelMessage], parameters: ModelRequestParameters) -> str:
    requests = [message for message in messages if isinstance(message, ModelRequest)]
    texts = [part.content for each in requests for part in each.parts if isinstance(part, SystemPromptPart)]
    if parameters.instruction_parts is not None:
        instructions = InstructionPart.join(parameters.instruction_parts)
    else:
        instructions = next((each.instructions for each in reversed(requests) if each.instructions), None)
    return "\n\n".join([*texts, *([instructions] if instructions else [])])


def _messages(message: ModelMessage) -> list[types.SamplingMessage]:
    """Return the sampling messages for a message; tool results come first, in a message of their own.

    Only tool calls and tool results are sent as lists: clients of older revisions accept single blocks alone.
    """
    if isinstance(message, ModelResponse):
        blocks = [block for part in message.parts if (block := _response_block(part)) is not None]
        if any(isinstance(block, types.ToolUseContent) for block in blocks):
            return [types.SamplingMessage(role="assistant", content=blocks)]
        return [types.SamplingMessage(role="assistant", content=block) for block in blocks]
    results: list[Block] = []
    others: list[Block] = []
    for part in message.parts:
        if isinstance(part, ToolReturnPart):
            results.append(_tool_result(part))
        elif isinstance(part, UserPromptPart):
            others += _prompt_blocks(part)
        elif not isinstance(part, SystemPromptPart):
            raise UnexpectedModelBehavior(f"sampling cannot carry a {part.part_kind}")
    first = [types.SamplingMessage(role="user", content=results)] if results else []
    return [*first, *(types.SamplingMessage(role="user", content=block) for block in others)]


def _response_block(part: ModelResponsePart) -> Block | None:
    if isinstance(part, ToolCallPart):
        return types.ToolUseContent(name=part.tool_name, id=part.tool_call_id, input=part.args_as_dict())
    if isinstance(part, TextPart) and part.content:
        return types.TextContent(text=part.content)
    if isinstance(part, FilePart):
        return _media(part.content)
    # Thinking parts are specific to a provider; a client cannot use them.
    return None


def _tool_result(part: ToolReturnPart) -> types.ToolResultContent:
    text = types.TextContent(text=part.model_response_str(wrap_if_error=False))
    files = [_media(file) for file in part.files if isinstance(file, BinaryContent)]
    failed = part.outcome in ERROR_OUTCOMES
    return types.ToolResultContent(tool_use_id=part.tool_call_id, content=[text, *files], is_error=failed)


def _prompt_blocks(part: UserPromptPart) -> list[Block]:
    chunks: Sequence[Any] = [part.content] if isinstance(part.content, str) else part.content
    return [types.TextContent(text=chunk) if isinstance(chunk, str) else _media(chunk) for chunk in chunks]


def _media(content: object) -> types.ImageContent | types.AudioContent:
    if isinstance(content, BinaryContent) and content.is_image:
        return types.ImageContent(data=content.base64, mime_type=content.media_type)
    if isinstance(content, BinaryContent) and content.is_audio:
        return types.AudioContent(data=content.base64, mime_type=content.media_type)
    raise UnexpectedModelBehavior(f"sampling cannot carry {type(content).__name__}, only images and audio")


def _response_part(block: Block) -> ModelResponsePart | None:
    match block:
        case types.TextContent():
            return TextPart(block.text) if block.text else None
        case types.ToolUseContent():
            if not block.id or not block.name:
                raise UnexpectedModelBehavior("the client's model calls a tool without a name or an id")
            return ToolCallPart(block.name, block.input, tool_call_id=block.id)
        case types.ImageContent() | types.AudioContent():
            try:
                data = base64.b64decode(block.data, validate=True)
            except (binascii.Error, ValueError):
                raise UnexpectedModelBehavior("the client's answer holds a file that is not base64") from None
            return FilePart(BinaryContent(data, media_type=block.mime_type))
        case _:
            raise UnexpectedModelBehavior("the client's model answers with a tool result")


CLIENT_MODEL = "client"
"""The model's name in settings, outcomes and errors."""


class ClientModel(Model):
    """The client's model, used by sampling, with the tools of a run if the client supports them."""

    # Sampling has no fields for them. They only tune an answer, so they are left out silently.
    unsupported_settings = frozenset({"parallel_tool_calls", "seed", "top_k", "top_p", "extra_body", "extra_headers"})

    def __init__(self, exchange: ClientExchange) -> None:
        """Ask through `exchange`."""
        tools = exchange.can_sample_with_tools
        profile = ModelProfile(supports_tools=tools, default_structured_output_mode="tool" if tools else "prompted")
        super().__init__(profile=profile)
        self._exchange = exchange

    @property
    def model_name(self) -> str:
        """`client`; each answer names the model behind it."""
        return CLIENT_MODEL

    @property
    def system(self) -> str:
        """The provider's name."""
        return "mcp"

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return the next answer of the client's model.

        Raises:
            ModelAPIError: the client cannot be asked, refused, or did not answer.
            UnexpectedModelBehavior: its answer is not that of a model.
        """
        # Checked first: preparing the parameters fails without tool support, and does not say what to do.
        self._check([tool.name for tool in model_request_parameters.function_tools])
        settings, parameters = self.prepare_request(model_settings, model_request_parameters)
        request = request_of(messages, settings or {}, parameters)
        names = [tool.name for tool in request.params.tools or []]
        self._check(names)
        try:
            answer = await self._exchange.ask(request)
        except UnusableAnswerError as error:
            raise UnexpectedModelBehavior(str(error)) from None
        except ExchangeError as error:
            raise ModelAPIError(CLIENT_MODEL, str(error)) from None
        return response_of(answer, names)

    def _check(self, tools: list[str]) -> None:
        if not tools or self._exchange.can_sample_with_tools:
            return
        can = "offers its model without tools" if self._exchange.can_sample else "does not offer its model"
        message = (
            f"the client {can} (it did not declare sampling.tools), but this run has tools ({', '.join(tools)[:200]}): "
            "run a skill that needs none, use a client that declares it, or configure a model of the server"
        )
        raise ModelAPIError(CLIENT_MODEL, message)
