"""A model that follows a script, so that tests of skills are deterministic and need no network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from skills_core.testing.script import Call

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models.function import AgentInfo

    from skills_core.testing.script import Reply

__all__ = ["ScriptedModel"]


class ScriptedModel(FunctionModel):
    """Answers with `replies`, one by one: a text, one or several tool calls, or an exception to raise.

    `conversations` holds the messages of each request, and `tools` the names of the tools offered with it.
    """

    def __init__(self, *replies: Reply) -> None:
        """Start at the first reply."""
        super().__init__(self._next, model_name="scripted")
        self._replies = replies
        self.conversations: list[list[ModelMessage]] = []
        self.tools: list[tuple[str, ...]] = []

    def _next(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(self.conversations) >= len(self._replies):
            raise AssertionError(f"The script has {len(self._replies)} replies, and the model was asked once more.")
        reply = self._replies[len(self.conversations)]
        self.conversations.append(list(messages))
        self.tools.append(tuple(tool.name for tool in info.function_tools))
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, str):
            return ModelResponse([TextPart(reply)])
        calls = [reply] if isinstance(reply, Call) else reply
        return ModelResponse(
            [
                ToolCallPart(
                    call.tool,
                    call.arguments if isinstance(call.arguments, str) else dict(call.arguments),
                    f"call-{len(self.conversations)}-{number}",
                )
                for number, call in enumerate(calls)
            ]
        )
