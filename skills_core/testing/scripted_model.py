"""A model that follows a script, so that a test of a skill needs neither a network nor luck."""

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
    """Answers with `replies`, one after the other: a text, a call of a tool or several, or an error that is raised.

    `conversations` holds the messages of each request, and `tools` the names of the tools that were offered with it.
    """

    def __init__(self, *replies: Reply) -> None:
        """Follow the script from its beginning."""
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
